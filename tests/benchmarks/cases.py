"""The cases that are measured: random models, and shapes of their completions."""

import json
import sys
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.obvious_loop import ESTIMATORS
from models import write_numbers

ROOT = Path(__file__).resolve().parents[2]
GROUP_SIZES = (4, 8, 16, 32, 64)
BLOCK = max(GROUP_SIZES)

Row = dict[str, Any]  # Of a table: the head of a column -> its cell.

# Completions of a run, the reference's and the replicates': those of the tiny probe, and
# for others half of them, for which costly parts keep their proportions.
TINY_POOLS, POOLS = (1024, 256), (512, 128)


@dataclass(frozen=True)
class Size:
    """A random Qwen2 with tied embeddings; it never draws an end token."""

    name: str  # Its parameters in words.
    vocabulary: int
    hidden: int  # Width of the residual stream.
    inner: int  # Width inside the MLP.
    layers: int
    heads: int  # Of queries; half as many of keys.


SMALL = Size("4M", 1_000, hidden=192, inner=512, layers=9, heads=6)
SMALL_WIDE = Size("4M", 32_000, hidden=96, inner=256, layers=10, heads=4)
MEDIUM = Size("25M", 1_000, hidden=512, inner=1408, layers=8, heads=8)
MEDIUM_WIDE = Size("25M", 32_000, hidden=320, inner=864, layers=13, heads=10)
LARGE_WIDE = Size("100M", 152_000, hidden=512, inner=1408, layers=8, heads=8)
SHORT, LONG = (60, 8), (200, 64)


@dataclass(frozen=True)
class Case:
    """A model, a shape of prompt and completion, and how much of it is measured."""

    size: Size | None = None  # None for the tiny checkpoint on its own prompts.
    shape: tuple[int, int] = (0, 8)  # Tokens of a prompt, and of a completion.
    completions: int = BLOCK  # Of a block that is scored.
    prompts: int = 1  # Of a run.

    @property
    def names(self) -> list[str]:
        """Name model and shape."""
        if self.size is None:
            return ["tiny", "its own"]
        prompt, completion = self.shape
        model = f"{self.size.name}, V = {self.size.vocabulary:,}"
        return [model, f"{prompt} + {completion}"]

    @property
    def named(self) -> Row:
        """Begin its row of a table."""
        return dict(zip(("model", "tokens"), self.names, strict=True))

    def write(self, folder: Path) -> Path:
        """Write the probe into a folder."""
        reference, replicate = POOLS if self.size else TINY_POOLS
        values: dict[str, Any] = {
            "pool": {"reference": reference, "replicate": replicate},
            "group_sizes": [*GROUP_SIZES],
            "estimators": [*ESTIMATORS],
        }
        if self.size is None:
            tiny = (ROOT / "probes/tiny/base.yaml").read_text(encoding="utf-8")
            values = yaml.safe_load(tiny) | values
            values["prompts"]["limit"] = self.prompts
        else:
            values |= self._of_random(self.size, folder)
        path = folder / "probe.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    def _of_random(self, size: Size, folder: Path) -> dict[str, Any]:
        (folder / "parity_reward.py").write_text(PARITY)
        sys.path[:1] = dict.fromkeys([str(folder), sys.path[0]])
        digits = "".join(str(place * 7 % 10) for place in range(self.shape[0]))
        source = folder / f"prompt-{self.shape[0]}.jsonl"
        source.write_text(json.dumps({"id": "p", "problem": digits, "answer": 0}) + "\n")
        return {
            "model": {"path": str(write_numbers(folder, *astuple(size))), "device": "cpu"},
            "prompts": {"source": str(source), "template": "none"},
            "reward": "parity_reward:parity",
            "sampling": {"max_new_tokens": self.shape[1]},
        }


# Half of a random model's completions are right.
PARITY = '''"""A reward that half of the completions get."""


def parity(text, prompt):
    """1 if the characters sum to an even number, else 0."""
    return float(sum(map(ord, text)) % 2 == 0)
'''

FULL = {
    "scoring": (
        Case(),
        *(
            Case(size, shape)
            for size in (SMALL, SMALL_WIDE)
            for shape in (SHORT, (60, 64), (200, 8), LONG)
        ),
        *(Case(size, SHORT) for size in (MEDIUM, MEDIUM_WIDE)),
        *(Case(size, LONG, 16) for size in (MEDIUM, MEDIUM_WIDE)),
        Case(LARGE_WIDE, SHORT, 16),
    ),
    "runs": (
        Case(prompts=5),
        Case(SMALL, SHORT),
        Case(SMALL, LONG),
        *(Case(size, SHORT) for size in (SMALL_WIDE, MEDIUM, MEDIUM_WIDE)),
    ),
}
QUICK = {
    "scoring": (Case(), Case(SMALL, SHORT, 16), Case(SMALL_WIDE, SHORT, 16)),
    "runs": (Case(),),
}
