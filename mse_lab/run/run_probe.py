"""Run a probe into its folder, `results/<probe name>/`, or resume it where it stopped."""

from collections.abc import Iterable, Mapping

from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.policy.policy import Policy
from mse_lab.results.finished_run import repair
from mse_lab.run.changes import identify_model
from mse_lab.run.context import attach_model, load, measuring
from mse_lab.run.finish import Outcome, device_model, finish, peak_memory_bytes
from mse_lab.run.loop import Batch, Store, fill, read_measurements
from mse_lab.run.prepare import RunSpec
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.run.progress import Progress
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.subject import Subject


def find_finished(
    spec: RunSpec, identity: Mapping[str, str] | None = None, *, fresh: bool = False
) -> Outcome | None:
    """Find a finished run, repaired where needed; refuse another configuration's folder.

    The identity of all that is measured is by default that of the files. With `fresh` a
    finished run does not count.
    """
    results = spec.results
    results.refuse_foreign()
    if fresh or not results.is_begun():
        return None
    identity = identity or {**identify_model(spec.probe.model, spec.root), **spec.identity}
    results.refuse_other(spec.probe, identity)
    repaired = repair(spec.name, spec.probe, spec.prompts, results)
    if not results.is_complete():
        return None
    results.read("pools.npz")  # Everything else follows from it.
    results.drop_shards()
    written = results.read_checks()
    return Outcome(
        written.checks,
        written.warnings,
        finished_before=True,
        diagnostics=results.read("diagnostics.json", None),
        repaired=repaired,
    )


def measure_prompts(
    subject: Subject,
    store: Store[PromptMeasurement],
    indices: Iterable[int],
    processes: Processes = SINGLE_PROCESS,
    *,
    shown: bool = True,
) -> None:
    """Measure what a store lacks of these prompts; show the first one and the progress."""

    def measure(batch: Batch) -> list[PromptMeasurement]:
        return [measure_prompt(subject, index, processes.rank) for (index,) in batch]

    hidden = not (shown and processes.first)
    with Progress(subject.name, "prompts", hidden=hidden) as line:
        line.write(subject.first_prompt)
        fill(store, [((index,),) for index in indices], measure, processes, line)


def execute_run(
    spec: RunSpec, *, policy: Policy | None = None, fresh: bool = False, shown: bool = True
) -> Outcome:
    """Measure a probe, or resume its run where an earlier start stopped.

    An error in the user's input loses no measurement. Without a `policy` the probe's is
    loaded. With `fresh` what the folder holds of an earlier run is removed.
    """
    attached = attach_model(spec, policy) if policy else None
    identity = attached.identity if attached else None
    processes, indices = spec.processes, range(len(spec.prompts))
    # After a lost process, a restart keeps what this command has measured.
    fresh = fresh and not processes.restarted
    outcome = processes.agree(
        lambda: find_finished(spec, identity, fresh=fresh), Outcome | None
    )
    if outcome:
        return outcome
    context = attached or load(spec)
    with measuring(context, PromptMeasurement, fresh=fresh) as store:
        measure_prompts(context.subject, store, indices, processes, shown=shown)
        devices = processes.gather(device_model(context.subject.policy.device))
        peaks = processes.gather(peak_memory_bytes())

        def end() -> Outcome:
            prompts = read_measurements(store, [(index,) for index in indices])
            return finish(context, prompts, devices, max(peaks))

        return processes.agree(end, Outcome)
