"""Finish a run: from the measurements of all prompts to the files of its result.

The description of its environment has no names of people.
"""

import datetime
import platform
import re
import resource
import subprocess
import sys
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


def _commit(root: Path) -> str | None:
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


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    named = re.search(r"^model name\s*: *(.+)$", text, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def device_model(device: torch.device) -> str:
    """Name the model of a GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _processor()


def peak_memory_bytes() -> int:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


REPEATABILITY = (
    "mse.csv is byte-identical for the same configuration, device, versions and threads "
    "per process, in one process or several, interrupted or not; else, and where passes "
    "retreated out of memory, it is equal statistically"
)


def describe_environment(root: Path, device: torch.device) -> dict[str, Any]:
    """Describe where a run is made, by the process that writes its result."""
    on_gpu = device.type == "cuda"
    peak_on_device = torch.cuda.max_memory_allocated(device) if on_gpu else None
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(root),
        "python": platform.python_version(),
        # This package may be used without being installed.
        "versions": {"mse_lab": VERSION}
        | {name: metadata.version(name) for name in PACKAGES},
        "device": device.type,
        "device_model": device_model(device),
        "peak_device_memory_bytes": peak_on_device,
    }


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


def _describe(
    subject: Subject,
    prompts: Sequence[PromptMeasurement],
    devices: list[str],
    peak_memory: int,
) -> dict[str, Any]:
    policy = subject.policy
    provenances = [prompt.provenance for prompt in prompts]
    ranks = [each.process for each in provenances]
    seconds = [each.seconds for each in provenances]
    seconds_R = np.bincount(ranks, seconds, len(devices)).round(1)
    # A resumed run may have had several numbers of them.
    threads = sorted({each.threads for each in provenances})
    return describe_environment(subject.root, policy.device) | {
        "device_model": "; ".join(dict.fromkeys(devices)),
        "processes": len(devices),
        "seconds": float(seconds_R.max()),  # Without interruptions, of the slowest process.
        "process_seconds": seconds_R.tolist(),
        "peak_memory_bytes": peak_memory,
        "threads": threads[0] if len(threads) == 1 else threads,
        "repeatability": REPEATABILITY,
        "prompts": len(prompts),
        "parameters": policy.size,
        "checkpoint": dict(policy.identity),
        "between_prompts": sketches.describe_products(subject.keeps_whole),
        "completions_sha256": subject.supplied and subject.supplied.digest,
        "memory": {
            **subject.memory.describe(),
            "retreated": any(each.retreated for each in provenances),
        },
    }


def finish(
    subject: Subject,
    prompts: Sequence[PromptMeasurement],
    devices: list[str],
    peak_memory: int,
) -> Outcome:
    """Write everything that follows from the measured prompts, and remove their shards.

    `devices` has the device of each process, `peak_memory` the bytes of the largest one.
    """
    results = subject.folder
    result, noted, diagnostics = conclude(subject, prompts)
    results.write("environment.json", _describe(subject, prompts, devices, peak_memory))
    lines = (f"{prompt.completions.lines}\n" for prompt in prompts)
    results.write("completions.jsonl", "".join(lines))
    results.write_tables(result, NEEDED)
    results.write("diagnostics.json", asdict(diagnostics))
    results.write_end(noted, vars(result.pools))
    results.drop_shards()
    return Outcome(noted, diagnostics)
