"""Finish a run: from the measurements of all prompts to the files of its result.

The description of its environment has no names of people.
"""

import datetime
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from mse_lab.project import VERSION
from mse_lab.results.analysis import Analysis, analyse_run
from mse_lab.results.checks import (
    INVARIANCE,
    Checks,
    check_drawn_law,
    check_mean_score,
    check_scores,
    none_failed,
)
from mse_lab.results.diagnostics import Diagnostics, diagnose
from mse_lab.results.folder import NEEDED
from mse_lab.results.measurement import PromptMeasurement, stack
from mse_lab.results.tables import describe_prompts
from mse_lab.results.warnings import (
    warn_of_completions,
    warn_of_copies,
)
from mse_lab.run.subject import Subject
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

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=10)
        return output.decode().strip()

    if not (root / ".git").exists():
        return None
    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", "mse_lab", "run_mse.py")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}-dirty" if changed else commit


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
    described = describe_prompts(
        subject.prompts,
        [summary.mean_length for summary in summaries],
        [summary.truncated for summary in summaries],
    )
    result = analyse_run(subject.name, subject.probe, pools, described)
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
