"""Run a probe into its folder, `results/<probe name>/`, or resume it where it stopped.

What all prompts were measured is at last written as a result. The description of its
environment has no names of people.
"""

import datetime
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from mse_lab.project import VERSION
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import (
    INVARIANCE,
    Checks,
    check_drawn_law,
    check_mean_score,
    check_scores,
    none_failed,
)
from mse_lab.results.diagnostics import Diagnostics, diagnose
from mse_lab.results.files import vanished
from mse_lab.results.finished_run import read_run, repair
from mse_lab.results.folder import MARK, NEEDED
from mse_lab.results.measurement import PromptMeasurement, stack
from mse_lab.results.warnings import warn_of_completions, warn_of_copies
from mse_lab.run.changes import identify_model
from mse_lab.run.context import load
from mse_lab.run.loop import Batch, Store, fill, measuring, read_measurements
from mse_lab.run.progress import Progress
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.subject import Item, Subject
from mse_lab.scores import sketches


class Outcome(NamedTuple):
    """What became of a run."""

    noted: Checks
    # What its completions are like; None where their file is lost.
    diagnostics: Diagnostics | None
    finished_before: bool = False  # Whether it was left as it is.
    repaired: Sequence[str] = ()  # Files that were lost and have been made again.


PACKAGES = ("torch", "transformers", "numpy", "scipy", "statsmodels", "tokenizers")


def name_commit(root: Path) -> str | None:
    """Name the commit, with `-dirty`; None without a checkout of this very project."""
    if not (root / ".git").exists():
        return None
    words = ["describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    command = ["git", "-C", str(root), *words]
    try:
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return output.decode().strip()


REPEATABILITY = (
    "mse.csv is byte-identical for the same configuration, device, versions and threads "
    "per process, in one process or several, interrupted or not; else, and where passes "
    "retreated out of memory, it is equal statistically"
)


def conclude(
    subject: Subject, prompts: Sequence[PromptMeasurement]
) -> tuple[Analysis, Checks, Diagnostics]:
    """Give analysis, checks and diagnostics of a measured run; write nothing."""
    summaries = [prompt.completions for prompt in prompts]
    pools = stack([prompt.arrays for prompt in prompts])
    described = pd.DataFrame(
        {
            "prompt": [prompt.id for prompt in subject.prompts],
            "category": [prompt.category for prompt in subject.prompts],
            "mean_length": [summary.mean_length for summary in summaries],
            "truncated": [summary.truncated for summary in summaries],
        }
    )
    result = Analysis(subject.name, subject.probe, pools, described)
    source, dtype = subject.source.judge(prompts), subject.probe.model.dtype
    gaps = [one.checks.law_gap for one in prompts if not np.isnan(one.checks.law_gap)]
    checks = [
        check_drawn_law(gaps, dtype),
        check_mean_score(pools),
        *source.checks,
        check_scores(INVARIANCE, prompts[0].checks.invariance, dtype),
    ]
    diagnostics = replace(
        diagnose(pools, summaries, subject.policy.end_texts), mismatch=source.mismatch
    )
    warnings = [
        *result.warnings,
        *warn_of_completions(diagnostics),
        *warn_of_copies(subject.kinds),
        *subject.memory.warnings,
        *source.warnings,
    ]
    return result, Checks(none_failed(checks), checks, warnings), diagnostics


def describe_environment(
    subject: Subject, prompts: Sequence[PromptMeasurement]
) -> dict[str, Any]:
    """Describe where and how a run was made, by the process that writes its result."""
    measured = [prompt.provenance for prompt in prompts]
    seconds_R = np.bincount(
        [each.process for each in measured], [each.seconds for each in measured]
    )
    # A resumed run may have had several numbers of them.
    threads = sorted({each.threads for each in measured})
    device = subject.policy.device
    on_gpu = device.type == "cuda"
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": name_commit(subject.root),
        "python": platform.python_version(),
        # This package may be used without being installed.
        "versions": {"mse_lab": VERSION}
        | {name: metadata.version(name) for name in PACKAGES},
        "device": device.type,
        "device_model": "; ".join(dict.fromkeys(each.device for each in measured)),
        "processes": len(seconds_R),
        # Without interruptions, of the slowest process.
        "seconds": round(float(seconds_R.max()), 1),
        "peak_memory_bytes": max(each.peak_memory for each in measured),
        "peak_device_memory_bytes": (
            torch.cuda.max_memory_allocated(device) if on_gpu else None
        ),
        "threads": threads[0] if len(threads) == 1 else threads,
        "repeatability": REPEATABILITY,
        "between_prompts": sketches.describe_products(subject.keeps_whole),
        "memory": {
            **subject.memory.describe(),
            "retreated": any(each.retreated for each in measured),
        },
    }


