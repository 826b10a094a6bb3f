"""One pass of a trial: a prompt measured as a run does, with fewer completions, watched."""

import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.config import Probe
from mse_lab.measure import Bench, measure_prompt
from mse_lab.operations import Counter, reduction_operations
from mse_lab.plan.watch import (
    DRAWING,
    KEPT,
    PASSES,
    REFERENCE,
    REST,
    Reduction,
    watching,
)
from mse_lab.plan.work import (
    Lengths,
    Work,
    drawing_work,
    reference_work,
    scoring_work,
)
from mse_lab.prompts import Prompt
from mse_lab.supplied import Supplied


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
        lengths_N: Tokens of the completions drawn for it.
        ended_N: Whether an end token ended them.
        reductions: Shapes of the block's scores, where operations were counted.
        longest: Tokens of the longest completion of the block.
        arrays: What a run keeps of the prompt.
        written: Bytes of it on disk.
    """

    sizes: Sizes
    prompt: int
    seconds: dict[str, float]
    operations: dict[str, int]
    work: dict[str, Work]
    lengths_N: Lengths
    ended_N: NDArray[np.bool_]
    reductions: list[Reduction]
    longest: int
    arrays: dict[str, NDArray[Any]]
    written: int

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


def _supplied(bench: Bench, prompt: Prompt, sizes: Sizes) -> Supplied | None:
    """Leave out of supplied completions what the pass does not take."""
    if bench.supplied is None:
        return None
    pools = bench.supplied.places[prompt.id]
    counts = {"reference": sizes.reference, "replicate": sizes.block}
    places = {prompt.id: {pool: pools[pool][:count] for pool, count in counts.items()}}
    return replace(bench.supplied, places=places)


def _written(arrays: dict[str, NDArray[Any]]) -> int:
    """Compress a prompt's arrays as a run writes them; give the bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return len(buffer.getvalue())


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
    memory, how = bench.memory, bench.memory.scoring.current
    prompt_tokens, at_once = len(tokens), memory.reference.current
    drawing = [
        drawing_work(one.lengths_N, prompt_tokens, memory.drawing.current)
        for one in watch.drawn
    ]
    return Pass(
        sizes=sizes,
        prompt=len(tokens),
        seconds=dict(watch.seconds),
        operations=dict(watch.operations) if counter else {},
        work={
            DRAWING: drawing[0] + drawing[1],
            REFERENCE: reference_work(reference.lengths_N, prompt_tokens, at_once),
            PASSES: scoring_work(block.lengths_N, prompt_tokens, how, sizes.block),
        },
        lengths_N=np.concatenate([reference.lengths_N, block.lengths_N]),
        ended_N=np.concatenate([reference.ended_N, block.ended_N]),
        reductions=list(watch.reductions),
        longest=int(block.lengths_N.max()),
        arrays=arrays,
        written=written,
    )


def reduced_operations(one: Pass, completions: int, prompt: float, longest: float) -> float:
    """Count the operations of reducing a block of any size, by the shapes of a pass.

    Args:
        one: The pass, counted.
        completions: Completions of the block.
        prompt: Tokens of the prompt.
        longest: Tokens of its longest completion.
    """
    sequence = one.prompt + one.longest - 1
    more = round(prompt - one.prompt), round(longest - one.longest)
    total = 0.0
    for shapes, counted in one.reductions:
        if shapes is None:
            # Experts: how many tokens each has is not known; the square is the most.
            total += counted * (completions / one.sizes.block) ** 2
        else:
            sizes = tuple(shape.lengthened(sequence, *more) for shape in shapes)
            total += reduction_operations(sizes, completions)
    return total
