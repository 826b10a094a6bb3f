"""What is measured on: the tiny checkpoint, and random Qwen2 models of given shapes.

A random model is written as a checkpoint and loaded through the same `from_pretrained`
path as any other. It never draws an end token, so all its completions have the full
length; the tiny checkpoint's end where they end.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml

ROOT = Path(__file__).resolve().parents[2]
GROUP_SIZES = (4, 8, 16, 32, 64)
ESTIMATORS = ("vanilla", "grpo", "oracle")
WEIGHT_SCALE = 0.02


@dataclass(frozen=True)
class Size:
    """A random Qwen2 with tied embeddings."""

    name: str  # Its parameters in words.
    vocabulary: int  # Tokens V.
    hidden: int  # Width of the residual stream.
    inner: int  # Width inside the MLP.
    layers: int  # Decoder layers.
    heads: int  # Query heads.
    keys: int | None = None  # Heads of keys; None for half as many.

    def build(self) -> transformers.Qwen2ForCausalLM:
        """Draw the weights: matrices about 0, norms 1, biases 0."""
        model = transformers.Qwen2ForCausalLM(
            transformers.Qwen2Config(
                vocab_size=self.vocabulary,
                hidden_size=self.hidden,
                intermediate_size=self.inner,
                num_hidden_layers=self.layers,
                num_attention_heads=self.heads,
                num_key_value_heads=self.keys or self.heads // 2,
                max_position_embeddings=2048,
                tie_word_embeddings=True,
                bos_token_id=None,
                eos_token_id=None,
                pad_token_id=None,
            )
        )
        generator = torch.Generator().manual_seed(0)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data.normal_(0, WEIGHT_SCALE, generator=generator)
        return model


@dataclass(frozen=True)
class Case:
    """One model and one shape of prompt and completion."""

    size: Size | None  # The random model; None is the tiny checkpoint on its own prompts.
    prompt: int = 0  # Tokens of a prompt.
    completion: int = 8  # Tokens of a completion.

    @property
    def model(self) -> str:
        """Name the model."""
        return f"{self.size.name}, V = {self.size.vocabulary:,}" if self.size else "tiny"

    @property
    def shape(self) -> str:
        """Name the shape, prompt + completion."""
        return f"{self.prompt} + {self.completion}" if self.size else "its own"


SMALL = Size("4M", 1_000, hidden=192, inner=512, layers=9, heads=6)
SMALL_WIDE = Size("4M", 32_000, hidden=96, inner=256, layers=10, heads=4)
MEDIUM = Size("25M", 1_000, hidden=512, inner=1408, layers=8, heads=8)
MEDIUM_WIDE = Size("25M", 32_000, hidden=320, inner=864, layers=13, heads=10)
LARGE_WIDE = Size("100M", 152_000, hidden=512, inner=1408, layers=8, heads=8)
TINY = Case(None)


def _write_tokenizer(folder: Path, vocabulary: int) -> None:
    """Write a tokenizer of whole numbers, a token each; text is encoded digit by digit.

    Its end token lies outside the model's vocabulary and is never drawn.
    """
    # Byte-level tokenizers write a space as this letter.
    words = {f"\u0120{number}" if number > 9 else str(number): number
             for number in range(vocabulary)}  # fmt: skip
    transformers.Qwen2Tokenizer(vocab=words, merges=[]).save_pretrained(folder)


def write_checkpoint(size: Size, folder: Path) -> Path:
    """Write a random model with its tokenizer, unless it is there already."""
    checkpoint = folder / f"{size.name}-{size.vocabulary}"
    if not (checkpoint / "config.json").exists():
        _write_tokenizer(checkpoint, size.vocabulary)
        size.build().save_pretrained(checkpoint)
    return checkpoint


def write_probe(
    case: Case,
    folder: Path,
    *,
    prompts: int = 1,
    reference: int = 512,
    replicate: int = 128,
    group_sizes: Sequence[int] = GROUP_SIZES,
    parameters: list[str] | None = None,
) -> Path:
    """Write the probe of a case with P prompts into a folder.

    `reference` and `replicate` are completions a prompt, `parameters` the patterns of the
    parameters that count, None for all.
    """
    values: dict[str, Any] = {
        "pool": {"reference": reference, "replicate": replicate},
        "group_sizes": list(group_sizes),
        "estimators": list(ESTIMATORS),
    }
    if parameters:
        values["parameters"] = parameters
    if case.size is None:
        tiny = yaml.safe_load((ROOT / "probes/tiny/base.yaml").read_text(encoding="utf-8"))
        values = tiny | values
        values["prompts"]["limit"] = prompts
    else:
        values |= _random_probe(case, case.size, folder, prompts)
    path = folder / "probe.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def _random_probe(case: Case, size: Size, folder: Path, prompts: int) -> dict[str, Any]:
    lines = [
        {
            "id": f"p{index}",
            "problem": "".join(
                str((place + index) * 7 % 10) for place in range(case.prompt)
            ),
            "answer": 0,
        }
        for index in range(prompts)
    ]
    source = folder / f"prompts-{case.prompt}-{size.vocabulary}-{prompts}.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {
        "model": {"path": str(write_checkpoint(size, folder)), "device": "cpu"},
        "prompts": {"source": str(source), "template": "none"},
        "reward": "probes.phase.rewards:parity",
        "sampling": {"max_new_tokens": case.completion},
    }
