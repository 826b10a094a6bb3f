"""Run a probe into its folder, `results/<probe name>/`, or resume it where it stopped."""

from collections.abc import Iterable

from mse_lab.results.files import vanished
from mse_lab.results.finished_run import repair
from mse_lab.results.folder import MARK
from mse_lab.results.measurement import PromptMeasurement
from mse_lab.run.changes import identify_model
from mse_lab.run.context import load, measuring
from mse_lab.run.finish import Outcome, finish
from mse_lab.run.loop import Batch, Store, fill, read_measurements
from mse_lab.run.progress import Progress
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.subject import Subject


def find_finished(subject: Subject, *, fresh: bool = False) -> Outcome | None:
    """Find a finished run, repaired where needed; refuse another configuration's folder.

    Without a policy the model's identity is that of its files. With `fresh` a finished run
    does not count.
    """
    results, identity = subject.folder, subject.identity
    results.refuse_foreign()
    if fresh or not results.is_begun():
        return None
    if "model" not in identity:
        identity = {**identify_model(subject.probe.model, subject.root), **identity}
    results.refuse_other(subject.probe, identity)
    repaired = repair(subject.name, subject.probe, results)
    if not results.is_complete():
        return None
    results.read("pools.npz")  # Everything else follows from it.
    results.drop_shards()
    noted, diagnostics = results.read_checks(), results.read("diagnostics.json", None)
    return Outcome(noted, diagnostics, finished_before=True, repaired=repaired)


def measure_prompts(
    subject: Subject,
    store: Store[PromptMeasurement],
    indices: Iterable[int],
    *,
    shown: bool = True,
) -> None:
    """Measure what a store lacks of these prompts; show the first one and the progress."""

    def measure(batch: Batch) -> list[PromptMeasurement]:
        return [measure_prompt(subject, index) for (index,) in batch]

    processes = subject.processes
    hidden = not (shown and processes.first)
    with Progress(subject.name, "prompts", hidden=hidden) as line:
        line.write(subject.first_prompt)
        fill(store, [((index,),) for index in indices], measure, processes, line)


def execute_run(subject: Subject, *, fresh: bool = False, shown: bool = True) -> Outcome:
    """Measure a probe, or resume its run where an earlier start stopped.

    An error in the user's input loses no measurement. Where no policy is attached the
    probe's is loaded. With `fresh` what the folder holds of an earlier run is removed.
    """
    processes, indices = subject.processes, range(len(subject.prompts))
    # After a lost process, a restart keeps what this command has measured.
    fresh = fresh and not processes.restarted
    outcome = processes.agree(lambda: find_finished(subject, fresh=fresh), Outcome | None)
    if outcome:
        return outcome
    if not hasattr(subject, "policy"):
        subject = load(subject)
    with measuring(subject, PromptMeasurement, fresh=fresh) as store:
        measure_prompts(subject, store, indices, shown=shown)

        def end() -> Outcome:
            prompts = read_measurements(store, [(index,) for index in indices])
            if not subject.folder.has(MARK):
                raise vanished(subject.folder.path)
            return finish(subject, prompts)

        return processes.agree(end, Outcome)
