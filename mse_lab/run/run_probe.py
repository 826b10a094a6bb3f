"""Run a probe: configuration -> `results/<probe name>/`, resumed where it stopped."""

from collections.abc import Iterable

from mse_lab.policy.policy import Policy
from mse_lab.run.environment import device_model, peak_memory_bytes
from mse_lab.run.finish import finish
from mse_lab.run.metric import add_more, lacks_more
from mse_lab.run.prepare import RunContext, RunSpec, attach_model, load
from mse_lab.run.progress import Tally, add_up, progress
from mse_lab.run.resume import Outcome, find_finished, measure_and_keep, take_folder


def measure_prompts(
    context: RunContext, dealt: Iterable[int], done: int, *, shown: bool = True
) -> None:
    """Measure the prompts of this process; wait until all processes have theirs."""
    spec, tally = context.spec, Tally()
    processes = spec.processes
    hidden = not (shown and processes.first)
    with progress(spec.name, len(spec.prompts), done, hidden=hidden) as show:
        for index in dealt:
            tally = add_up([tally, Tally.of(measure_and_keep(context, index))])
            show(processes.total(tally))
        processes.meet(lambda: show(processes.total(tally)))
        show(processes.total(tally))


def execute(
    spec: RunSpec,
    *,
    policy: Policy | None = None,
    fresh: bool = False,
    shown: bool = True,
) -> Outcome:
    """Measure what is prepared, or continue where an earlier start stopped.

    An error of the user's input loses no measurement.

    Args:
        spec: What is measured, and where its results go.
        policy: A model that is in memory; by default the probe's is loaded.
        fresh: Whether what the folder holds of an earlier run is dropped.
        shown: Whether a progress bar is shown.
    """

    def attach() -> RunContext:
        return attach_model(spec, policy) if policy else load(spec)

    identity = policy.identity if policy else None
    processes, folder = spec.processes, spec.results.path
    # A restart after a lost process keeps what this command has measured.
    fresh = fresh and not processes.restarted
    outcome = processes.agree(
        lambda: find_finished(spec, identity, fresh=fresh), Outcome | None
    )
    if outcome:
        if processes.agree(lambda: lacks_more(spec)):
            context = attach()
            with processes.hold(folder):
                add_more(context, shown=shown)
        return outcome
    context = attach()
    # An old run is dropped only now, when everything is known to be usable.
    processes.meet()
    with processes.hold(folder):
        todo = processes.agree(lambda: take_folder(context, fresh=fresh))
        done = len(spec.prompts) - len(todo)
        measure_prompts(context, processes.deal(todo), done, shown=shown)
        devices = processes.gather(device_model(context.subject.policy.device))
        peaks = processes.gather(peak_memory_bytes())
        outcome = processes.agree(lambda: finish(context, devices, max(peaks)), Outcome)
        if processes.agree(lambda: lacks_more(spec)):
            add_more(context, shown=shown)
        return outcome
