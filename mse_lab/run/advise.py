"""Measure a probe until its answer is known: sample look by look, until one says stop.

`run/looks.py` says how many prompts and completions each look has,
`mse/rule.py` what a look decides.
"""

import math
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain, takewhile

import numpy as np
from pydantic import ByteSize

from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError
from mse_lab.estimators.groups import is_binary
from mse_lab.formatting import with_interval
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import completions_needed
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import (
    FIRST_PROMPTS,
    LEAST_PROMPTS,
    LEAST_SIGNALS,
    Question,
    Ruling,
    Stopped,
    rule_by_looks,
)
from mse_lab.mse.samples import Blocks, Samples
from mse_lab.results.checks import ONE_PASS, Check, check_drawn_law, check_scores
from mse_lab.results.diagnostics import diagnostics_of
from mse_lab.results.measurement import SampledPrompt
from mse_lab.results.warnings import warn_of_completions, warn_of_copies
from mse_lab.run.context import load
from mse_lab.run.looks import MOST_SCORED, Look, first_completions, keyed_order, looks
from mse_lab.run.loop import Batch, Store, fill, measuring, read_measurements, size
from mse_lab.run.progress import Progress
from mse_lab.run.sample import kept_bytes, sample_batch
from mse_lab.run.subject import Subject

# The most completions that are drawn where nobody says how many.
DEFAULT_BUDGET = 8192

# Completions of a block, whose products with one another are all needed.
LARGEST_BLOCK = sum(MOST_SCORED)


def refuse_few(prompts: int, budget: int | None) -> None:
    """Refuse too few prompts, or a budget below the first look."""
    if prompts < LEAST_PROMPTS:
        raise InputError(
            f"{prompts} prompts: advice needs three or more of different texts; raise "
            "prompts.limit"
        )
    first = looks(prompts)[0]
    if budget is not None and budget < first.drawn:
        raise InputError(
            f"budget = {budget}: the first look takes {first.drawn} completions, "
            f"{first.completions} of each of {first.prompts} prompts; give that or more"
        )


def order_prompts(subject: Subject) -> list[int]:
    """Order prompts at random, of those of one kind the first."""
    order = keyed_order(subject.probe.seed, [each.id for each in subject.prompts])
    first = {subject.kinds[at]: at for at in reversed(order)}
    return [at for at in order if first[subject.kinds[at]] == at]


def warn_of_samples(
    subject: Subject, samples: Samples, blocks: Sequence[SampledPrompt]
) -> tuple[str, ...]:
    """Warn of completions as a run does, by all blocks of all prompts."""
    diagnostics = diagnostics_of(
        samples.rewards,
        [block.completions for block in blocks],
        subject.policy.end_texts,
        [block.sample.completions for block in blocks],
        binary=all(map(is_binary, samples.rewards)),
    )
    return (
        *warn_of_completions(diagnostics, sampled=True),
        *subject.memory.warnings,
        *warn_of_copies(subject.kinds, sampled=True),
    )


def _words(ruling: Ruling, best: Estimate) -> str:
    """Write the verdict so far, or G*, for a line."""
    if not ruling.told:
        return f"best group size {with_interval(best)}"
    rest = " with a fitted baseline" if ruling.baseline else ""
    return f"{ruling.verdict}, G = {ruling.set_to}{rest}"


class Sampled:
    """What a measurement until the answer is known has given so far.

    Only the first process, which looks, has prompts, checks and warnings.
    """

    stopped: Stopped  # Why it ended: what the decision said, `budget` or `exhausted`.

    def __init__(
        self, subject: Subject, store: Store[SampledPrompt], question: Question
    ) -> None:
        self.subject, self._store, self._question = subject, store, question
        self.order = order_prompts(subject)  # Prompts of different kinds to draw from.
        self.prompts: list[Blocks] = []  # The blocks of each prompt at the last look.
        self.checks: list[Check] = []  # The built-in checks.
        self.warnings: tuple[str, ...] = ()  # What completions were like.

    def drawn_before(self, possible: Sequence[Look]) -> int:
        """Say which look is the last all of whose completions an earlier start drew."""
        for at in reversed(range(len(possible))):
            items = chain.from_iterable(possible[at].items(self.order))
            if all(item in self._store for item in items):
                return at
        return 0

    def look(self, look: Look, line: Progress) -> bool:
        """Look; return whether to stop."""
        items = look.items(self.order)
        sampled = [read_measurements(self._store, blocks) for blocks in items]
        blocks = list(chain.from_iterable(sampled))
        dtype = self.subject.probe.model.dtype
        self.checks = [
            check_drawn_law([block.law_gap for block in blocks], dtype),
            check_scores(ONE_PASS, blocks[0].gradient_gap, dtype),
        ]
        self.prompts = [tuple(block.sample for block in each) for each in sampled]
        samples = Samples.of(self.prompts)
        self.warnings = warn_of_samples(self.subject, samples, blocks)
        differ = sum(np.ptp(rewards_N) > 0 for rewards_N in samples.rewards)
        if differ < LEAST_SIGNALS:
            line.say(look.prompts, look.drawn, f"rewards differ within {differ} so far")
            return False
        population = self.subject.probe.prompts.population_size(len(self.order))
        table = PromptTable.of_samples(samples, population)
        ruling, level = rule_by_looks(table, self._question), self._question.level
        line.say(look.prompts, look.drawn, _words(ruling, table.best_group_size(level)))
        return ruling.told


