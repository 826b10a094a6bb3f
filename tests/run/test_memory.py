"""Memory: passes keep to what is planned for them, and a retreat loses nothing."""

from functools import cache

import numpy as np
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from enumerated import as_completions
from models import random_policy
from mse_lab.errors import InputError
from mse_lab.run import memory
from mse_lab.run.memory import (
    Fallbacks,
    Memory,
    attempt,
    budget_bytes,
    halves,
    measure_footprint,
    scoring_bytes,
)
from mse_lab.scores import factors, plain_backward, sketches
from mse_lab.scores.module_hooks import NoRule
from mse_lab.scores.score_block import Scoring, score_block
from plain_scores import random_reference

PROMPT, NEW = list(range(3, 43)), 12
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "max_position_embeddings": 128,
}
# From the largest to the smallest, and the bytes up to which scores are kept whole.
WAYS = {
    "whole": (Scoring(), 0),
    "sliced head": (Scoring(sliced=True), 0),
    "alone": (Scoring(alone=True), 2**28),
    "alone, sketched": (Scoring(alone=True), 0),
}


class LiveMemory(TorchDispatchMode):
    """The most bytes that tensors made inside the block hold at once, exactly.

    What a kernel uses for itself while it runs is not seen.
    """

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._live = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        made = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        # A view or an operation in place makes nothing.
        given = {
            leaf.untyped_storage().data_ptr()
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        }
        self._live = {ref: size for ref, size in self._live.items() if not ref.expired()}
        for tensor in made:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in given:
                self._live[StorageWeakRef(storage)] = storage.nbytes()
        self.peak = max(self.peak, sum(self._live.values()))
        return output


@pytest.fixture(scope="module")
def policy():
    return random_policy(vocabulary=600, dtype=torch.float32, **SIZES)


@pytest.fixture(scope="module")
def footprint(policy):
    return measure_footprint(policy, PROMPT, NEW)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch):
    """Slices and sketches as small beside these tensors as beside a real model's."""
    monkeypatch.setattr(factors, "SLICE_BYTES", 2**15)
    monkeypatch.setattr(memory, "WORKSPACE", 8 * 2**15)
    for module in (memory, plain_backward):
        monkeypatch.setattr(module, "SCORE_BUCKETS", 2**12 - 1)


@cache
def peak_of_scoring(policy, how, exact_bytes, count=8):
    tokens = np.random.default_rng(0).integers(3, 600, (count, NEW)).tolist()
    block, reference = as_completions(tokens), random_reference(policy)
    with LiveMemory() as live, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketches, "EXACT_BYTES", exact_bytes)
        score_block(policy, PROMPT, block, reference, how=how)
    return live.peak


@pytest.mark.parametrize("way", WAYS)
def test_scoring_keeps_to_its_estimate(monkeypatch, policy, footprint, way):
    """Below the estimate, and not so far below that memory is left idle."""
    how, exact_bytes = WAYS[way]
    peak = peak_of_scoring(policy, how, exact_bytes)
    monkeypatch.setattr(sketches, "EXACT_BYTES", exact_bytes)
    assert 0.3 * scoring_bytes(footprint, 8, how) < peak
    assert peak < scoring_bytes(footprint, 8, how)


def test_each_way_takes_less_than_the_one_before(policy, footprint):
    """Negative control: the estimate is one that a larger block breaks."""
    peaks = [peak_of_scoring(policy, *way) for way in WAYS.values()]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0] / 2
    assert peaks[0] > scoring_bytes(footprint, 2, Scoring())


def test_a_footprint_is_the_same_every_time():
    policy = random_policy()
    found = measure_footprint(policy, [3, 4, 5], 2)
    assert found == measure_footprint(policy, [3, 4, 5], 2)
    assert found.layer == found.kept // 2  # of two


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "gemma2"])
def test_heads_are_sliced_unless_logits_are_mixed(architecture):
    """Gemma 2 caps its logits after the head: the model's own code is run on slices.

    Negative control: what is done after the head must be done to each logit alone.
    """
    policy = random_policy(architecture)
    assert measure_footprint(policy, [3, 4, 5], 2).sliceable
    whole = policy.model.forward

    def centred(*args, **options):
        output = whole(*args, **options)
        output.logits = output.logits - output.logits.amax(-1, keepdim=True) ** 2
        output.logits = output.logits * output.logits.shape[-1]
        return output

    policy.model.forward = centred
    assert not measure_footprint(policy, [3, 4, 5], 2).sliceable


@pytest.mark.parametrize(
    ("text", "size"),
    [("12GB", 12 * 10**9), (" 1.5 gib", 3 * 2**29), (1000, 1000), ("64", 64)],
)
def test_sizes_are_read(text, size):
    assert budget_bytes(text, []) == size


def test_a_smaller_budget_takes_a_smaller_way(footprint):
    fixed, found = footprint.weights + 3 * footprint.gradient, []
    for factor in (64, 20, 1):
        plan = Memory(fixed + factor * footprint.kept, footprint, 16, 64)
        found.append(plan.scoring.index)
        assert plan.drawing.current * footprint.drawing <= plan.budget - footprint.weights
    assert found == sorted(set(found))
    assert not Memory(fixed, footprint, 16, 64).fits
    assert Memory(2 * fixed + 64 * footprint.reference, footprint, 16, 64).fits


def out_of_memory(times):
    """An action that runs out of memory so many times, and the sizes it was given."""
    host = RuntimeError("DefaultCPUAllocator: can't allocate memory")
    seen, errors = [], [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(), host]

    def action(size):
        seen.append(size)
        if len(seen) <= times:
            raise errors[(len(seen) - 1) % 3]
        return size

    return action, seen


def test_out_of_memory_halves_and_goes_on():
    stage = Fallbacks(halves(16), lambda size: size, room=10)
    action, seen = out_of_memory(2)
    assert attempt(stage, action) == 2
    assert seen == [8, 4, 2]
    # What did not fit once is not tried again.
    assert attempt(stage, lambda size: size) == 2
    assert stage.retreated
    with pytest.raises(InputError, match="one completion at a time; leave out"):
        attempt(stage, out_of_memory(9)[0])


def test_other_errors_are_not_caught():
    def fail(_):
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        attempt(Fallbacks([1], lambda size: size, 1), fail)


def test_without_a_rule_it_goes_on_in_a_way_that_needs_none(monkeypatch, footprint):
    """A module may turn out so in the middle of a run."""
    monkeypatch.setattr(sketches, "EXACT_BYTES", 0)
    plan = Memory(2**40, footprint, 16, 64)
    assert plan.warnings == []
    assert not plan.scoring.current.alone

    def action(how):
        if not how.alone:
            raise NoRule("m (M) has no rule: as it seems")
        return how

    assert plan.score(action) == Scoring(alone=True)
    assert not plan.retreated
    assert plan.between.startswith("count-sketch of 4095 buckets")
    assert plan.warnings[0].startswith("m (M) has no rule: as it seems; so each completion")
    with pytest.raises(NoRule):
        plan.score(lambda _: action(Scoring()))
