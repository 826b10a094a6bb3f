"""Run a probe into its folder, `results/<probe name>/`, or resume it where it stopped."""

from collections.abc import Iterable

from mse_lab.policy.policy import Policy
from mse_lab.run.finish import device_model, finish, peak_memory_bytes
from mse_lab.run.prepare import RunContext, RunSpec, attach_model, load
from mse_lab.run.progress import Tally, add_up, progress
from mse_lab.run.resume import Outcome, begin_or_resume, find_finished, measure_and_keep


def measure_prompts(
    context: RunContext, indices: Iterable[int], done: int, *, shown: bool = True
) -> None:
    """Measure prompts in this process; wait until all processes have measured theirs.

    `done` prompts were measured by an earlier start.
    """
    spec, tally = context.spec, Tally()
    processes = spec.processes
    hidden = not (shown and processes.first)
    with progress(spec.name, len(spec.prompts), done, hidden=hidden) as show:
        for index in indices:
            tally = add_up([tally, Tally.of(measure_and_keep(context, index))])
            show(processes.total(tally))
        processes.meet(lambda: show(processes.total(tally)))
        show(processes.total(tally))


def execute(
    spec: RunSpec, *, policy: Policy | None = None, fresh: bool = False, shown: bool = True
) -> Outcome:
    """Measure a probe, or resume its run where an earlier start stopped.

    An error in the user's input loses no measurement. Without a `policy` the probe's is
    loaded. With `fresh` what the folder holds of an earlier run is removed.
    """
    held = attach_model(spec, policy) if policy else None
    identity = held.of_model if held else None
    processes, folder = spec.processes, spec.results.path
    # After a lost process, a restart keeps what this command has measured.
    fresh = fresh and not processes.restarted
    outcome = processes.agree(
        lambda: find_finished(spec, identity, fresh=fresh), Outcome | None
    )
    if outcome:
        return outcome
    context = held or load(spec)
    # An old run is removed only now, when all input is known to be usable.
    processes.meet()
    with processes.locked(folder):
        todo = processes.agree(lambda: begin_or_resume(context, fresh=fresh))
        done = len(spec.prompts) - len(todo)
        measure_prompts(context, processes.deal(todo), done, shown=shown)
        devices = processes.gather(device_model(context.subject.policy.device))
        peaks = processes.gather(peak_memory_bytes())
        return processes.agree(lambda: finish(context, devices, max(peaks)), Outcome)