class _Deadline:
    """The time that a sampling has: a look is not begun that would end later."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._began, self._drawn = seconds, time.monotonic(), 0

    def allows(self, look: Look) -> bool:
        """Whether a look can be expected to end in time, by those before it."""
        spent = time.monotonic() - self._began
        return not self._drawn or spent * look.drawn / self._drawn <= self._seconds

    def count(self, drawn: int) -> None:
        """Refuse to go on for longer; else count what is drawn next."""
        if time.monotonic() - self._began > self._seconds:
            raise InputError(
                f"{self._drawn} completions took the {self._seconds:g} s that there are; "
                "make the reward or completions shorter, or allow more (a trainer's "
                "ddp_timeout)"
            )
        self._drawn += drawn


def sample_until(
    subject: Subject,
    store: Store[SampledPrompt],
    question: Question,
    budget: int | None,
    *,
    seconds: float = math.inf,
    shown: bool = True,
) -> Sampled:
    """Sample look by look until one says stop, or no further look is left.

    All processes call this and sample; the first one looks. It begins where an earlier
    start has ended: the answer rests on all completions at hand. The time is limited for
    one process alone.
    """
    deadline, done, stop = _Deadline(seconds), Look(0, 0), False
    processes, found = subject.processes, Sampled(subject, store, question)
    order, like_these = found.order, subject.probe.prompts.population != "these"
    needed = completions_needed(question.estimator, question.present)
    most = budget or DEFAULT_BUDGET
    first = first_completions(len(order), most, needed)
    possible = looks(len(order), most, first=first, spent=not like_these)

    def measure(batch: Batch) -> list[SampledPrompt]:
        deadline.count(size([batch]))
        return sample_batch(subject, batch, checked=order[0])

    hidden, most = not (shown and processes.first), possible[-1].drawn
    with Progress(subject.name, "completions", hidden=hidden, most=most) as line:
        line.write(subject.first_prompt)
        blocks = chain.from_iterable(possible[-1].items(order))
        kept = kept_bytes(subject.policy.size, (end - start for _, start, end in blocks))
        kept_most = ByteSize(kept).human_readable(decimal=True, separator=" ")
        ends = f"drawing ends with the verdict, or at {most:,} completions"
        line.write(lambda: [f"{ends}, {kept_most} of scores at most"])
        lengths = list(map(len, subject.tokens))
        drawn = processes.agree(partial(found.drawn_before, possible), int)
        for look in takewhile(deadline.allows, possible[drawn:]):
            fill(store, look.batches(order, lengths), measure, processes, line)
            done, stop = look, processes.agree(partial(found.look, look, line))
            if stop:
                break
    # Without a stop the looks end where the next one would exceed the budget.
    whole = like_these and done == looks(len(order), first=first)[-1]
    found.stopped = "regret" if stop else "exhausted" if whole else "budget"
    if needed > first:
        drawn = needed * min(len(order), FIRST_PROMPTS)
        found.warnings += (
            f"your loss in groups of {question.present} takes {needed} completions of each "
            f"prompt to be known, {drawn:,} at the first look; give a budget of as many",
        )
    return found


def sample_probe(
    subject: Subject,
    question: Question,
    *,
    budget: int | None = None,
    fresh: bool = False,
    seconds: float = math.inf,
    shown: bool = True,
) -> Sampled:
    """Measure a subject until its answer is known, or go on where an earlier start stopped.

    Where no policy is attached the probe's is loaded. Samples are written to the folder of
    the results, if there is one; those of an earlier start are removed first if `fresh`. A
    `budget` is the most completions that are drawn in all.
    """
    if subject.probe.completions is not None:
        raise InputError(
            "completions: an advice draws its own; measure these with "
            f"{COMMAND_PREFIX} run, or leave them out with --set completions=null"
        )
    refuse_few(len(order_prompts(subject)), budget)
    if not hasattr(subject, "policy"):
        subject = load(subject, LARGEST_BLOCK)
    if subject.results is None:
        return sample_until(subject, {}, question, budget, seconds=seconds, shown=shown)
    with measuring(subject, SampledPrompt, fresh=fresh) as store:
        return sample_until(subject, store, question, budget, shown=shown)
