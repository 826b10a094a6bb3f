"""Memory: how many completions each pass takes at once, within a budget.

The numbers follow from the configuration, the budget and the footprint of one completion,
never from what happens to be free, so that a run can be repeated. The footprint, the bytes
that a completion takes in each pass, is measured on one trial completion of the longest
prompt, by what autograd keeps for the backward pass: it depends on shapes, kernels and
precision alone, and no architecture needs a formula. If a pass runs out of memory all the
same, it is repeated in the next smaller way, and the result says so.
"""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from pydantic import ByteSize, TypeAdapter
from torch import Tensor, nn

from mse_lab.config.schema import Probe
from mse_lab.data.location import loading
from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_log_probs,
    sequence_sums,
)
from mse_lab.policy.policy import Policy
from mse_lab.scores.factors import SLICE_BYTES
from mse_lab.scores.module_hooks import NoRule, is_out_of_memory
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.score_block import Scoring
from mse_lab.scores.scoring_plan import missing_rule
from mse_lab.scores.sketches import SCORE_BUCKETS, describe_products, vectors_fit

T = TypeVar("T")
Size = TypeVar("Size")

# The default budget, as a share of a device's memory. The host's memory also serves other
# programs and the run's arrays.
SHARE = {"cuda": 0.85, "cpu": 0.5}

# Bytes of the slices of gradients and logits, several of which exist at a time.
WORKSPACE = 8 * SLICE_BYTES

# Copies of a completion's logits that exist at once: as computed, divided by the
# temperature, their logarithms, and gradients. While drawing, two of them are in float64.
COPIES_OF_LOGITS = 5


@dataclass(frozen=True)
class Footprint:
    """Bytes, for one completion of the longest prompt unless said otherwise."""

    weights: int  # The model's weights, whole.
    gradient: int  # One reference vector in the parameters that count, whole.
    kept: int  # What a scoring pass keeps for its backward pass, up to the output head.
    head: int  # Logits over a completion's tokens, their copies and gradients.
    layer: int  # The same, of a decoder layer on average.
    reference: int  # What a reference pass keeps; all completions share the prompt's part.
    drawing: int  # Keys and values, and the logits of one step, while drawing.
    largest: int  # The gradient of the largest parameter.
    sliceable: bool  # Whether the head can be run in slices of the vocabulary.


