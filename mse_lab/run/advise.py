"""Measure a probe until its answer is known: samples, look by look, until one says stop."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from mse_lab.errors import InputError
from mse_lab.measurement.rounds import SCORED, Look, looks
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.samples import Blocks
from mse_lab.mse.stopping import Stopped
from mse_lab.results.checks import ONE_PASS, Check, check_drawn_law, check_scores
from mse_lab.run.metric import add_more
from mse_lab.run.prepare import RunContext, RunSpec, load
from mse_lab.run.progress import AdviceProgress, advice_progress
from mse_lab.run.samples import KeptSamples, Samples

# The folder of an advice, in that of the probe's results.
ADVICE = "advice"

BUDGET: Stopped = "budget"
EXHAUSTED: Stopped = "exhausted"

# Completions whose products with one another are needed.
AT_ONCE = sum(SCORED)

# Prompts that are needed, and of them, with rewards that differ.
LEAST_PROMPTS, LEAST_SIGNALS = 3, 2


class Decision(Protocol):
    """What a look says: why to stop, if so, and in words what is known."""

    @property
    def stop(self) -> Stopped | None:
        """Why to stop; None to go on."""

    @property
    def words(self) -> str:
        """What is known, for a line."""

    @property
    def width(self) -> float:
        """Half-width of the answer's interval; infinite where it has no end."""


D = TypeVar("D", bound=Decision)


class Sampling(NamedTuple, Generic[D]):
    """How a measurement until the answer is known has ended."""

    # Each prompt's blocks at the last look; none but in the first process.
    prompts: list[Blocks]
    look: Look  # The last look.
    stopped: Stopped  # Why it ended: what the decision said, `budget` or `exhausted`.
    # That of the last look; None but in the first process, and where rewards differ within
    # too few prompts.
    decision: D | None
    checks: list[Check]  # Built-in ones; none but in the first process.
    # Half-width that endless completions of each prompt would leave; NaN where not all
    # prompts were looked at twice.
    limit: float
    metric: MetricPools | None = None  # What training feels, where the probe asks for it.

    @property
    def differentiated(self) -> int:
        """Completions of the last look that were differentiated."""
        return sum(block.differentiated for blocks in self.prompts for block in blocks)


def varies(blocks: Blocks) -> bool:
    """Whether a prompt has rewards that differ."""
    return bool(np.ptp(np.concatenate([block.rewards_N for block in blocks])) > 0)


def refuse_few(prompts: int, budget: int | None) -> None:
    """Refuse too few prompts, or a budget below the first look."""
    if prompts < LEAST_PROMPTS:
        raise InputError(
            f"{prompts} prompts: advice needs three or more; raise prompts.limit"
        )
    first = next(looks(prompts))
    if budget is not None and budget < first.drawn:
        raise InputError(
            f"budget = {budget}: the first look takes {first.drawn} completions, "
            f"{first.completions} of each of {first.prompts} prompts; give that or more"
        )


def limit_width(looks: Sequence[tuple[int, float]]) -> float:
    """Half-width that endless completions of each prompt would leave; NaN if not known.

    Its square is b + w / n with n completions of each, prompts apart and completions apart.

    Args:
        looks: n and the half-width of looks at the same prompts, n rising; what is found is
            of the last one, and the last that had half as many or fewer.

    >>> limit_width([(16, 5.0), (24, 4.4), (32, 4.0)])  # 25 = 7 + 288/16, 16 = 7 + 288/32
    2.6457513110645907
    """
    if not looks:
        return math.nan
    many, narrow = looks[-1]
    few, wide = next((one for one in reversed(looks) if 2 * one[0] <= many), looks[-1])
    if few == many or math.isinf(wide) or math.isinf(narrow):
        return math.nan
    within = (wide**2 - narrow**2) / (1 / few - 1 / many)
    return math.sqrt(max(narrow**2 - max(within, 0.0) / many, 0.0))


