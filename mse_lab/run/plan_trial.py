"""The trial: a few prompts measured as a run does, with fewer completions, and watched.

The first passes are small; operations are counted in them, and what is set up once is set
up. Then the pools grow until a stage has the size that it has in the run, or takes long
enough. Further prompts are measured at that size as long as the trial stays short.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mse_lab.probe.prompts import Prompt
from mse_lab.run.one_prompt import Bench
from mse_lab.run.operations import Counter
from mse_lab.run.plan_passes import Pass, Sizes, alike, measure_pass
from mse_lab.run.plan_watch import DRAWING, MODEL_STAGES, PASSES, PRODUCTS, REFERENCE

# Seconds that a stage of one pass may be expected to take.
STAGE_SECONDS = 8.0

# Further prompts are measured while the trial is shorter than the least of these, or than
# the share of the run's expected time, up to the most.
LEAST_SECONDS, SHARE, MOST_SECONDS = 3.0, 0.1, 20.0

# Prompts of a trial.
MOST_PROMPTS = 8

# Sizes of the first counted passes: completions of the reference, of the block, and tokens.
COUNTED = ((4, 2, 2), (12, 4, None))

# Counted passes at most, where so many completions are equal that more are needed.
MOST_COUNTED = 5

# How much larger the next pass may be.
GROWTH = 8


@dataclass(frozen=True)
class Trial:
    """The passes of a trial.

    Attributes:
        counted: Those in which operations were counted.
        timed: Those that were timed, the last of each prompt at the largest sizes.
        whole: Whether they reached the run's own sizes.
        seconds: What the trial took.
    """

    counted: list[Pass]
    timed: list[Pass]
    whole: bool
    seconds: float

    @property
    def sizes(self) -> Sizes:
        """The largest sizes."""
        return self.timed[-1].sizes

    @property
    def largest(self) -> list[Pass]:
        """One pass of each prompt, at the largest sizes."""
        return [one for one in self.timed if one.sizes == self.sizes]


def _grown(size: int, limit: int, seconds: float) -> int:
    """Choose the next size of a stage that took so long at this one."""
    affordable = STAGE_SECONDS / max(seconds, 1e-6)
    if limit <= size * min(1.5 * GROWTH, affordable):
        return limit
    wanted = int(size * min(GROWTH, affordable))
    return wanted if wanted >= 2 * size else size


def _next_sizes(bench: Bench, last: Pass) -> Sizes:
    """Choose the sizes of the next pass."""
    most, group = _limits(bench, last)
    drawing = last.seconds[DRAWING] + last.seconds[REFERENCE]
    scoring = last.seconds[PASSES] + last.seconds.get(PRODUCTS, 0.0)
    reference = _grown(last.sizes.reference, most, drawing)
    return replace(
        last.sizes,
        reference=reference - reference % 2,
        block=_grown(last.sizes.block, group, scoring),
    )


def _positions(bench: Bench, first: Pass) -> int:
    """At how many tokens to cut, so that drawing ends in time."""
    most = bench.probe.sampling.max_new_tokens
    if bench.supplied is not None:
        return most
    a_step = first.seconds[DRAWING] / first.work[DRAWING].steps
    return max(first.sizes.positions, min(most, int(2 * STAGE_SECONDS / a_step)))


def _count(bench: Bench, prompt: Prompt, tokens: list[int]) -> list[Pass]:
    """Carry out the counted passes."""
    most, pool = bench.probe.sampling.max_new_tokens, bench.probe.pool
    passes: list[Pass] = []
    for reference, block, positions in COUNTED:
        cut = min(most, positions or most)
        if bench.supplied is not None:
            cut = most
        elif passes:
            cut = _positions(bench, passes[0])
        group = max(2, min(block, bench.probe.largest_group))
        sizes = Sizes(min(reference, pool.reference), group, cut)
        passes.append(measure_pass(bench, prompt, tokens, sizes, Counter()))
    while len(passes) < MOST_COUNTED and _too_few(passes, most):
        larger = _next_sizes(bench, passes[-1])
        if larger == passes[-1].sizes:
            break
        passes.append(measure_pass(bench, prompt, tokens, larger, Counter()))
    return passes


def _too_few(passes: Sequence[Pass], longest: int) -> bool:
    """Whether so many completions are equal that the passes' operations tell nothing."""
    repeats = passes[-1].sample(longest).repeats
    return repeats and any(alike(passes, stage) for stage in MODEL_STAGES)


def _grow(bench: Bench, prompt: Prompt, tokens: list[int], last: Pass) -> Iterator[Pass]:
    """Carry out timed passes of one prompt, each larger than the one before."""
    sizes = None
    while (larger := _next_sizes(bench, last)) != sizes:
        sizes = larger
        last = measure_pass(bench, prompt, tokens, sizes)
        yield last


def _limits(bench: Bench, last: Pass) -> tuple[int, int]:
    """Completions of a reference, and of a block, with which a pass is a run's own.

    Where completions repeat, half the reference pool tells how many of a half are distinct.
    """
    memory, pool = bench.memory, bench.probe.pool
    at_once = max(memory.drawing.current, 2 * memory.reference.current)
    if last.sample(bench.probe.sampling.max_new_tokens).repeats:
        at_once = max(at_once, pool.reference // 2)
    group = min(bench.probe.largest_group, memory.scoring.current.block)
    return min(pool.reference, max(at_once, COUNTED[-1][0])), max(group, 2)


def _smaller(sizes: Sizes) -> Sizes:
    """Give a third of the sizes: two sizes tell what a pass costs, and what its tokens."""
    third = max(sizes.reference // 3, 4)
    return replace(sizes, reference=third - third % 2, block=max(sizes.block // 3, 2))


def run_trial(
    bench: Bench, prompts: Sequence[Prompt], tokens: Sequence[list[int]], order: list[int]
) -> Trial:
    """Measure a few prompts with fewer completions than the run.

    Args:
        bench: That of the run.
        prompts: The prompts.
        tokens: Their token ids.
        order: Numbers of prompts, in the order of the trial: the first is measured at
            growing sizes, the others at the largest of these.

    Raises:
        InputError: As in the run.
    """
    began = time.perf_counter()
    first, *others = order
    counted = _count(bench, prompts[first], tokens[first])
    timed = list(_grow(bench, prompts[first], tokens[first], counted[-1]))
    last, pool = timed[-1], bench.probe.pool
    most, group = _limits(bench, last)
    whole = last.sizes.reference >= most - 1 and last.sizes.block >= group
    if len(timed) == 1 and not whole:
        sizes = _smaller(last.sizes)
        timed.insert(0, measure_pass(bench, prompts[first], tokens[first], sizes))
    completions = (pool.reference + pool.replicate) / (
        last.sizes.reference + last.sizes.block
    )
    limit = SHARE * len(prompts) * completions * last.total
    limit = min(MOST_SECONDS, max(LEAST_SECONDS, limit))
    for index in others[: MOST_PROMPTS - 1]:
        if time.perf_counter() - began + last.total > limit:
            break
        timed.append(measure_pass(bench, prompts[index], tokens[index], last.sizes))
    return Trial(counted, timed, whole, time.perf_counter() - began)