class _Meter:
    """Counts the bytes of distinct tensors that autograd keeps, without parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.total = 0
        self._seen = {_storage(parameter) for parameter in model.parameters()}
        self._alive: list[Tensor] = []

    def keep(self, tensor: Tensor) -> Tensor:
        if _storage(tensor) not in self._seen:
            self._seen.add(_storage(tensor))
            # While it exists no other tensor can have its address.
            self._alive.append(tensor)
            self.total += tensor.untyped_storage().nbytes()
        return tensor

    @contextmanager
    def measuring(self) -> Iterator[None]:
        hooks = torch.autograd.graph.saved_tensors_hooks
        with hooks(self.keep, lambda tensor: tensor), torch.enable_grad():
            yield


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _measure_scoring(
    policy: Policy, prompt: list[int], some: Completions
) -> tuple[int, bool]:
    """Score completions; say what is kept, and whether the head can be run in slices."""
    meter, model = _Meter(policy.model), policy.model
    head = model.get_output_embeddings()
    first: list[Tensor] = []  # Of the first token: what the head is given, its logits.

    def note(tensor: Tensor) -> None:
        first.append(tensor[:, :1].detach().clone())

    with ExitStack() as hooks:
        hooks.enter_context(head.register_forward_pre_hook(lambda _, states: note(*states)))
        hooks.enter_context(model.register_forward_hook(lambda *call: note(call[2].logits)))
        with meter.measuring(), policy.differentiable():
            sequence_sums(policy, prompt, some)
    return meter.total, type(head) is nn.Linear and _can_slice(policy, first[0], first[-1])


@torch.no_grad()
def _can_slice(policy: Policy, hidden: Tensor, logits: Tensor) -> bool:
    """Whether a slice of logits from hidden states is that of the logits.

    The second half shows also what is done to the first entries or the last ones.
    """
    head, whole = SlicedHead(policy), policy.scaled(logits)
    half = slice(whole.shape[-1] // 2, whole.shape[-1])
    try:
        again = head.logits(hidden.to(head.module.weight.device), half)[1].to(whole.device)
    except (AttributeError, RuntimeError, TypeError):
        return False  # a model that cannot be run from its last hidden states
    expected = whole[..., half]
    return again.shape == expected.shape and torch.allclose(again, expected, atol=1e-2)


def measure_footprint(policy: Policy, prompt: list[int], new_tokens: int) -> Footprint:
    """Measure one trial completion of the longest prompt, with `new_tokens` tokens."""
    trial = Completions(
        np.zeros((1, new_tokens), np.int64),
        np.array([new_tokens]),
        np.zeros(1),
        np.zeros(1, np.bool_),
    )
    vocabulary = policy.model.get_output_embeddings().weight.shape[0]
    logits = COPIES_OF_LOGITS * 4 * vocabulary
    settings = policy.model.config.get_text_config()
    kept, sliceable = _measure_scoring(policy, prompt, trial)
    meter = _Meter(policy.model)
    with loading(policy.location, "the model"), policy.differentiable():
        with torch.no_grad():
            prefix = SharedPrefix(policy, prompt)
        with meter.measuring():
            completion_log_probs(policy, prefix, trial)
    if prefix.cache is None:
        # Every step reads the whole text, and takes no more than a pass that is kept.
        read = meter.total
    else:
        shared = sum(tensor.nbytes for tensor in prefix.tensors())
        read = int(shared / max(1, len(prompt) - 1) * (len(prompt) + new_tokens))
    return Footprint(
        weights=sum(parameter.nbytes for parameter in policy.model.parameters()),
        gradient=4 * policy.size,
        kept=kept,
        layer=kept // getattr(settings, "num_hidden_layers", 1),
        head=new_tokens * logits,
        reference=meter.total + new_tokens * logits,
        drawing=read + 2 * logits,
        largest=4 * max(each.numel() for each in policy.parameters.values()),
        sliceable=sliceable,
    )


def device_bytes(device: torch.device) -> int:
    """Give the memory of a device; of the host that of a container, if it is in one."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return min(physical, int(text)) if text.isdigit() else physical


def budget_bytes(wanted: str | int | None, devices: Sequence[torch.device]) -> int:
    """Resolve the probe's budget; by default a share of the devices' memory.

    >>> budget_bytes("1.5 GiB", [])
    1610612736
    """
    if wanted is not None:
        return int(TypeAdapter(ByteSize).validate_python(wanted))
    return sum(int(SHARE[device.type] * device_bytes(device)) for device in devices)


def halves(size: int) -> list[int]:
    """List a size, its half, and so on down to one.

    >>> halves(12)
    [12, 6, 3, 1]
    """
    return [size >> shift for shift in range(size.bit_length())]


