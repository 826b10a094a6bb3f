"""What has changed since a run was made, as far as what it measured is still here.

An answer that is read off a finished run is about the settings, weights, prompts and code
that it was made with. Nothing is loaded or fetched to compare them: torch is not needed.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mse_lab.config.probe_files import load_probe, probe_file
from mse_lab.config.schema import Model, Probe
from mse_lab.console import COMMAND_PREFIX
from mse_lab.data.identity import UNKNOWN_IDENTITY, identify_prompts
from mse_lab.data.location import find_location
from mse_lab.data.prompts import read_prompts
from mse_lab.data.rewards import identify_reward, load_reward, reads_answer
from mse_lab.data.supplied_completions import identify_completions
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator, identify_estimators
from mse_lab.records.plain_text import local_path
from mse_lab.results.finished_run import read_probe
from mse_lab.results.folder import MARK, ResultsFolder

Identity = Mapping[str, str]


class Changes(NamedTuple):
    """What of a run is not as it was, and what is not here to compare, each in a line."""

    changed: str  # Empty where all that was compared is as it was.
    unknown: str  # Empty where all was compared.


def identify_model(config: Model, root: Path) -> dict[str, str]:
    """Identify the `model` and a saved `adapter`, without asking the Hub."""
    location = find_location("model.path", config.path, config.revision, root)
    identities = {"model": location.identify()}
    if isinstance(config.adapter, str):
        adapter = find_location(
            "model.adapter", config.adapter, config.adapter_revision, root
        )
        identities["adapter"] = adapter.identify("adapter_config.json")
    return identities


def _identify_rows(probe: Probe, root: Path) -> Identity:
    # A data set of the Hub would be asked for.
    if local_path(probe.prompts.source, root) is None:
        return {}
    answered = reads_answer(probe.reward)
    read = read_prompts(probe.prompts, root, seed=probe.seed, answered=answered)
    return identify_prompts(read.prompts)


# How the parts begin that can be identified again, which all others follow from.
PARTS = ("model", "adapter", "set of prompts", "file of", "reward", "estimator")

# What identifies them, as far as each is here.
READERS: tuple[Callable[[Probe, Path], Identity], ...] = (
    lambda probe, root: identify_model(probe.model, root),
    _identify_rows,
    identify_completions,
    lambda probe, _: identify_reward(load_reward(probe.reward), probe.reward),
    lambda probe, _: identify_estimators([*map(find_estimator, probe.estimators)]),
)


def _identify(probe: Probe, root: Path) -> Identity:
    """Identify what is here of a probe's parts now."""
    found: dict[str, str] = {}
    for read in READERS:
        with suppress(InputError, OSError):
            found.update(read(probe, root))
    known = (part for part in found if found[part])
    return {part: found[part] for part in known if UNKNOWN_IDENTITY not in found[part]}


def _compare_settings(results: ResultsFolder, names: list[str], root: Path) -> str | None:
    """Compare the settings with those of the first probe that one of these names finds.

    Whether that file was changed since, or the run was made with other settings than it
    has, is not known. None without a probe.
    """
    for name in names:
        with suppress(InputError):
            path = probe_file(name, root)
            pairs = results.differences(load_probe(path)).items()
            listed = ", ".join(f"{key} = {was}, there {now}" for key, (was, now) in pairs)
            return listed and f"settings other than in {path}: {listed}"
    return None


def _compare_parts(results: ResultsFolder, root: Path) -> tuple[list[str], list[str]]:
    """Name the parts of a run's identity that are others now, and those not here."""
    written = {part: was for part, was in results.read(MARK, {}).items() if was}
    if not written:
        return [], ["model", "set of prompts"]
    now = _identify(read_probe(results.path), root)
    parts = [part for part in written if part.startswith(PARTS)]
    changed = [part for part in parts if now.get(part, written[part]) != written[part]]
    return changed, [part for part in parts if part not in now]


def find_changes(folder: Path, name: str, root: Path) -> Changes:
    """Compare what a run in a folder was made of with what is there now.

    Its probe is looked for by the name that the user has given, and by the run's own.
    """
    results = ResultsFolder(folder)
    if not (results.has("config.yaml") or results.has(MARK)):
        return Changes("", "")  # Tables that no run has written here.
    date = results.read("environment.json", {}).get("date")
    made = f"{folder} was measured {f'on {date}' if date else 'earlier'}"
    try:
        read_probe(folder)
    except InputError:
        return Changes("", f"{made}; not compared since: it has no sound config.yaml")
    settings = _compare_settings(results, [name, results.name], root)
    parts, unknown = _compare_parts(results, root)
    said = [f"since then changed: {', '.join(parts)}"] if parts else []
    said += [settings] if settings else []
    unknown = unknown if settings is not None else ["its probe", *unknown]
    command = "run" if results.has_tables() else "advise"
    anew = f"{COMMAND_PREFIX} {command} PROBE --fresh measures anew"
    return Changes(
        "; ".join([made, *said, anew]) if said else "",
        f"{made}; not compared since: {', '.join(unknown)}" if unknown else "",
    )
