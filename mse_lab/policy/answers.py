"""What a loaded policy reads and answers, by which two of them are told apart.

Files and weights do not say all that decides a policy. The token ids of the prompts do, the
names of the parameters that count, and the logits after the first prompt, to the bit:
another adapter, scaling, setting, tokenizer or set of frozen parameters gives others.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from mse_lab.policy.policy import Policy


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute by one thread: bits do not depend then on how many there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _first_answer(policy: Policy, tokens: Sequence[int]) -> bytes:
    """The logits after a prompt; where some parameters count, how the largest moves, too.

    A LoRA adapter that is new changes no logit, whatever its scaling: B is zero.
    """
    counted, parts = [*policy.parameters.values()], []
    some = sum(map(torch.numel, counted)) < sum(map(torch.numel, policy.model.parameters()))
    inputs = torch.tensor([list(tokens)], device=policy.device)
    with _one_thread(), torch.set_grad_enabled(some), policy.differentiable():
        logits = policy.model(input_ids=inputs).logits[0, -1]
        if some:
            moved = torch.autograd.grad(logits.max(), counted, allow_unused=True)
            parts = [one.double().norm()[None] for one in moved if one is not None]
    return b"".join(
        one.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        for one in [logits, *parts]
    )


def identify_answers(policy: Policy, tokens: Sequence[Sequence[int]]) -> dict[str, str]:
    """Hash what a loaded policy reads, what of it counts, and what it answers, by part."""
    read = [list(map(list, tokens)), sorted(policy.end_tokens)]
    parts = {
        "reading of the prompts (tokens, end tokens)": json.dumps(read).encode(),
        "set of parameters that count": json.dumps(sorted(policy.parameters)).encode(),
        "answer of the model to the first prompt": _first_answer(policy, tokens[0]),
    }
    return {
        part: f"sha256:{hashlib.sha256(content).hexdigest()}"
        for part, content in parts.items()
    }
