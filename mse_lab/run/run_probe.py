"""Run a probe into its folder, `results/<probe name>/`, or resume it where it stopped.

`run --until` adds whole rounds of replicates until the interval of each MSE is narrow. A
round is the probe's own number of replicates. After each measurement the widest interval
says how many rounds are needed, for its width falls with the square root of the replicates.
A larger measurement draws the same completions again, as their uniform numbers are keyed,
and further ones after them: the result is that of a run with the larger pool, which its
configuration names.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from mse_lab.errors import InputError
from mse_lab.policy.policy import Policy
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.schema import Probe
from mse_lab.probe.values import MOST_COMPLETIONS
from mse_lab.results.checks import none_failed
from mse_lab.results.finished_run import read_result
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.finish import device_model, finish, peak_memory_bytes
from mse_lab.run.prepare import RunContext, RunSpec, attach_model, load, prepare
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

    def attach() -> RunContext:
        return attach_model(spec, policy) if policy else load(spec)

    identity = policy.identity if policy else None
    processes, folder = spec.processes, spec.results.path
    # After a lost process, a restart keeps what this command has measured.
    fresh = fresh and not processes.restarted
    outcome = processes.agree(
        lambda: find_finished(spec, identity, fresh=fresh), Outcome | None
    )
    if outcome:
        return outcome
    context = attach()
    # An old run is removed only now, when all input is known to be usable.
    processes.meet()
    with processes.locked(folder):
        todo = processes.agree(lambda: begin_or_resume(context, fresh=fresh))
        done = len(spec.prompts) - len(todo)
        measure_prompts(context, processes.deal(todo), done, shown=shown)
        devices = processes.gather(device_model(context.subject.policy.device))
        peaks = processes.gather(peak_memory_bytes())
        return processes.agree(lambda: finish(context, devices, max(peaks)), Outcome)


# The fewest and the most times as many replicates at once, for the width is an estimate,
# too: short of the goal by a hair, single rounds would each measure all of it again.
SMALLEST_FACTOR = 1.25
LARGEST_FACTOR = 4
# Twice the replicates narrow an interval to 0.71 of its width. One that stays above this
# share has its width from the reference.
HARDLY_NARROWER = 0.9


def widest(folder: Path) -> float:
    """Give the largest half-width of a finished run's MSEs, relative to the MSE."""
    table = read_result(folder).tables["mse.csv"]
    return float(((table["mse_high"] - table["mse_low"]) / (2 * table["mse"].abs())).max())


def next_rounds(rounds: int, width: float, wanted: float) -> int:
    """Estimate how many rounds in all give the wanted width, where `rounds` gave `width`.

    >>> next_rounds(1, 0.2, 0.1), next_rounds(4, 0.105, 0.1), next_rounds(1, 9.0, 0.1)
    (4, 5, 4)
    """
    factor = min(max((width / wanted) ** 2, SMALLEST_FACTOR), LARGEST_FACTOR)
    return math.ceil(rounds * factor - 1e-9)


def with_rounds(probe: Probe, rounds: int) -> Probe:
    """Give the probe with this many rounds of replicates."""
    replicate = probe.pool.replicate * rounds
    if replicate > MOST_COMPLETIONS:
        raise InputError(
            f"--until: {replicate:,} replicates of a prompt would be needed, and "
            f"{MOST_COMPLETIONS:,} are the most; ask for wider intervals"
        )
    pool = probe.pool.model_copy(update={"replicate": replicate})
    return probe.model_copy(update={"pool": pool})


def rounds_begun(probe: Probe, folder: Path) -> int:
    """Count the rounds of a folder's run, finished or begun; 1 if it is another probe's."""
    written = ResultsFolder(folder).configuration()
    if not written:
        return 1
    rounds, rest = divmod(parse_probe(written, str(folder)).pool.replicate,
                          probe.pool.replicate)  # fmt: skip
    same = not rest and not ResultsFolder(folder).differences(with_rounds(probe, rounds))
    return rounds if same else 1


def run_until(
    spec: RunSpec, *, width: float, fresh: bool, tell: Callable[[str], None]
) -> Outcome:
    """Measure whole rounds of a probe's replicates until its curves are narrow.

    They are when no interval of a measured MSE has a half-width above `width`, relative to
    the MSE. `tell` is given a line after each measurement that is not enough. After a kill
    the same call resumes the measurement that was begun.
    """
    name, probe, folder = spec.name, spec.probe, spec.results.path
    rounds, before = 1 if fresh else rounds_begun(probe, folder), math.inf
    while True:
        larger = with_rounds(probe, rounds)
        run = spec if larger == probe else prepare(name, larger, folder, spec.root)
        outcome = execute(run, fresh=fresh)
        now = widest(folder)
        # The width is NaN where no error is measured.
        if not now > width or not none_failed(outcome.checks):
            return outcome
        if now > HARDLY_NARROWER * before:
            tell(
                f"{name}: the widest interval is +-{now:.0%} and hardly narrows: raise "
                "pool.reference"
            )
            return outcome
        more = next_rounds(rounds, now, width)
        tell(
            f"{name}: the widest interval is +-{now:.0%} with {larger.pool.replicate:,} "
            f"replicates; next {probe.pool.replicate * more:,}"
        )
        # After less than a doubling, hardly narrower is no sign of the reference's noise.
        before = now if more >= 2 * rounds else math.inf
        rounds, fresh = more, True