def scoring_bytes(footprint: Footprint, group: int, how: Scoring) -> int:
    """Estimate what scoring a block of `group` takes, apart from weights and reference."""
    head = 0 if how.sliced else footprint.head
    if not how.alone:
        return group * (footprint.kept + footprint.layer + head) + WORKSPACE
    exact = vectors_fit(group, footprint.gradient // 4)
    vector = footprint.gradient if exact else 4 * SCORE_BUCKETS
    # The check has two completions in one pass.
    passes = 2 * (footprint.kept + head + footprint.largest)
    return passes + group * vector + WORKSPACE


class Fallbacks(Generic[Size]):
    """Ways to do a stage, each of which takes less memory than the one before."""

    def __init__(
        self, ways: Sequence[Size], takes: Callable[[Size], int], room: int
    ) -> None:
        """Begin with the first way that takes no more than the room, or else the last."""
        fitting = [at for at, way in enumerate(ways) if takes(way) <= room]
        self.ways, self.fits = ways, bool(fitting)
        self.index = fitting[0] if fitting else len(ways) - 1
        self.retreated = False  # Whether it has run out of memory.

    @property
    def current(self) -> Size:
        """The way in use."""
        return self.ways[self.index]


class Memory:
    """How many completions a run draws and differentiates in one pass."""

    def __init__(
        self,
        budget: int,
        footprint: Footprint,
        group: int,
        batch: int,
        missing: str | None = None,
    ) -> None:
        """Plan for blocks of `group`, and up to `batch` completions in other passes."""
        left = budget - footprint.weights
        self.budget, self.footprint = budget, footprint
        self.drawing = Fallbacks(halves(batch), lambda size: size * footprint.drawing, left)
        self.reference = Fallbacks(
            halves(batch),
            lambda size: size * footprint.reference,
            left - 3 * footprint.gradient,
        )
        self.missing = missing  # What has no rule, once it is known.
        takes, room = partial(scoring_bytes, footprint, group), left - footprint.gradient
        self._exact = vectors_fit(group, footprint.gradient // 4)
        self._alone = Fallbacks([Scoring(alone=True)], takes, room)
        in_slices = [Scoring(sliced=True)] if footprint.sliceable else []
        by_rules = [Scoring(), *in_slices, *self._alone.ways]
        self.scoring = self._alone if missing else Fallbacks(by_rules, takes, room)

    @property
    def _stages(self) -> list[Fallbacks[Any]]:
        return [self.drawing, self.reference, self.scoring]

    def score(self, action: Callable[[Scoring], T]) -> T:
        """Do the stage of scoring; where a module has no rule after all, without rules."""
        try:
            return attempt(self.scoring, action)
        except NoRule as no:
            if self.scoring.current.alone:
                raise
            self.missing, self.scoring = str(no), self._alone
            return attempt(self.scoring, action)

    @property
    def fits(self) -> bool:
        """Whether at least the smallest passes should stay within the budget."""
        return all(stage.fits for stage in self._stages)

    @property
    def retreated(self) -> bool:
        """Whether a pass has run out of memory."""
        return any(stage.retreated for stage in self._stages)

    @property
    def between(self) -> str:
        """How products between completions of a block are computed, and how exact."""
        exact = self._exact or not self.scoring.current.alone
        return describe_products(exact, SCORE_BUCKETS)

    @property
    def warnings(self) -> list[str]:
        """Say why each completion has a pass of its own, and what that costs."""
        if not self.scoring.current.alone:
            return []
        why = self.missing or "a block does not fit in model.memory"
        return [
            f"{why}; so each completion is differentiated by itself, in a pass of its own; "
            f"products between completions: {self.between}"
        ]

    def describe(self) -> dict[str, Any]:
        """Describe the budget and the passes, for `environment.json`."""
        how = self.scoring.current
        return {
            "budget_bytes": self.budget,
            "drawn_at_once": self.drawing.current,
            "reference_at_once": self.reference.current,
            "scoring": how._asdict(),
            "between_completions": self.between,
            "retreated": self.retreated,
        }


def plan_memory(
    probe: Probe, policy: Policy, tokens: Sequence[list[int]], group: int
) -> Memory:
    """Plan the passes of a run by a trial completion of its longest prompt.

    A block, all products in which are needed, has `group` completions.
    """
    missing = missing_rule(policy)  # The model's first pass, of a few tokens.
    longest, wanted = max(tokens, key=len), probe.model.memory
    footprint = measure_footprint(policy, longest, probe.sampling.max_new_tokens)
    budget = budget_bytes(wanted, policy.devices)
    most = probe.model.batch or max(probe.pool.reference, probe.pool.replicate)
    memory = Memory(budget, footprint, group, most, missing)
    if wanted is not None and not memory.fits:
        least, more = (
            ByteSize(count).human_readable(decimal=True, separator=" ")
            for count in (footprint.weights + 3 * footprint.gradient, footprint.kept)
        )
        raise InputError(
            f"model.memory = {wanted}: too little; the weights and three vectors of their "
            f"gradients take {least}, one completion {more}; raise it"
        )
    return memory


def attempt(stage: Fallbacks[Size], action: Callable[[Size], T]) -> T:
    """Do a stage in the way in use; whenever memory runs out, in the next smaller way."""
    while True:
        try:
            return action(stage.current)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Only after the `except` are the tensors free that the error's frames hold.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if stage.index + 1 == len(stage.ways):
            raise InputError(
                "out of memory with one completion at a time; leave out parameters, lower "
                "sampling.max_new_tokens, or use another model.dtype or device"
            )
        stage.index, stage.retreated = stage.index + 1, True
