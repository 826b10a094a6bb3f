"""A prompt's sample: the same numbers whatever else is measured, and exact ones."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from changed_subjects import changed
from models import draw
from mse_lab.data.streams import uniforms
from mse_lab.data.supplied_completions import POOLS
from mse_lab.mse import one_pool
from mse_lab.mse.one_pool import gradient_weights
from mse_lab.run import sample as sampling
from mse_lab.run.advise import DEFAULT_BUDGET
from mse_lab.run.looks import looks
from mse_lab.run.sample import POOL, kept_bytes, sample_batch
from plain_scores import plain_scores


@pytest.fixture
def subject(subject_of):
    return subject_of(scored=16)


def sample_prompt(subject, index, block, *, checked=False):
    """A batch of one prompt alone."""
    batch = ((index, block.start, block.stop),)
    return sample_batch(subject, batch, checked=index if checked else -1)[0]


def test_a_sample_is_what_autograd_says(subject, monkeypatch):
    """Gram matrix, logits norms, and the gradient of the chosen ones with their weights."""
    monkeypatch.setattr(sampling, "MOST_SCORED", (2, 3))
    found = sample_prompt(subject, 1, range(12), checked=True)
    one, seed = found.sample, subject.probe.seed
    drawn = draw(
        subject.policy, subject.tokens[1], uniforms(seed, "b", POOL, range(12), 5), "b"
    )
    np.testing.assert_array_equal(one.lengths_N, drawn.lengths_N)
    assert 0 < one.rewards_N.mean() < 1
    assert one.rewards_N[one.scored_K].tolist().count(1) <= 2
    truth = plain_scores(subject.policy, drawn[one.scored_K], subject.tokens[1])
    scores, _, logit_norms2_K = truth
    np.testing.assert_allclose(one.logit_norms2_N[one.scored_K], logit_norms2_K, rtol=1e-5)
    assert np.isfinite(one.logit_norms2_N).sum() == len(one.scored_K)
    np.testing.assert_allclose(one.gram_KK, scores @ scores.T, rtol=1e-6, atol=1e-9)
    gradient = gradient_weights(one.rewards_N, one.scored_K) @ scores
    assert abs(one.gradient_D - gradient).max() < 1e-5 * abs(gradient).max()
    assert found.law_gap < 1e-5
    assert found.gradient_gap < 1e-5


def test_prompts_of_a_batch_are_what_each_is_alone(subject):
    """Tokens, rewards and choices to the bit; scores but for rounding."""
    prompts = [replace(subject.prompts[0], id=name) for name in "xyz"]
    tokens = [[1, 2], [2, 3], [3, 3]]
    subject = changed(subject, prompts=prompts, tokens=tokens)
    batch = tuple((index, 8, 16) for index in (2, 0, 1))
    for (index, *_), found in zip(batch, sample_batch(subject, batch, 0), strict=True):
        alone = sample_prompt(subject, index, range(8, 16))
        for name in ("rewards_N", "scored_K", "lengths_N"):
            np.testing.assert_array_equal(
                getattr(found.sample, name), getattr(alone.sample, name)
            )
        texts = [
            [json.loads(line)["text"] for line in one.completions.lines.split("\n")]
            for one in (found, alone)
        ]
        assert texts[0] == texts[1]
        assert np.isnan(found.gradient_gap)
        np.testing.assert_allclose(found.sample.gram_KK, alone.sample.gram_KK, rtol=1e-6)


def test_blocks_are_parts_of_the_same_completions(subject):
    whole = sample_prompt(subject, 0, range(14)).sample
    for part in (slice(0, 6), slice(6, 14)):
        block = sample_prompt(subject, 0, range(part.start, part.stop)).sample
        np.testing.assert_array_equal(block.rewards_N, whole.rewards_N[part])
        np.testing.assert_allclose(block.gram_KK, whole.gram_KK[part, part], rtol=1e-6)


@pytest.mark.parametrize("folded", [3641, 1])
def test_what_is_kept_is_bounded(subject, monkeypatch, folded):
    """Whole vectors and sketches, of rewards that are all different."""
    for module in (sampling, one_pool):
        monkeypatch.setattr(module, "FOLDED", folded)
        monkeypatch.setattr(module, "SKETCHED", 9 * folded)
    rewards = (n / 7 for n in itertools.count())
    graded = changed(subject, reward=lambda text, row: next(rewards))
    sample = sample_prompt(graded, 0, range(8)).sample
    assert len(sample.inner_MF) == 6
    kept = sum(part.nbytes for part in (sample.gradient_D, sample.inner_MF, sample.gram_KK))
    # As many vectors as completions are counted, where two fewer are beside the gradient.
    spare = 2 * sample.inner_MF[0].nbytes
    assert kept_bytes(subject.policy.size, [8]) == kept + spare


@pytest.mark.parametrize("parameters", [3641, 3642, 10**6])
@pytest.mark.parametrize("prompts", [20, 60, 1000])
def test_an_advice_keeps_less_than_200_mb(parameters, prompts):
    blocks = itertools.chain(*looks(prompts, DEFAULT_BUDGET)[-1].items(range(prompts)))
    sizes = [end - start for _, start, end in blocks]
    assert kept_bytes(parameters, sizes) < 200e6


def test_completions_are_not_those_of_a_run():
    """Nor are those of its two pools the same."""
    first = [uniforms(0, "a", name, range(1), 1).item() for name in (POOL, *POOLS)]
    assert len({*first}) == 3


@pytest.mark.parametrize("rewards", ["all equal", "different"])
def test_a_gradient_that_the_hooks_miss_is_seen(subject, monkeypatch, rewards):
    """Negative control: weights that another pass does not have; also of equal rewards."""
    if rewards == "all equal":
        subject = changed(subject, reward=lambda text, row: 1.0)
    assert sample_prompt(subject, 0, range(8), checked=True).gradient_gap < 1e-5
    honest = sampling.add_weighted_gradients

    def other(policy, prompt, completions, weights, add, most):
        return honest(policy, prompt, completions, weights * [1.5] + 0.1, add, most)

    monkeypatch.setattr(sampling, "add_weighted_gradients", other)
    assert sample_prompt(subject, 0, range(8), checked=True).gradient_gap > 0.1


def test_a_pass_that_ran_out_of_memory_leaves_nothing_behind(subject, monkeypatch):
    """Products of all pairs are had however little is held at a time."""
    whole, failed = sample_prompt(subject, 0, range(8)).sample, []
    honest = sampling.score_block

    def short_of_memory(*given, how, weighted):
        result = honest(*given, how=how, weighted=weighted)
        if not failed:
            failed.append(how)
            raise MemoryError
        return result

    monkeypatch.setattr(sampling, "score_block", short_of_memory)
    found = sample_prompt(subject, 0, range(8)).sample
    assert len(failed) == 1
    np.testing.assert_allclose(found.gram_KK, whole.gram_KK, rtol=1e-6)
    np.testing.assert_allclose(found.gradient_D, whole.gradient_D, rtol=1e-4, atol=1e-6)