def finish(subject: Subject, prompts: Sequence[PromptMeasurement]) -> Outcome:
    """Write everything that follows from the measured prompts, and remove their shards."""
    results = subject.folder
    result, noted, diagnostics = conclude(subject, prompts)
    results.write("environment.json", describe_environment(subject, prompts))
    lines = (f"{prompt.completions.lines}\n" for prompt in prompts)
    results.write("completions.jsonl", "".join(lines))
    results.write_tables(result, NEEDED)
    results.write("diagnostics.json", asdict(diagnostics))
    results.write_end(noted, vars(result.pools))
    results.drop_shards()
    return Outcome(noted, diagnostics)


def find_finished(subject: Subject, *, fresh: bool) -> Outcome | None:
    """Find a finished run, repaired where needed; refuse another configuration's folder.

    Without a policy the model's identity is that of its files. With `fresh` a finished run
    does not count.
    """
    results, identity = subject.folder, subject.identity
    results.refuse_foreign()
    if fresh or not results.is_begun():
        return None
    if "model" not in identity:
        identity = {**identify_model(subject.probe.model, subject.root), **identity}
    results.refuse_other(subject.probe, identity)
    repaired = repair(subject.name, subject.probe, results)
    if not results.is_complete():
        return None
    results.read("pools.npz")  # Everything else follows from it.
    results.drop_shards()
    noted, diagnostics = results.read_checks(), results.read("diagnostics.json", None)
    return Outcome(noted, diagnostics, finished_before=True, repaired=repaired)


def measure_prompts(
    subject: Subject,
    store: Store[PromptMeasurement],
    indices: Iterable[int],
    *,
    shown: bool,
) -> None:
    """Measure what a store lacks of these prompts; show the first one and the progress."""

    def measure(batch: Batch) -> list[PromptMeasurement]:
        return [measure_prompt(subject, index) for (index,) in batch]

    processes = subject.processes
    hidden = not (shown and processes.first)
    with Progress(subject.name, "prompts", hidden=hidden) as line:
        line.write(subject.first_prompt)
        fill(store, [((index,),) for index in indices], measure, processes, line)


def execute_run(subject: Subject, *, fresh: bool = False, shown: bool = True) -> Outcome:
    """Measure a probe, or resume its run where an earlier start stopped.

    An error in the user's input loses no measurement. Where no policy is attached the
    probe's is loaded. With `fresh` what the folder holds of an earlier run is removed.
    """
    processes, indices = subject.processes, range(len(subject.prompts))
    outcome = processes.agree(lambda: find_finished(subject, fresh=fresh), Outcome | None)
    if outcome:
        return outcome
    if not hasattr(subject, "policy"):
        subject = load(subject)
    with measuring(subject, PromptMeasurement, fresh=fresh) as store:
        measure_prompts(subject, store, indices, shown=shown)

        def end() -> Outcome:
            prompts = read_measurements(store, [(index,) for index in indices])
            if not subject.folder.has(MARK):
                raise vanished(subject.folder.path)
            return finish(subject, prompts)

        return processes.agree(end, Outcome)


def measure_model(subject: Subject, *, shown: bool) -> Analysis:
    """Measure a borrowed subject, with a progress bar if `shown`."""
    if subject.results is not None:
        execute_run(subject, shown=shown)
        return read_run(subject.folder.path)
    store = dict[Item, PromptMeasurement]()
    measure_prompts(subject, store, range(len(subject.prompts)), shown=shown)
    result, noted, _ = conclude(subject, list(store.values()))
    return replace(result, noted=noted)
