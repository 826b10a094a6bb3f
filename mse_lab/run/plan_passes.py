"""One pass of a trial: a prompt measured as a run does, with fewer completions, watched."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.supplied import Supplied
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.schema import Probe
from mse_lab.run.one_prompt import Bench, measure_prompt
from mse_lab.run.operations import Counter, reduction_operations
from mse_lab.run.plan_repeats import Sample, lengthened
from mse_lab.run.plan_watch import (
    DRAWING,
    KEPT,
    PASSES,
    REFERENCE,
    REST,
    Reduction,
    watching,
)
from mse_lab.run.plan_work import (
    Lengths,
    Work,
    drawing_work,
    drawn_batches,
    in_parts,
    reference_work,
    scoring_work,
)

# Proportions of two kinds of tokens that do not tell apart what each costs.
ALIKE = 1.2


@dataclass(frozen=True)
class Sizes:
    """Sizes of one pass.

    Attributes:
        reference: Completions of the reference pool, an even number.
        block: Completions of the one block that is scored.
        positions: Tokens at which completions are cut.
    """

    reference: int
    block: int
    positions: int

    def apply(self, probe: Probe) -> Probe:
        """Change a probe: unlike in a file, one block will do."""
        pool = probe.pool.model_copy(
            update={"reference": self.reference, "replicate": self.block}
        )
        sampling = probe.sampling.model_copy(update={"max_new_tokens": self.positions})
        changes = {"pool": pool, "sampling": sampling, "group_sizes": [self.block]}
        return probe.model_copy(update=changes)


@dataclass(frozen=True)
class Pass:
    """One prompt, measured once.

    Attributes:
        sizes: The sizes.
        prompt: Its prompt's tokens.
        seconds: Stage -> time.
        operations: Stage -> operations; empty where they were not counted.
        work: Stage -> work, of the stages that use the model.
        drawn: The completions drawn for it, of both pools.
        parts: Tokens of the block's distinct completions, those scored together.
        reductions: Shapes of the last part's scores, where operations were counted.
        arrays: What a run keeps of the prompt.
        written: Bytes of it on disk.
    """

    sizes: Sizes
    prompt: int
    seconds: dict[str, float]
    operations: dict[str, int]
    work: dict[str, Work]
    drawn: Completions
    parts: list[Lengths]
    reductions: list[Reduction]
    arrays: dict[str, NDArray[Any]]
    written: int

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())

    def sample(self, longest: int) -> Sample:
        """Give the completions that it has met, as samples of a run's.

        Args:
            longest: Tokens at which the run cuts completions. What the pass has cut earlier
                counts as so long, and goes on unlike any other.
        """
        drawn = self.drawn
        if self.sizes.positions >= longest:
            return Sample(drawn)
        each_N = np.arange(len(drawn))
        return Sample(lengthened(drawn, longest, ~drawn.ended_N, each_N))


def _lengths(completions: Completions) -> Lengths:
    """Give the lengths of the distinct ones."""
    return completions.distinct()[0].lengths_N


def _works(
    bench: Bench,
    prompt: int,
    reference: Completions,
    block: Completions,
    parts: list[Lengths],
) -> dict[str, Work]:
    """Find the work of the stages that use the model."""
    memory, half = bench.memory, len(reference) // 2
    halves = [_lengths(one) for one in (reference[:half], reference[half:])]
    batches = [drawn_batches(one, memory.drawing.current) for one in (reference, block)]
    at_once, how = memory.reference.current, memory.scoring.current
    return {
        DRAWING: drawing_work(batches[0], prompt) + drawing_work(batches[1], prompt),
        REFERENCE: reference_work(halves, len(reference), prompt, at_once),
        PASSES: scoring_work(parts, len(block), prompt, how),
    }


def _supplied(bench: Bench, prompt: Prompt, sizes: Sizes) -> Supplied | None:
    """Leave out of supplied completions what the pass does not take."""
    if bench.supplied is None:
        return None
    pools = bench.supplied.places[prompt.id]
    counts = {"reference": sizes.reference, "replicate": sizes.block}
    places = {prompt.id: {pool: pools[pool][:count] for pool, count in counts.items()}}
    return replace(bench.supplied, places=places)


def _written(arrays: dict[str, NDArray[Any]]) -> int:
    """Pack a prompt's arrays as a run does, and unpack them as it does; give the bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    written = buffer.tell()
    buffer.seek(0)
    dict(np.load(buffer, allow_pickle=False))
    return written


def measure_pass(
    bench: Bench,
    prompt: Prompt,
    tokens: list[int],
    sizes: Sizes,
    counter: Counter | None = None,
) -> Pass:
    """Measure a prompt once at the given sizes, watched.

    Args:
        bench: That of the run.
        prompt: The prompt.
        tokens: Its token ids.
        sizes: The sizes.
        counter: Counts the operations, if they are wanted.
    """
    small = replace(
        bench, probe=sizes.apply(bench.probe), supplied=_supplied(bench, prompt, sizes)
    )
    with watching(bench.policy.device, counter) as watch:
        with watch.stage(REST):
            arrays = dict(measure_prompt(small, prompt, tokens, first=False))
        with watch.stage(KEPT):
            written = _written(arrays)
    reference, block = watch.drawn
    parts = in_parts(_lengths(block), bench.memory.scoring.current.block)
    # Every part has been reduced parameter by parameter.
    earlier = len(watch.reductions) // len(parts) * (len(parts) - 1)
    return Pass(
        sizes=sizes,
        prompt=len(tokens),
        seconds=dict(watch.seconds),
        operations=dict(watch.operations) if counter else {},
        work=_works(bench, len(tokens), reference, block, parts),
        drawn=concatenate([reference, block]),
        parts=parts,
        reductions=watch.reductions[earlier:],
        arrays=arrays,
        written=written,
    )


def alike(passes: Sequence[Pass], stage: str) -> bool:
    """Whether tokens of prompts and of completions are in much the same proportion."""
    works = [one.work[stage] for one in passes]
    proportions = [work.tokens / max(work.prompt_tokens, 1) for work in works]
    return max(proportions) < ALIKE * min(proportions)


def reduced_operations(one: Pass, completions: int, prompt: float, longest: float) -> float:
    """Count the operations of reducing scores of any size, by the shapes of a pass.

    Args:
        one: The pass, counted.
        completions: Distinct completions that are scored together.
        prompt: Tokens of the prompt.
        longest: Tokens of the longest of them.
    """
    scored, before = len(one.parts[-1]), int(one.parts[-1].max())
    sequence = one.prompt + before - 1
    more = round(prompt - one.prompt), round(longest - before)
    total = 0.0
    for shapes, counted in one.reductions:
        if shapes is None:
            # Experts: how many tokens each has is not known; the square is the most.
            total += counted * (completions / scored) ** 2
        else:
            sizes = tuple(shape.lengthened(sequence, *more) for shape in shapes)
            total += reduction_operations(sizes, completions)
    return total
