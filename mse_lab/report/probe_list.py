"""The probes, a line each: what bare `mse-lab` says of their results."""

from pathlib import Path

from mse_lab.config.probe_files import load_probe, probe_files
from mse_lab.config.schema import Probe
from mse_lab.console import COMMAND_PREFIX, ending
from mse_lab.errors import InputError
from mse_lab.report.rendering import Part
from mse_lab.results.folder import ResultsFolder


def _standing_of(probe: Probe, results: ResultsFolder) -> str:
    if not results.is_begun():
        return "not run"
    if results.differences(probe):
        return "of another configuration"
    if results.has_tables() and not results.read_checks().ok:
        return "a check failed"
    if results.is_complete():
        return "finished"
    if results.has("pools.npz") and results.has("checks.json"):
        return "run makes it whole"  # As in a clone: errors.npz is not committed.
    if results.has_tables():
        return "tables only"
    return f"interrupted, {results.finished_prompts()} prompts done"


def _standing(name: str, path: Path, results: Path) -> str:
    """Say whether a probe's results stand, or why that is not known."""
    trouble = "unusable"
    try:
        probe = load_probe(path)
        trouble = "damaged"
        return _standing_of(probe, ResultsFolder(results / name))
    except (InputError, OSError) as error:
        return f"{trouble}: {ending(error).line}"


def list_probes(root: Path, results: Path) -> Part:
    """Name every probe, and what stands of its results."""
    probes = dict(probe_files(root))
    head = f"probes, and what stands of them in {results}/:"
    none = f"none here; write one: {COMMAND_PREFIX} init MODEL PROMPTS"
    rows = [[name, _standing(name, path, results)] for name, path in probes.items()]
    return Part(head, rows=rows or [[none]])
