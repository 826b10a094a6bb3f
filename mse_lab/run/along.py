"""Along a training run: one probe, measured at one checkpoint after another.

All see the same prompts, and draw their completions with the same keyed uniforms, so that
what differs between two checkpoints is paired prompt by prompt. Each is a run like any
other, in a folder of its own, which goes on where it stopped.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mse_lab.errors import InputError
from mse_lab.policy.adapters import SAVED, find_adapter
from mse_lab.policy.checkpoint import load_settings, load_tokenizer
from mse_lab.policy.location import locate
from mse_lab.probe.schema import Model, Probe
from mse_lab.probe.trained_checkpoints import Checkpoint
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.advise import LEAST_PROMPTS
from mse_lab.run.prepare import RunSpec, load
from mse_lab.run.resume import Outcome, find_finished
from mse_lab.run.run_probe import execute

# The folder of the checkpoints' runs, within that of the probe's run.
ALONG = "along"


class Stage(NamedTuple):
    """A checkpoint's run: after which step, where it lies, what became of it."""

    step: int
    folder: Path
    outcome: Outcome


def _model_at(probe: Probe, checkpoint: Path) -> Model:
    adapter = checkpoint / SAVED
    changes = (
        {"adapter": str(checkpoint), "adapter_revision": None}
        if adapter.is_file()
        else {"path": str(checkpoint), "revision": None}
    )
    return probe.model.model_copy(update=changes)


def _prepare_at(spec: RunSpec, checkpoint: Checkpoint) -> RunSpec:
    """Prepare the run of a checkpoint, whose prompts and reward are those of the probe."""
    if checkpoint.path is None:
        return spec
    place = f"{ALONG}/{checkpoint.path.name}"
    model = _model_at(spec.probe, checkpoint.path)
    return replace(
        spec,
        name=f"{spec.name}/{place}",
        probe=spec.probe.model_copy(update={"model": model}),
        results=ResultsFolder(spec.results.path / place),
    )


def _refuse_each(runs: Sequence[RunSpec], *, fresh: bool) -> None:
    """Check that every checkpoint can be measured, or has been, before any is measured.

    Each is loaded once for this, which takes little time compared with measuring it.
    """
    todo = [run for run in runs if not find_finished(run, fresh=fresh)]
    for run in todo:
        model = run.probe.model
        place = locate("model.path", model.path, model.revision, run.root)
        load_tokenizer(load_settings(place)[0])
        find_adapter(model, run.root)
    tokens: list[list[int]] = []
    for run in todo:
        subject, where = load(run).subject, f"--checkpoints {run.results.path.name}"
        if tokens and subject.tokens != tokens:
            raise InputError(
                f"{where}: its tokenizer reads other tokens from the prompts than that of "
                "the checkpoint before; give checkpoints of one tokenizer"
            )
        tokens = subject.tokens


def _refuse_together(runs: Sequence[RunSpec]) -> None:
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
    tell: Callable[[Stage], object] = lambda stage: None,
) -> list[Stage]:
    """Measure a probe at every checkpoint, in this order, or go on where it stopped.

    A checkpoint takes the place of the probe's model; its run is `along/<checkpoint>` below
    the probe's own, and told of when it is finished. What can be checked before the weights
    are loaded is checked before any measurement.
    """
    runs = [_prepare_at(spec, checkpoint) for checkpoint in checkpoints]
    _refuse_together(runs)
    spec.processes.agree(lambda: _refuse_each(runs, fresh=fresh))
    stages = []
    for checkpoint, run in zip(checkpoints, runs, strict=True):
        outcome = execute(run, fresh=fresh)
        stages.append(Stage(checkpoint.step, run.results.path, outcome))
        tell(stages[-1])
    return stages
