"""A watch over one prompt's measurement: time and operations of each stage, by function.

A trial measures a prompt with the very code of a run. While it is watched, the functions
that carry out a stage are timed where the run calls them; a stage within another is taken
off the outer one's time. What the functions do and give is left as it is.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

from mse_lab.policy.supplied import Supplied
from mse_lab.run import one_prompt as measure
from mse_lab.run.operations import Counter, Shape, shape_of
from mse_lab.scores import recorder
from mse_lab.scores import sketches as between

DRAWING, REWARDS, REFERENCE = "drawing", "rewards", "reference"
PASSES, PRODUCTS, KEPT = "passes", "products", "kept"
RIVALS, REST = "rivals", "rest"
MODEL_STAGES = (DRAWING, REFERENCE, PASSES)

# Where a run looks up the function of a stage.
_PLACES: tuple[tuple[Any, str, str], ...] = (
    (measure, "draw", DRAWING),
    (Supplied, "read", DRAWING),
    (measure, "reward_completions", REWARDS),
    (measure, "measure_reference", REFERENCE),
    (measure, "score_block", PASSES),
    (measure, "rival_ratios", RIVALS),
    (recorder, "reduce_factors", PRODUCTS),
    (between, "flatten", KEPT),
    (between, "sketch", KEPT),
)

# Shapes of one parameter's factors; None where its cost depends on what they hold, with
# the operations that it took.
Reduction = tuple[tuple[Shape, ...] | None, int]


class Watch:
    """What was seen.

    Attributes:
        seconds: Stage -> its own time.
        operations: Stage -> its own operations; empty unless they are counted.
        drawn: The completions that were drawn or read, pool by pool.
        reductions: Of each parameter's scores in the last block, if counted.
    """

    def __init__(self, device: torch.device, counter: Counter | None) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.operations: dict[str, int] = defaultdict(int)
        self.drawn: list[Any] = []
        self.reductions: list[Reduction] = []
        self._device, self._counter = device, counter
        # Of the stages that are open: what stages inside them took.
        self._inside = [(0.0, 0)]

    def _now(self) -> tuple[float, int]:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        elif self._device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter(), self._counter.total if self._counter else 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Take the time of a stage, inside the block."""
        began, counted = self._now()
        self._inside.append((0.0, 0))
        try:
            yield
        finally:
            ended, total = self._now()
            inside, operations_inside = self._inside.pop()
            seconds, operations = ended - began, total - counted
            outer, operations_outer = self._inside.pop()
            self._inside.append((outer + seconds, operations_outer + operations))
            self.seconds[name] += seconds - inside
            self.operations[name] += operations - operations_inside

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the function of a stage."""

        @wraps(function)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            if name == PASSES:
                self.reductions.clear()
            with self.stage(name):
                before = self._counter.total if self._counter else 0
                result = function(*arguments, **keywords)
                after = self._counter.total if self._counter else 0
            if name == DRAWING:
                self.drawn.append(result)
            if name == PRODUCTS and self._counter is not None:
                shapes = [shape_of(factor) for factor in arguments[0]]
                known = [shape for shape in shapes if shape is not None]
                whole = tuple(known) if len(known) == len(shapes) else None
                self.reductions.append((whole, after - before))
            return result

        return watched


@contextmanager
def watching(device: torch.device, counter: Counter | None) -> Iterator[Watch]:
    """Watch the stages of a measurement, inside the block.

    Args:
        device: Whose work is waited for before the time is taken.
        counter: Counts the operations, if they are wanted: that takes time.
    """
    watch = Watch(device, counter)
    with ExitStack() as stack:
        for place, name, stage in _PLACES:
            before = getattr(place, name)
            stack.callback(setattr, place, name, before)
            setattr(place, name, watch.around(stage, before))
        if counter is not None:
            stack.enter_context(counter)
        yield watch
