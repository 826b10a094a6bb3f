"""What a loaded policy reads and answers, by which two of them are told apart.

One in memory has no files: all of its parameters and buffers count, by their bytes.

Files and weights do not say all that decides a policy. The token ids of the prompts do, the
names of the parameters that count, and the logits after the first prompt, to the bit:
another adapter, scaling, setting, tokenizer or set of frozen parameters gives others.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from mse_lab.data.identity import tensor_bytes
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
        logits = policy.model(input_ids=inputs, use_cache=False).logits[0, -1]
        if some:
            moved = torch.autograd.grad(logits.max(), counted, allow_unused=True)
            parts = [one.double().norm()[None] for one in moved if one is not None]
    return b"".join(map(tensor_bytes, [logits, *parts]))


def _identify_weights(model: nn.Module) -> str:
    """Hash the names, types, shapes and bytes of a model's parameters and buffers."""
    hashed = hashlib.sha256()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        kind = [name, str(tensor.dtype), list(tensor.shape)]
        hashed.update(json.dumps(kind).encode() + tensor_bytes(tensor))
    return f"sha256:{hashed.hexdigest()}"


def identify_answers(policy: Policy, tokens: Sequence[Sequence[int]]) -> dict[str, str]:
    """Hash what a loaded policy reads, what of it counts, and what it answers, by part."""
    read = [list(map(list, tokens)), sorted(policy.end_tokens)]
    parts = {
        "reading of the prompts (tokens, end tokens)": json.dumps(read).encode(),
        "set of parameters that count": json.dumps(sorted(policy.parameters)).encode(),
        "answer of the model to the first prompt": _first_answer(policy, tokens[0]),
    }
    answers = {
        part: f"sha256:{hashlib.sha256(content).hexdigest()}"
        for part, content in parts.items()
    }
    if policy.identity.get("model") == "":
        answers["model"] = _identify_weights(policy.model)
    return answers
