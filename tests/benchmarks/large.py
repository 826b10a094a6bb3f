"""What does a batch of an advice cost at the shapes of large models, on this device?

    python tests/benchmarks/large.py 0.5B 1.5B 7B [--lora RANK] [--tokens 512] [--out FILE]

Random weights in bfloat16, in the shapes of Qwen2.5; half of the completions are right. A
batch of 8 prompts of 200 tokens, with 16 completions each, is drawn and scored by the code
that an advice runs, by the clock of `pretrained.py`. Beside it the same completions go
through a plain forward and backward pass, as many at once as there is memory for, and
`generate` draws as many. A row of the table is one shape.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

sys.path += map(str, Path(__file__).resolve().parents[1:3])

from benchmarks.cases import PARITY
from benchmarks.pretrained import SCORING, Clock, generate, measure, plain_passes
from mse_lab.api.measure import in_memory_inputs
from mse_lab.run.advise import LARGEST_BLOCK
from mse_lab.run.context import make_subject
from mse_lab.run.in_memory import borrow_model
from mse_lab.run.subject import Subject

PROMPTS, PROMPT_TOKENS, COMPLETIONS, VOCABULARY = 8, 200, 16, 151_936


class Shape(NamedTuple):
    """A Qwen2.5, by its public configuration."""

    hidden: int
    inner: int
    layers: int
    heads: int
    keys: int
    tied: bool


SHAPES = {
    "tiny": Shape(64, 128, 2, 4, 2, True),  # Tries this file.
    "0.5B": Shape(896, 4864, 24, 14, 2, True),
    "1.5B": Shape(1536, 8960, 28, 12, 2, True),
    "7B": Shape(3584, 18944, 28, 28, 4, False),
}


def build(shape: Shape, dtype: torch.dtype, device: torch.device) -> Any:
    """Build a random model on the device."""
    config = transformers.Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.keys,
        tie_word_embeddings=shape.tied,
        bos_token_id=None,
        eos_token_id=None,
    )
    with device:
        return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def make_tokenizer() -> Any:
    """Make a tokenizer whose tokens are whole numbers; digits are encoded one by one."""
    words = {
        str(one) if one < 10 else f"\u0120{one}": one for one in range(VOCABULARY)
    }  # Byte-level tokenizers write a space as this letter.
    return transformers.Qwen2Tokenizer(vocab=words, merges=[])


@contextmanager
def subject_of(model: Any, tokens: int) -> Iterator[Subject]:
    """Make what an advice measures of a model."""
    scope = dict[str, Any]()
    exec(PARITY, scope)
    digits = [
        "".join(str(place * p % 10) for place in range(PROMPT_TOKENS))
        for p in range(PROMPTS)
    ]
    rows = [{"id": str(at), "problem": text} for at, text in enumerate(digits)]
    given = in_memory_inputs(
        "large",
        model,
        make_tokenizer(),
        rows,
        scope["parity"],
        "large",
        None,
        template="none",
        chat=False,
        population="like-these",
        sampling={"max_new_tokens": tokens},
    )
    with borrow_model(given) as (inputs, policy):
        yield make_subject(inputs, policy, LARGEST_BLOCK)


def measure_shape(
    name: str, rank: int | None, tokens: int, device: torch.device
) -> dict[str, Any]:
    """Measure one batch of a shape, and what it is compared with."""
    model = build(SHAPES[name], torch.bfloat16, device)
    if rank:
        import peft

        adapter = peft.LoraConfig(
            r=rank, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(model, adapter)
        for key, weight in model.named_parameters():
            if "lora_B" in key:  # Zeros, behind which half of the gradient is zero.
                torch.nn.init.normal_(weight, std=0.01)
    with subject_of(model, tokens) as subject:
        batch = tuple((at, 0, COMPLETIONS) for at in range(PROMPTS))
        measure(
            subject, batch[:1], Clock(device)
        )  # Kernels are loaded in the first passes.
        clock = Clock(device)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        scored = measure(subject, batch, clock)
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
        policy = subject.policy
        most = plain_passes(policy, subject.tokens[0], scored[0], COMPLETIONS)
        with clock.step("plain"):
            for prompt, block in zip(subject.tokens, scored, strict=True):
                plain_passes(policy, prompt, block, most)
        with clock.step("generate"), torch.no_grad():
            generate(subject, batch)
        seconds, how = clock.seconds, subject.memory.scoring.current
    score = sum(seconds[step] for step in SCORING)
    row = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "shape": name,
        "lora": rank or "",
        "parameters": sum(one.numel() for one in subject.policy.parameters.values()),
        "tokens": f"{PROMPT_TOKENS} + {tokens}",
        "differentiated": sum(map(len, scored)),
        **{
            step.replace(" ", "_"): seconds[step] for step in ("draw", *SCORING, "all else")
        },
        "score": score,
        "plain": seconds["plain"],
        "generate": seconds["generate"],
        "score_over_plain": score / seconds["plain"],
        "draw_over_generate": seconds["draw"] / seconds["generate"],
        "plain_at_once": most,
        "scored_by": "; ".join(f"{key} {value}" for key, value in how._asdict().items()),
        "peak_GB": peak / 1e9,
    }
    return {
        key: f"{one:.4g}" if isinstance(one, float) else one for key, one in row.items()
    }


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("shapes", nargs="+", choices=SHAPES)
    parser.add_argument("--lora", type=int, metavar="RANK")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in given.shapes:
        row = measure_shape(name, given.lora, given.tokens, device)
        print(row, flush=True)
        if given.out:
            new = not given.out.exists()
            with given.out.open("a", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    main()
