"""The shard of a prompt: all that leaves the model's side, and what a resumed run reads.

Torch ends here. What is known of P prompts are their shards, stacked: `Pools`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.errors import InputError, in_short
from mse_lab.mse.pools import Pools, inner_products
from mse_lab.results.files import write_arrays

# To be raised with every change of what a shard holds or means: shards of other versions
# are measured again.
VERSION = 6

REMEDY = "start again: its prompt is measured again"

# What the time of a prompt is spent on.
STAGES = ("draw", "reference", "score", "rest")


@dataclass(frozen=True)
class Shard:
    """One prompt, measured: N replicate completions in K blocks of G, 2n of the reference.

    Those not named here are as in `Pools`, without the axis of prompts.

    Attributes:
        mean_D: rbar over all D parameters, or a sketch of it.
        difference_D: r_A - r_B, or a sketch of it.
        lines: The completions of both pools as lines of JSON.
        mean_length: Mean tokens of a completion, both pools.
        truncated: Share of completions cut at the token limit.
        empty: Share of completions whose first token ends them.
        distinct: Distinct completions over all.
        commonest: Share of the commonest completion.
        end_ids: End tokens met.
        end_counts: How many completions each of them ended.
        given_up: Completions whose comparison with the answer was given up.
        law_gap: Largest difference of log-probabilities a token, drawn against
            recomputed; NaN where those of the draw are not known.
        rivals_R: Log-likelihood ratios of R other laws; none for completions drawn here.
        invariance: Relative difference of a score alone, padded and in its block; NaN but
            for the first prompt.
        seconds_S: Time spent in each of `STAGES`.
        process: The process that measured it.
        threads: Threads that the process had.
        retreated: Whether a pass had run out of memory by then.
    """

    rewards_N: Floats
    lengths_N: NDArray[np.int64]
    gram_KGG: Floats
    products_N: Floats
    reference_rewards_N: Floats
    reference_product: float
    reference_distance2: float
    kind_norms2_NM: Floats
    kind_products_M: Floats
    mean_D: NDArray[np.float32]
    difference_D: NDArray[np.float32]
    lines: str
    mean_length: float
    truncated: float
    empty: float
    distinct: float
    commonest: float
    end_ids: NDArray[np.int64]
    end_counts: NDArray[np.int64]
    given_up: int
    law_gap: float
    rivals_R: Floats
    invariance: float
    seconds_S: Floats
    process: int = 0
    threads: int = 1
    retreated: bool = False

    @property
    def seconds(self) -> float:
        """Time that the prompt took."""
        return float(self.seconds_S.sum())

    @property
    def mean_reward(self) -> float:
        """Mean reward of the reference pool, an estimate of V."""
        return float(self.reference_rewards_N.mean())

    def save(self, path: Path) -> None:
        """Write it, whole or not at all.

        Raises:
            InputError: The folder cannot be written.
        """
        arrays: dict[str, Any] = {**vars(self), "version": VERSION}
        arrays["lines"] = np.frombuffer(self.lines.encode(), np.uint8)
        # Vectors of random numbers, read once: compressing them gains nothing.
        write_arrays(path, {k: np.asarray(v) for k, v in arrays.items()}, compressed=False)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read one back.

        Raises:
            InputError: It is missing, damaged, or of another version.
        """
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive)  # each of them read, and its checksum seen to agree
            if not np.array_equal(arrays.pop("version", 0), VERSION):
                raise ValueError("of another version")
            arrays["lines"] = np.array(arrays["lines"].tobytes().decode())
            return cls(**{k: v if v.ndim else v.item() for k, v in arrays.items()})
        # Parsers of archives fail in whatever way a damaged one makes them.
        except Exception as error:
            raise InputError(f"{path}: damaged ({in_short(error)}); {REMEDY}") from None


def stack(shards: Sequence[Shard]) -> Pools:
    """Stack prompts into pools, their products with one another made."""
    means, differences = (
        [getattr(shard, name) for shard in shards] for name in ("mean_D", "difference_D")
    )
    arrays = {
        "between_PP": inner_products(means, means),
        "halves_PP": inner_products(differences, means),
    }
    for name in (field.name for field in fields(Pools) if field.name not in arrays):
        of_one = name.replace("_P", "_").rstrip("_")
        arrays[name] = np.stack([getattr(shard, of_one) for shard in shards])
    # Where only a plan is asked for, a prompt may have a single block.
    return Pools.from_arrays(arrays, least_blocks=1)
