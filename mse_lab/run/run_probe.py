"""Run a probe: configuration -> `results/<probe name>/`, resumed where it stopped."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mse_lab.probe.schema import Probe
from mse_lab.run.environment import device_model, peak_memory_bytes
from mse_lab.run.finish import finish
from mse_lab.run.prepare import RunContext, RunSpec, load, prepare
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.run.progress import Tally, add_up, progress
from mse_lab.run.resume import Outcome, find_finished, measure_and_keep, take_folder


def measure_prompts(
    context: RunContext, dealt: Iterable[int], done: int, *, shown: bool = True
) -> None:
    """Measure the prompts dealt to this process; wait until all but those done are."""
    spec, tally = context.spec, Tally()
    processes = spec.processes
    hidden = not (shown and processes.first)
    with progress(spec.name, len(spec.prompts), done, hidden=hidden) as show:
        for index in dealt:
            tally = add_up([tally, Tally.of(measure_and_keep(context, index))])
            show(processes.total(tally))
        processes.meet(lambda: show(processes.total(tally)))
        show(processes.total(tally))


def run_probe(
    name: str,
    probe: Probe,
    folder: Path,
    root: Path,
    *,
    fresh: bool,
    processes: Processes = SINGLE_PROCESS,
) -> Outcome:
    """Measure one model configuration, or go on where an earlier start stopped.

    Args:
        name: The probe's name, for tables and the progress bar.
        probe: The configuration.
        folder: Where the results go.
        root: The project's folder, which relative paths may start from.
        fresh: Whether to drop what the folder holds of an earlier run.
        processes: Those that share the prompts; each of them calls this.

    Raises:
        InputError: Something of the user's is at fault; nothing is lost.
    """
    return execute(prepare(name, probe, folder, root, processes), load, fresh=fresh)


def execute(
    spec: RunSpec,
    load: Callable[[RunSpec], RunContext],
    *,
    fresh: bool = False,
    identity: Mapping[str, str] | None = None,
    shown: bool = True,
) -> Outcome:
    """Measure what is prepared, or go on where an earlier start stopped.

    `load` brings the model; `identity` says which it is, if that is known before.
    """
    processes, folder = spec.processes, spec.results.path
    # What was measured since the command was given is not dropped by a start after a loss.
    fresh = fresh and not processes.restarted
    found = processes.agree(
        lambda: find_finished(spec, identity, fresh=fresh), Outcome | None
    )
    if found:
        return found
    context = load(spec)
    # Only now that everything is known to be usable is anything of an old run dropped.
    processes.meet()
    with processes.hold(folder):
        todo = processes.agree(lambda: take_folder(context, fresh=fresh))
        done = len(spec.prompts) - len(todo)
        measure_prompts(context, processes.deal(todo), done, shown=shown)
        devices = processes.gather(device_model(context.subject.policy.device))
        peaks = processes.gather(peak_memory_bytes())
        return processes.agree(lambda: finish(context, devices, max(peaks)), Outcome)
