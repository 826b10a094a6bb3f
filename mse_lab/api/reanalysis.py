"""Analyse pools again at other settings: those of a finished run, or of any file.

Only settings that are used after the scores can be changed: group sizes that divide the
measured ones, estimators, intervals, and the seed of their draws.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mse_lab.api.measure import analyse, read_sizes, refuse_sizes
from mse_lab.api.result import Result
from mse_lab.errors import InputError
from mse_lab.mse.pools import Pools
from mse_lab.probe.probe_files import assign, flatten, parse_probe
from mse_lab.results.finished_run import read_finished
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.integrity import read_arrays

SETTINGS = (
    *("group_sizes", "estimators", "seed"),
    *("interval.method", "interval.level", "interval.resamples", "prompts.population"),
)

# For pools without a configuration: those of these that divide the largest group.
GROUP_SIZES = (4, 8, 16, 32, 64)


def reanalyse(source: Path, assignments: Sequence[str]) -> Result:
    """Analyse pools of a finished run's folder, or of a file like its `pools.npz`, again.

    `assignments` are texts `dotted.key=value` for the keys of `SETTINGS`; an InputError
    says that the source cannot be read, or a setting cannot be used.
    """
    if source.is_dir():
        name, _, pools, described = read_finished(source)
        values = ResultsFolder(source).configuration()
    else:
        name, described = source.stem, None
        pools = Pools.from_arrays(read_arrays(source, "name a file like pools.npz"))
        values = _least_configuration(pools)
    for assignment in assignments:
        assign(values, assignment)
        _refuse_measured(assignment)
    refuse_sizes(read_sizes(values["group_sizes"]), pools.largest_group)
    probe = parse_probe(values, "--set" if assignments else name)
    return analyse(
        vars(pools),
        group_sizes=probe.group_sizes,
        estimators=probe.estimators,
        level=probe.interval.level,
        resamples=probe.interval.resamples,
        method=probe.interval.method,
        seed=probe.seed,
        name=name,
        described=described,
        population=probe.prompts.population,
    )


def _least_configuration(pools: Pools) -> dict[str, Any]:
    largest, counts = pools.largest_group, (pools.reference_rewards_PN, pools.rewards_PN)
    reference, replicate = (rewards_PN.shape[1] for rewards_PN in counts)
    return {
        "model": {"path": "none"},
        "prompts": {"source": "none"},
        "pool": {"reference": reference, "replicate": replicate},
        "group_sizes": [size for size in GROUP_SIZES if largest % size == 0] or [largest],
    }


def _refuse_measured(assignment: str) -> None:
    """Refuse settings that were used before the scores."""
    changes: dict[str, Any] = {}
    assign(changes, assignment)
    for key in flatten(changes):
        if not any(f"{key}.".startswith(f"{known}.") for known in SETTINGS):
            raise InputError(
                f"--set {key}: is not of the analysis; it can change {', '.join(SETTINGS)}"
            )
