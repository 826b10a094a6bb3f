"""The public door: documented arrays to every answer, without a model or torch.

Scores that were computed elsewhere can be brought, intervals and estimators changed
afterwards, and the statistics put to arrays whose truth is known. Of the configuration of a
finished run only what is used after the scores can be set: group sizes that divide those
measured, estimators, intervals, the seed of their draws.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.claims import claims_table, judge_run
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.errors import InputError, shown
from mse_lab.mse.pools import Pools
from mse_lab.probe.probe_files import assign, flatten, parse_probe
from mse_lab.probe.schema import EstimatorEntry
from mse_lab.results.finished_run import read_finished
from mse_lab.results.intact import read_arrays
from mse_lab.results.records import Record

SETTINGS = ("group_sizes", "estimators", "interval.level", "interval.resamples", "seed")

# Of pools that come without a configuration, those that divide the largest group.
GROUP_SIZES = (4, 8, 16, 32, 64)


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
    _refuse_sizes(sizes, pools.largest_group)
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


def _refuse_sizes(group_sizes: Sequence[Any], largest: int) -> None:
    if not group_sizes:
        raise InputError("group_sizes: none given; give one or more")
    for size in group_sizes:
        if not isinstance(size, int) or size < 1 or largest % size:
            raise InputError(
                f"group_sizes: {shown(size)} does not divide the {largest} completions of "
                "a block"
            )


def _describe(pools: Pools) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "prompt": [str(index) for index in range(pools.prompts)],
            "category": "",
            "mean_length": pools.lengths_PN.mean(-1),
            "truncated": float("nan"),
        }
    )


def reanalyse(source: Path, assignments: Sequence[str]) -> Result:
    """Analyse pools again.

    Args:
        source: The folder of a finished run, or a file like its `pools.npz`.
        assignments: Texts `dotted.key=value` for the keys of `SETTINGS`.

    Raises:
        InputError: The source cannot be read, or a setting cannot be used.
    """
    if source.is_dir():
        name, _, pools, described = read_finished(source)
        values = Record(source).configuration()
    else:
        name, described = source.stem, None
        pools = Pools.from_arrays(read_arrays(source, "name a file like pools.npz"))
        values = _least_configuration(pools)
    for assignment in assignments:
        assign(values, assignment)
        _refuse_measured(assignment)
    sizes = values["group_sizes"]
    _refuse_sizes(sizes if isinstance(sizes, list) else [sizes], pools.largest_group)
    probe = parse_probe(values, "--set" if assignments else name)
    return analyse(
        vars(pools),
        group_sizes=probe.group_sizes,
        estimators=probe.estimators,
        level=probe.interval.level,
        resamples=probe.interval.resamples,
        seed=probe.seed,
        name=name,
        described=described,
    )


def _least_configuration(pools: Pools) -> dict[str, Any]:
    largest, counts = pools.largest_group, (pools.reference_rewards_PN, pools.rewards_PN)
    reference, replicate = (rewards_PN.shape[1] for rewards_PN in counts)
    return {
        "model": {"path": "none"},
        "prompts": {"source": "none"},
        "pool": {"reference": reference, "replicate": replicate},
        "group_sizes": [one for one in GROUP_SIZES if largest % one == 0] or [largest],
    }


def _refuse_measured(assignment: str) -> None:
    values: dict[str, Any] = {}
    assign(values, assignment)
    for key in flatten(values):
        if not any(f"{key}.".startswith(f"{known}.") for known in SETTINGS):
            raise InputError(
                f"--set {key}: is not of the analysis; it can change {', '.join(SETTINGS)}"
            )
