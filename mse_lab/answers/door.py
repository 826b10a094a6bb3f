"""The public door: documented arrays to every answer, without a model or torch.

Scores that were computed elsewhere can be brought, intervals and estimators changed
afterwards, and the statistics put to arrays whose truth is known.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.claims import claims_table, judge_run
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.errors import InputError, shown
from mse_lab.mse.pools import Pools
from mse_lab.probe.schema import EstimatorEntry


class Result(MeasuredRun):
    """An analysis, and what follows from it."""

    def claims(self) -> pd.DataFrame:
        """Put the paper's statements to the pools: the rows of `claims.csv`.

        Raises:
            InputError: There is no group size of two or more.
        """
        return claims_table(judge_run(self))

    def advise(self) -> Advice:
        """Say which group size and baseline suit the model and prompts.

        Raises:
            InputError: There are fewer than three prompts, or no reward varies in one.
        """
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
