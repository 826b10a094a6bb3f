"""Memory: passes keep to what is planned for them, and a retreat loses nothing."""

from functools import cache

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from enumerated import as_completions
from live_memory import LiveMemory
from models import random_policy
from mse_lab.errors import InputError
from mse_lab.measurement import memory
from mse_lab.measurement.footprint import measure_footprint
from mse_lab.measurement.memory import (
    Fallbacks,
    Memory,
    attempt,
    budget_bytes,
    halves,
    scoring_bytes,
)
from mse_lab.probe.schema import Model
from mse_lab.scores import factors, plain_backward
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import Scoring, score_block
from mse_lab.scores.scoring_plan import NoRule
from plain_scores import random_reference

PROMPT = list(range(3, 43))
NEW = 12
SIZES = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
         "max_position_embeddings": 128}  # fmt: skip

WAYS = {
    "whole": Scoring(16),
    "sliced head": Scoring(16, sliced=True),
    "layers": Scoring(16, layer=16, sliced=True),
    "parts of layers": Scoring(16, layer=2, sliced=True),
    "norms": Scoring(2, sliced=True),
}


ALONE = {
    "alone": Scoring(16, alone=True),
    "alone, in parts": Scoring(16, layer=1, sliced=True, alone=True),
    "alone, sketched": Scoring(16, layer=1, sliced=True, alone=True, sketched=True),
}


@pytest.fixture(scope="module")
def policy():
    return random_policy(vocabulary=600, dtype=torch.float32, **SIZES)


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch):
    """Slices as small beside these activations as they are beside a real model's."""
    monkeypatch.setattr(factors, "SLICE_BYTES", 2**15)
    monkeypatch.setattr(memory, "WORKSPACE", 8 * 2**15)


def block_of(count):
    return as_completions(np.random.default_rng(0).integers(3, 600, (count, NEW)).tolist())


@cache
def peak_of_scoring(policy, how, count=16):
    block, reference = block_of(count), random_reference(policy)
    with LiveMemory() as live:
        score_block(policy, PROMPT, block, reference, how=how)
    return live.peak


@pytest.mark.parametrize("way", [*WAYS, *ALONE])
def test_scoring_keeps_to_its_estimate(policy, way, monkeypatch):
    """Below the estimate, and not so far below that memory is left idle."""
    # As small beside a gradient as they are beside a real model's.
    monkeypatch.setattr(memory, "SCORE_BUCKETS", 2**12 - 1)
    monkeypatch.setattr(plain_backward, "SCORE_BUCKETS", 2**12 - 1)
    footprint, how = measure_footprint(policy, PROMPT, NEW), (WAYS | ALONE)[way]
    estimate, peak = scoring_bytes(footprint, how), peak_of_scoring(policy, how)
    assert 0.3 * estimate < peak < estimate


def test_ways_of_scoring_shrink(policy):
    peaks = [peak_of_scoring(policy, way) for way in WAYS.values()]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0] / 5


def test_peak_does_not_grow_with_the_number_of_completions(policy):
    few, many = (peak_of_scoring(policy, Scoring(4), count) for count in (8, 32))
    assert many < 1.02 * few


def test_an_estimate_of_one_completion_would_be_seen(policy):
    """Negative control: the bound is one that a larger block breaks."""
    footprint = measure_footprint(policy, PROMPT, NEW)
    assert peak_of_scoring(policy, Scoring(16)) > scoring_bytes(footprint, Scoring(4))


@pytest.mark.parametrize(
    ("text", "size"),
    [("12GB", 12 * 10**9), (" 1.5 gib", 3 * 2**29), (1000, 1000), ("64", 64)],
)
def test_sizes_are_read(text, size):
    assert budget_bytes(text, []) == size


@pytest.mark.parametrize("text", ["much", "12 G", "-1GB", "", "1.2.3", "9" * 400, "٣GB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValidationError):
        Model(path="tiny", memory=text)


def planned(policy, budget):
    return Memory(budget, measure_footprint(policy, PROMPT, NEW), 16, 64)


def test_a_smaller_budget_takes_a_smaller_way(policy):
    footprint = measure_footprint(policy, PROMPT, NEW)
    fixed = footprint.weights + 3 * footprint.gradient
    found = []
    for factor in (64, 8, 3, 1):
        plan = planned(policy, fixed + factor * footprint.kept)
        found.append((plan.drawing.current, plan.scoring.index))
        assert plan.drawing.current * footprint.drawing <= plan.budget - footprint.weights
    assert [place for _, place in found] == sorted({place for _, place in found})
    assert not planned(policy, fixed).fits
    assert planned(policy, 2 * fixed + 64 * footprint.reference).fits


def out_of_memory(times):
    """An action that runs out of memory so many times."""
    seen = []

    def action(size):
        seen.append(size)
        if len(seen) <= times:
            raise [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(),
                   RuntimeError("DefaultCPUAllocator: can't allocate memory")][
                (len(seen) - 1) % 3
            ]  # fmt: skip
        return size

    return action, seen


def test_out_of_memory_halves_and_goes_on():
    stage = Fallbacks(halves(16), lambda size: size, room=10)
    action, seen = out_of_memory(2)
    assert attempt(stage, action) == 2
    assert seen == [8, 4, 2]
    # What did not fit once is not tried again.
    assert attempt(stage, lambda size: size) == 2
    assert stage.planned == 8


def test_out_of_memory_with_one_is_the_users_to_mend():
    stage = Fallbacks(halves(2), lambda size: size, room=10)
    action, _ = out_of_memory(9)
    with pytest.raises(InputError, match="one completion at a time; leave out"):
        attempt(stage, action)


def test_without_a_rule_it_goes_on_in_a_way_that_needs_none(policy):
    """A module may turn out so in the middle of a run; then memory may run out, too."""
    plan = planned(policy, 2**40)
    assert plan.warnings == []
    assert not plan.scoring.current.alone

    def action(how):
        if not how.alone:
            raise NoRule("m (M) has no rule: as it seems")
        if not how.sketched:
            raise MemoryError
        return how

    assert attempt(plan.scoring, action) == Scoring(16, alone=True, sketched=True)
    assert plan.retreated
    assert plan.between.startswith("count-sketch of 1048575 buckets")
    assert plan.warnings[0].startswith("m (M) has no rule: as it seems; so each completion")
    with pytest.raises(NoRule):
        attempt(plan.drawing, lambda size: action(Scoring(size)))


def test_other_errors_are_not_caught():
    def fail(_):
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        attempt(Fallbacks([1], lambda size: size, 1), fail)


def test_low_precision_weights_give_float32_gradients():
    policy = random_policy(dtype=torch.bfloat16)
    few = as_completions([[3, 4, 1]] * 4)
    gradient, _ = weighted_gradient(policy, [3, 4, 5], few, np.ones(4), max_batch=2)
    assert {part.dtype for part in gradient.values()} == {torch.float32}
