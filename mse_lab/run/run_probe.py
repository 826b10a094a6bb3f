"""Run a probe: configuration -> `results/<probe name>/`, resumed where it stopped."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mse_lab.probe.schema import Probe
from mse_lab.results.shard import Shard
from mse_lab.run.environment import device_model, peak_memory_bytes
from mse_lab.run.finish import finish
from mse_lab.run.prepare import Bench, Prepared, load, prepare
from mse_lab.run.processes import ALONE, Processes
from mse_lab.run.progress import Tally, add_up, progress
from mse_lab.run.resume import Outcome, claim, find_finished, measure_and_keep


def measure_prompts(
    bench: Bench,
    dealt: Iterable[int],
    done: int,
    measure: Callable[[Bench, int], Shard] = measure_and_keep,
    *,
    shown: bool = True,
) -> None:
    """Measure the prompts dealt to this process; wait until all but those done are."""
    tally, processes = Tally(), bench.processes
    hidden = not (shown and processes.first)
    with progress(bench.name, len(bench.prompts), done, hidden=hidden) as show:
        for index in dealt:
            shard = measure(bench, index)
            tally = add_up([tally, Tally(1, shard.mean_reward, shard.truncated)])
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
    processes: Processes = ALONE,
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
    return carry_out(prepare(name, probe, folder, root, processes), load, fresh=fresh)


def carry_out(
    run: Prepared,
    load: Callable[[Prepared], Bench],
    *,
    fresh: bool = False,
    identity: Mapping[str, str] | None = None,
    shown: bool = True,
) -> Outcome:
    """Measure what is prepared, or go on where an earlier start stopped.

    `load` brings the model; `identity` says which it is, if that is known before.
    """
    processes, folder = run.processes, run.record.folder
    # What was measured since the command was given is not dropped by a start after a loss.
    fresh = fresh and not processes.restarted
    if not fresh:
        found = processes.agree(lambda: find_finished(run, identity), Outcome | None)
        if found:
            return found
    bench = load(run)
    # Only now that everything is known to be usable is anything of an old run dropped.
    processes.meet()
    with processes.hold(folder):
        todo = processes.agree(lambda: claim(bench, fresh=fresh))
        done = len(run.prompts) - len(todo)
        measure_prompts(bench, processes.deal(todo), done, shown=shown)
        devices = processes.gather(device_model(bench.policy.device))
        peaks = processes.gather(peak_memory_bytes())
        return processes.agree(lambda: finish(bench, devices, max(peaks)), Outcome)
