"""List the probes, what each needs, and whether its result stands."""

from pathlib import Path

from mse_lab.console import ending
from mse_lab.errors import InputError
from mse_lab.formatting import table
from mse_lab.probe.probe_files import load_probe, probe_files
from mse_lab.probe.schema import Probe
from mse_lab.results.folder import ResultsFolder

_HEAD = ("probe", "result", "model, prompts × completions of each")


def _standing(probe: Probe, results: ResultsFolder) -> str:
    if not results.is_begun():
        return "not run"
    damage = results.damage()
    if damage:
        raise InputError(damage)
    if results.differences(probe):
        return "of another configuration"
    if results.has_tables() and not results.read_checks().ok:
        return "a check failed"
    if results.is_complete():
        return "finished"
    if results.lost():  # As in a clone: what follows from the pools is not committed.
        return "run makes it whole"
    if results.has_tables():
        return "tables only"
    return f"interrupted, {results.finished_prompts()} prompts done"


def _needs(probe: Probe) -> str:
    prompts, pool = probe.prompts, probe.pool
    rows = " ".join(
        str(part)
        for part in (Path(prompts.source).stem, prompts.split, prompts.limit)
        if part is not None
    )
    return f"{probe.model.path}, {rows} × {pool.reference + pool.replicate}"


def _row(name: str, path: Path, results: Path) -> tuple[str, str, str]:
    trouble = "unusable"
    try:
        probe = load_probe(path)
        trouble = "damaged"
        return name, _standing(probe, ResultsFolder(results / name)), _needs(probe)
    except (InputError, OSError) as error:
        return name, trouble, ending(error).line


def list_probes(root: Path, results: Path) -> str:
    """Describe every probe, a line each below a head: name, result, needs."""
    rows = [_row(name, path, results) for name, path in probe_files(root)]
    if not rows:
        return "no probes here; write one: mse-lab init MODEL PROMPTS"
    return table(rows, _HEAD, "<<<")
