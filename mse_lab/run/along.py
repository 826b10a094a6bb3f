"""Along a training run: one probe, measured at one checkpoint after another.

All checkpoints get the same prompts, and draw completions with the same keyed uniforms, so
that differences between two checkpoints are paired prompt by prompt. Each checkpoint has a
run like any other, in its own folder, which is resumed where it stopped.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError, shorten
from mse_lab.policy.adapters import SAVED, find_adapter
from mse_lab.policy.checkpoint import load_settings, load_tokenizer
from mse_lab.policy.fingerprint import settings_of
from mse_lab.policy.location import locate_model
from mse_lab.probe.trained_checkpoints import Checkpoint
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.advise import LEAST_PROMPTS
from mse_lab.run.prepare import RunSpec, load
from mse_lab.run.resume import Outcome, find_finished
from mse_lab.run.run_probe import execute

# The folder of the checkpoints' runs, within that of the probe's run.
ALONG = "along"


class Stage(NamedTuple):
    """The run of a checkpoint."""

    step: int  # The training's step that the checkpoint was saved after.
    folder: Path  # The folder of the run.
    outcome: Outcome


def _prepare_at(spec: RunSpec, checkpoint: Checkpoint) -> RunSpec:
    """Prepare the run of a checkpoint, with the prompts and the reward of the probe."""
    if (path := checkpoint.path) is None:
        return spec
    subfolder = f"{ALONG}/{path.name}"
    changes = {"path": str(path), "revision": None}
    if (path / SAVED).is_file():
        changes = {"adapter": str(path), "adapter_revision": None}
    model = spec.probe.model.model_copy(update=changes)
    return replace(
        spec,
        name=f"{spec.name}/{subfolder}",
        probe=spec.probe.model_copy(update={"model": model}),
        results=ResultsFolder(spec.results.path / subfolder),
    )


def _describe(run: RunSpec) -> dict[str, dict[str, Any]]:
    """Read what the small files of a checkpoint say of its policy."""
    model = run.probe.model
    location, settings = load_settings(locate_model(model, run.root))
    find_adapter(model, run.root)
    tokenizer = load_tokenizer(location)
    return {"config.json": settings_of(settings), "tokenizer": tokenizer.get_vocab()}


def _refuse_unlike(runs: Sequence[RunSpec]) -> None:
    """Refuse checkpoints whose architecture or vocabulary differ: not one training's."""
    described = [_describe(run) for run in runs]
    for run, before, now in zip(runs[1:], described, described[1:], strict=False):
        for file, values in now.items():
            both = values.keys() & before[file].keys()
            changed = sorted(key for key in both if values[key] != before[file][key])
            if changed:
                raise InputError(
                    f"--checkpoints {run.results.path.name}: its {file} differs from that "
                    f"of the checkpoint before in {shorten(', '.join(changed))}; give "
                    "checkpoints of one training"
                )


def _refuse_each(
    unfinished: Sequence[int], runs: Sequence[RunSpec], checkpoints: Sequence[Checkpoint]
) -> None:
    """Refuse checkpoints before any is measured: by small files, then by loading each.

    A finished one may be gone, as a trainer keeps the last few only.
    """
    paths = [checkpoint.path for checkpoint in checkpoints]
    there = [path.exists() if path else bool(unfinished) for path in paths]
    _refuse_unlike([run for run, held in zip(runs, there, strict=True) if held])
    before: list[list[int]] = []
    for run in (runs[at] for at in unfinished):
        # The model itself has no name, so that the next one is not loaded beside it.
        tokens = load(run).subject.tokens
        if before and tokens != before:
            raise InputError(
                f"--checkpoints {run.results.path.name}: its tokenizer reads other tokens "
                "from the prompts than that of the checkpoint before; give checkpoints of "
                "one tokenizer"
            )
        before = tokens


def _refuse_together(runs: Sequence[RunSpec]) -> None:
    """Refuse runs that cannot be compared."""
    if len(runs[0].prompts) < LEAST_PROMPTS:
        raise InputError(
            f"{len(runs[0].prompts)} prompts: differences between checkpoints need "
            f"{LEAST_PROMPTS} or more; raise prompts.limit"
        )
    if any(run.supplied for run in runs):
        raise InputError(
            "completions: each checkpoint draws its own; take the key out of the probe"
        )
    adapters = [run.probe.model.adapter is not None for run in runs]
    if any(adapters) and not all(adapters):
        raise InputError(
            "--checkpoints: some are adapters and some are not, so that other parameters "
            "count; give checkpoints of one kind, without --from-start"
        )
    folders = [run.results.path for run in runs]
    for folder in folders:
        if folders.count(folder) > 1:
            raise InputError(
                f"--checkpoints: two are named {folder.name}; rename one of the folders"
            )


def measure_along(
    spec: RunSpec,
    checkpoints: Sequence[Checkpoint],
    *,
    fresh: bool = False,
    finished: Callable[[Stage], object] = lambda stage: None,
) -> list[Stage]:
    """Measure a probe at every checkpoint, in this order, or resume where that stopped.

    A checkpoint replaces the probe's model. Its run is in `along/<checkpoint>`, inside the
    folder of the probe's run; `finished` is called after each. All checkpoints are checked
    before the first is measured.
    """
    runs = [_prepare_at(spec, checkpoint) for checkpoint in checkpoints]
    _refuse_together(runs)

    def unfinished() -> list[int]:
        return [at for at, run in enumerate(runs) if not find_finished(run, fresh=fresh)]

    refuse = partial(_refuse_each, spec.processes.agree(unfinished), runs, checkpoints)
    spec.processes.agree(refuse)
    stages = []
    for checkpoint, run in zip(checkpoints, runs, strict=True):
        stages.append(Stage(checkpoint.step, run.results.path, execute(run, fresh=fresh)))
        finished(stages[-1])
    return stages
