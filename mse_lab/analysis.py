"""Analysis: everything after the scores, from documented arrays to every answer.

`analyse` is the one way from pools to numbers: commands, tables, claims, advice and pages
take theirs from its `Result`. It needs no model: scores that were computed elsewhere can
be brought, and intervals and estimators changed afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from mse_lab import tables
from mse_lab.config import EstimatorEntry, InputError, Probe
from mse_lab.curves import (
    Curve,
    Curves,
    law_curves,
    measure_curves,
    warn_of_disagreement,
    warn_of_few_degrees,
    warn_of_norms_only,
)
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.input_error import shown
from mse_lab.pools import Floats, Pools
from mse_lab.reference_noise import draw_reference_noise
from mse_lab.replicates import Key, measure_errors
from mse_lab.streams import stream

if TYPE_CHECKING:
    from mse_lab.advice import Advice


@dataclass(frozen=True)
class Result:
    """What pools have to say of estimators at group sizes.

    Attributes:
        name: The run's name; runs of other names are independent of it.
        pools: The pools.
        entries: The estimators, as in a probe.
        group_sizes: Group sizes G.
        level: Coverage of intervals; tests are at one less it.
        resamples: Draws of the reference's noise.
        seed: Of all draws.
        described: Of each prompt what pools do not know: `prompt`, `category`,
            `mean_length`, `truncated`.
    """

    name: str
    pools: Pools
    entries: tuple[EstimatorEntry, ...]
    group_sizes: tuple[int, ...]
    level: float
    resamples: int
    seed: int
    described: pd.DataFrame

    @cached_property
    def estimators(self) -> tuple[Estimator, ...]:
        """The estimators.

        Raises:
            InputError: One is not to be had, or does not apply to these sizes.
        """
        found = find_estimators(
            list(self.entries), list(self.group_sizes), self.pools.prompts
        )
        return tuple(found)

    @cached_property
    def errors(self) -> dict[Key, Floats]:
        """Squared errors of every group, (P, R)."""
        return measure_errors(self.pools, self.estimators, self.group_sizes)

    @cached_property
    def curves(self) -> Curves:
        """What all curves share."""
        rng = stream(self.seed, "reference noise")
        noise = draw_reference_noise(self.pools, self.resamples, rng)
        return Curves(self.pools, noise, self.name)

    @cached_property
    def points(self) -> dict[Key, tuple[Curve | None, Curve | None]]:
        """Every point of every curve: measured, and by law."""
        return measure_curves(self.curves, self.estimators, self.errors)

    @cached_property
    def mse(self) -> pd.DataFrame:
        """The rows of `mse.csv`."""
        return tables.mse_table(self.name, self.pools, self.errors, self.points, self.level)

    @cached_property
    def laws(self) -> pd.DataFrame:
        """The rows of `laws.csv`."""
        points = law_curves(self.curves, self.estimators, self.group_sizes)
        return tables.laws_table(self.name, points, self.level)

    @cached_property
    def prompts(self) -> pd.DataFrame:
        """The rows of `prompts.csv`."""
        return tables.prompts_table(self.described, self.pools)

    @cached_property
    def by_prompt(self) -> pd.DataFrame:
        """The rows of `by_prompt.csv`."""
        names = self.described["prompt"]
        return tables.by_prompt_table(names, self.curves, self.estimators, self.errors)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables, by the names of their files."""
        return {
            "mse.csv": self.mse,
            "laws.csv": self.laws,
            "prompts.csv": self.prompts,
            "by_prompt.csv": self.by_prompt,
        }

    @cached_property
    def warnings(self) -> list[str]:
        """What a reader should know before using the numbers, a sentence each."""
        return [
            *warn_of_norms_only(self.pools, self.points),
            *warn_of_few_degrees(self.pools, self.points),
            *warn_of_disagreement(self.points),
        ]

    def claims(self) -> pd.DataFrame:
        """Put the paper's statements to the pools: the rows of `claims.csv`.

        Raises:
            InputError: There is no group size of two or more.
        """
        from mse_lab.claims import claims_table, judge_result

        return claims_table(judge_result(self))

    def advise(self) -> "Advice":
        """Say which group size and baseline suit the model and prompts.

        Raises:
            InputError: There is a single prompt, or no reward varies within a prompt.
        """
        from mse_lab.advice import advise

        return advise(self)


def analyse(
    arrays: Mapping[str, Any],
    *,
    group_sizes: Sequence[int],
    estimators: Sequence[EstimatorEntry] = ("vanilla", "grpo", "oracle"),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    name: str = "pools",
    described: pd.DataFrame | None = None,
) -> Result:
    """Analyse pools: errors, exact laws, intervals, the paper's statements, advice.

    Args:
        arrays: By the names of `Pools`, as in `pools.npz`; the two `kind_*` may be absent.
        group_sizes: Group sizes G; each divides the G of the blocks in `gram_PKGG`.
        estimators: As in a probe: names, or mappings of a name and parameters.
        level: Coverage of intervals, between 0 and 1.
        resamples: Draws of the reference's noise.
        seed: Of all draws.
        name: Heads the rows of the tables.
        described: Of each prompt `prompt` (its id), `category`, `mean_length` and
            `truncated`; by default its number and what the pools know.

    Raises:
        InputError: Something of these is not usable; the message names it.
    """
    pools = Pools.from_arrays(arrays)
    sizes = tuple(dict.fromkeys(group_sizes))
    refuse_sizes(sizes, pools.largest_group)
    if not 0 < level < 1:
        raise InputError(f"level: {level} is not between 0 and 1; take 0.95")
    if resamples < 2:
        raise InputError(f"resamples: {resamples} is too few; take 2000")
    if described is None:
        described = _describe(pools)
    entries = tuple(estimators)
    result = Result(name, pools, entries, sizes, level, resamples, seed, described)
    if not result.estimators:  # those that are not to be had are named here
        raise InputError("estimators: none given; give one or more")
    return result


def refuse_sizes(group_sizes: Sequence[Any], largest: int) -> None:
    """See that blocks can be cut into groups of these sizes.

    Raises:
        InputError: They cannot.
    """
    if not group_sizes:
        raise InputError("group_sizes: none given; give one or more")
    for size in group_sizes:
        if not isinstance(size, int) or size < 1 or largest % size:
            raise InputError(
                f"group_sizes: {shown(size)} does not divide the {largest} completions of "
                "a block"
            )


def analyse_run(name: str, probe: Probe, pools: Pools, described: pd.DataFrame) -> Result:
    """Analyse the pools of a run as its probe says."""
    return Result(
        name=name,
        pools=pools,
        entries=tuple(probe.estimators),
        group_sizes=tuple(probe.group_sizes),
        level=probe.interval.level,
        resamples=probe.interval.resamples,
        seed=probe.seed,
        described=described,
    )


def _describe(pools: Pools) -> pd.DataFrame:
    """Number the prompts."""
    return pd.DataFrame(
        {
            "prompt": [str(index) for index in range(pools.prompts)],
            "category": "",
            "mean_length": pools.lengths_PN.mean(-1),
            "truncated": float("nan"),
        }
    )
