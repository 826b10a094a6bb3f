"""What follows the measurement: the time of tables and intervals, and the room on disk.

The tables are made of a trial's prompts, repeated to the run's sizes: the numbers mean
nothing, the work is that of the run.
"""

import io
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.probe.prompts import Prompt
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import analyse_run
from mse_lab.results.shard import stack
from mse_lab.results.tables import describe_prompts
from mse_lab.run.plan_costs import fit
from mse_lab.run.plan_trial import Trial

Arrays = dict[str, NDArray[Any]]

# Prompts of which tables are made to see how their time grows.
SAMPLES = (4, 12)


class Disk(NamedTuple):
    """Bytes on disk.

    Attributes:
        running: Of the prompts' own files, removed when the run is finished.
        kept: Of the results.
    """

    running: float
    kept: float


def repeated(arrays: Arrays, probe: Probe) -> Arrays:
    """Repeat what was measured of a prompt, up to the sizes of the probe's pools."""
    group, size = probe.largest_group, probe.pool
    blocks = size.replicate // group
    places = np.resize(np.arange(arrays["gram_KGG"].shape[-1]), group)
    gram = arrays["gram_KGG"][0][np.ix_(places, places)]
    kinds = arrays["kind_norms2_NM"].shape[1]
    return {
        **arrays,
        "gram_KGG": np.broadcast_to(gram, (blocks, group, group)),
        "kind_norms2_NM": np.resize(arrays["kind_norms2_NM"], (size.replicate, kinds)),
        "reference_rewards_N": np.resize(arrays["reference_rewards_N"], size.reference),
        **{
            name: np.resize(arrays[name], size.replicate)
            for name in ("rewards_N", "lengths_N", "products_N")
        },
    }


def _make_tables(shards: Sequence[Arrays], prompts: Sequence[Prompt], probe: Probe) -> None:
    """Do what a run does when all prompts are measured, but write nothing."""
    pools = stack(shards)
    described = describe_prompts(prompts, [0.0] * len(prompts), [0.0] * len(prompts))
    result = analyse_run("", probe, pools, described)
    _ = (result.tables, result.warnings)
    for arrays in (
        {"gram": pools.gram_PKGG},
        {str(key): one for key, one in result.errors.items()},
    ):
        _compressed(arrays)


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def tables_seconds(trial: Trial, prompts: Sequence[Prompt], probe: Probe) -> float:
    """Estimate the time of tables and intervals, from those of a few prompts."""
    measured = [repeated(one.arrays, probe) for one in trial.largest]
    counts = sorted({min(len(prompts), count) for count in SAMPLES})
    timed = []
    for count in counts:
        shards = [measured[place % len(measured)] for place in range(count)]
        some = prompts[:count]
        timed.append(
            _seconds(lambda s=shards, p=some: _make_tables(s, p, probe))  # type: ignore[misc]
        )
    each_run, each_prompt = fit([[1, count] for count in counts], timed)
    return each_run + each_prompt * len(prompts)


def _compressed(arrays: Arrays) -> int:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return len(buffer.getvalue())


def estimate_disk(trial: Trial, probe: Probe, prompts: int, estimators: int) -> Disk:
    """Estimate the room that a run takes on disk.

    While it runs, prompts are kept as they are; in the end by how their arrays compress.
    """
    last, size = trial.timed[-1], probe.pool
    arrays, completions = last.arrays, size.reference + size.replicate
    gram, lines = arrays["gram_KGG"], arrays["lines"]
    vectors = arrays["mean_D"].nbytes + arrays["difference_D"].nbytes
    products = _compressed({"gram": gram}) / gram.size * probe.largest_group
    groups = sum(size.replicate // group for group in probe.group_sizes)
    line = len(lines) / (last.sizes.reference + last.sizes.block)
    whole = 8 * size.replicate * probe.largest_group
    numbers = 8 * (7 * size.replicate + size.reference)
    pools = products * size.replicate + numbers
    return Disk(
        running=prompts * (vectors + whole + numbers + line * completions),
        kept=prompts * (pools + line * completions + 8 * groups * estimators),
    )
