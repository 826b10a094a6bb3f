"""The environment of a run: versions, device, commit, time, memory; no names of people."""

import datetime
import platform
import re
import resource
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from mse_lab.version import VERSION

PACKAGES = ("torch", "transformers", "numpy", "scipy", "statsmodels", "tokenizers")


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "-C", str(root), *words]
    try:
        return subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _commit(root: Path) -> str | None:
    """Name the commit, with `-dirty` if the code differs from it; None without a checkout.

    An installed wheel may lie within somebody else's checkout.
    """
    if not (root / ".git").exists():
        return None
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    changed = _git(root, "status", "--porcelain", "--", "mse_lab", "run_mse.py")
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
    return f"Apple {platform.machine()} (MPS)" if device.type == "mps" else _processor()


def peak_memory_bytes() -> int:
    """Largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe_threads(threads: Iterable[int]) -> dict[str, Any]:
    """Describe how many threads measured each prompt; a resumed run may have several."""
    counts = sorted(set(threads))
    if len(counts) > 1:
        numbers = " and ".join(map(str, counts))
        return {
            "threads": counts,
            "repeatability": f"some prompts were measured with {numbers} threads each: no "
            "run gives this mse.csv to the last digit, others are equal statistically",
        }
    return {
        "threads": counts[0],
        "repeatability": "mse.csv is byte-identical for the same configuration, device, "
        "versions and threads per process, in one process or several, interrupted or not; "
        "else, and where passes retreated out of memory, it is equal statistically",
    }


def describe_environment(
    root: Path, device: torch.device, seconds: float
) -> dict[str, Any]:
    """Describe where a run was made; `seconds` is its time without interruptions."""
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
        "seconds": round(seconds, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "peak_device_memory_bytes": peak_on_device,
    }