class _Looks(Generic[D]):
    """What the looks have said, in the process that looks."""

    def __init__(
        self,
        samples: Samples,
        decide: Callable[[Sequence[Blocks]], D],
        line: AdviceProgress,
    ) -> None:
        self.prompts: list[Blocks] = []
        self.checks: list[Check] = []
        self.decision: D | None = None
        self.limit = math.nan
        self._samples, self._decide, self._line = samples, decide, line
        self._widths: list[tuple[int, float]] = []

    def at(self, look: Look) -> Stopped | None:
        """Look; give why to stop."""
        found = self._samples.read(look)
        dtype = self._samples.subject.probe.model.dtype
        self.checks = [
            check_drawn_law([block.law_gap for blocks in found for block in blocks], dtype),
            check_scores(ONE_PASS, found[0][0].gradient_gap, dtype),
        ]
        self.prompts = [tuple(block.sample for block in blocks) for blocks in found]
        differ = sum(map(varies, self.prompts))
        one = self._decide(self.prompts) if differ >= LEAST_SIGNALS else None
        self.decision = one
        self._line.say(look, one.words if one else f"rewards differ within {differ} so far")
        if one is not None and look.prompts == len(self._samples.order):
            self._widths.append((look.completions, one.width))
            self.limit = limit_width(self._widths)
        return one.stop if one else None


def sample_until(
    samples: Samples,
    decide: Callable[[Sequence[Blocks]], D],
    budget: int | None,
    line: AdviceProgress,
) -> Sampling[D]:
    """Sample look by look until one says stop, or there is nothing left to spend.

    All processes call this; the first one looks.
    """
    seen, count, stop = _Looks(samples, decide, line), len(samples.order), None
    for look in looks(count, budget):
        samples.measure(look, line.show)
        stop = samples.processes.agree(partial(seen.at, look))
        if stop:
            break
    # Without a stop they end where the next one would exceed the budget.
    *_, last = looks(count)
    stopped = stop or (EXHAUSTED if look == last else BUDGET)
    return Sampling(seen.prompts, look, stopped, seen.decision, seen.checks, seen.limit)


def _take(context: RunContext, *, fresh: bool) -> None:
    """Take the folder of an advice, emptied if `fresh`."""
    results, spec = context.spec.results, context.spec
    results.refuse_foreign()
    if fresh:
        results.clear()
    else:
        results.refuse_other(spec.probe, spec.digest, context.identity)
    results.take(spec.probe, spec.digest, context.identity)


def sample_context(
    context: RunContext,
    decide: Callable[[Sequence[Blocks]], D],
    budget: int | None,
    *,
    fresh: bool = False,
    shown: bool = True,
) -> Sampling[D]:
    """Sample in the folder of an advice, then measure its metric; see `sample_probe`."""
    spec, processes = context.spec, context.spec.processes
    with processes.hold(spec.results.path):
        processes.agree(lambda: _take(context, fresh=fresh))
        hidden = not (shown and processes.first)
        with advice_progress(spec.name, hidden=hidden) as line:
            ended = sample_until(KeptSamples(context), decide, budget, line)
        if processes.agree(lambda: ended.decision is not None):
            add_more(context, shown=shown)
    felt = spec.probe.metric.kind != "plain" and ended.decision is not None
    return ended._replace(metric=spec.results.read("metric.npz") if felt else None)


def sample_probe(
    spec: RunSpec,
    decide: Callable[[Sequence[Blocks]], D],
    *,
    budget: int | None = None,
    fresh: bool = False,
) -> Sampling[D]:
    """Measure a probe until an answer is known, or go on where an earlier start stopped.

    The samples go to the folder of the results. At most a `budget` of completions is drawn
    in all; with `fresh` the samples of an earlier start are dropped.
    """
    if spec.supplied is not None:
        raise InputError(
            "completions: an advice draws its own; measure these with mse-lab run, or "
            "leave them out with --set completions=null"
        )
    refuse_few(len(spec.prompts), budget)
    context = load(spec, AT_ONCE)
    # An old advice is dropped only now, when everything is known to be usable.
    spec.processes.meet()
    fresh = fresh and not spec.processes.restarted
    return sample_context(context, decide, budget, fresh=fresh)
