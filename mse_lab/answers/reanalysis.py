"""Reanalysis: the tables of a run, or of anybody's pools, at other settings.

Of a configuration only what is used after the scores can be set: group sizes that divide
those measured, estimators, intervals, the seed of their draws.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mse_lab.answers.door import Result, analyse, refuse_sizes
from mse_lab.errors import InputError
from mse_lab.mse.pools import Pools
from mse_lab.probe.schema import assign, flatten, parse_probe
from mse_lab.results.files import write_table
from mse_lab.results.finished_run import read_finished
from mse_lab.results.intact import read_arrays
from mse_lab.results.records import Record

SETTINGS = ("group_sizes", "estimators", "interval.level", "interval.resamples", "seed")

# Of pools that come without a configuration, those that divide the largest group.
GROUP_SIZES = (4, 8, 16, 32, 64)


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
        return _analyse(name, pools, Record(source).configuration(), assignments, described)
    pools = Pools.from_arrays(read_arrays(source, "name a file like pools.npz"))
    largest = pools.largest_group
    sizes = [size for size in GROUP_SIZES if largest % size == 0] or [largest]
    values = {
        "model": {"path": "none"},
        "prompts": {"source": "none"},
        "pool": {
            "reference": pools.reference_rewards_PN.shape[1],
            "replicate": pools.rewards_PN.shape[1],
        },
        "group_sizes": sizes,
    }
    return _analyse(source.stem, pools, values, assignments, None)


def _analyse(
    name: str,
    pools: Pools,
    values: dict[str, Any],
    assignments: Sequence[str],
    described: pd.DataFrame | None,
) -> Result:
    for assignment in assignments:
        assign(values, assignment)
        _refuse_measured(assignment)
    sizes = values["group_sizes"]
    refuse_sizes(sizes if isinstance(sizes, list) else [sizes], pools.largest_group)
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


def _refuse_measured(assignment: str) -> None:
    """Refuse to set what the pools were measured with."""
    values: dict[str, Any] = {}
    assign(values, assignment)
    for key in flatten(values):
        if not any(f"{key}.".startswith(f"{known}.") for known in SETTINGS):
            raise InputError(
                f"--set {key}: is not of the analysis; it can change {', '.join(SETTINGS)}"
            )


def write_analysis(result: Result, folder: Path) -> None:
    """Write the tables that a run writes."""
    for name, table in result.tables.items():
        write_table(folder / name, table)
