"""One prompt for a run: its norms are exact; out of memory nothing is lost."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from enumerated import as_completions
from measurements import flat
from models import draw
from mse_lab.data.prompts import Prompt
from mse_lab.data.streams import uniforms
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimators
from mse_lab.run import prompt as stages
from mse_lab.run.prompt import measure_prompt
from plain_scores import plain_scores


def test_norms_of_scores_and_logits_are_autograds(subject_of):
    subject = subject_of()
    found, size = flat(measure_prompt(subject, 0)), subject.probe.pool.replicate
    numbers = uniforms(subject.probe.seed, "a", "replicate", range(size), 5)
    drawn = draw(subject.policy, subject.tokens[0], numbers, "a")
    scores_ND, _, logit_norms2_N = plain_scores(subject.policy, drawn, subject.tokens[0])
    norms2_N = np.diagonal(found["gram_KGG"], axis1=1, axis2=2).ravel()
    np.testing.assert_allclose(norms2_N, (scores_ND**2).sum(1), rtol=1e-4)
    np.testing.assert_allclose(found["logit_norms2_N"], logit_norms2_N, rtol=1e-4)


def test_a_prompt_that_runs_out_of_memory_is_measured_all_the_same(subject_of, monkeypatch):
    """Scoring, drawing and reference each fail once."""
    plain, subject, failed = flat(measure_prompt(subject_of(), 0)), subject_of(), set()

    def failing(whole, name):
        def action(*args, **options):
            if name not in failed:
                failed.add(name)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return whole(*args, **options)

        return action

    names = ("score_block", "draw_together", "measure_reference")
    for name in names:
        monkeypatch.setattr(stages, name, failing(getattr(stages, name), name))
    found = flat(measure_prompt(subject, 0))
    assert failed == {*names}
    assert (plain["retreated"], found["retreated"]) == (False, True)
    for name in ("gram_KGG", "products_N", "reference_product", "mean_D"):
        np.testing.assert_allclose(found[name], plain[name], rtol=1e-4, atol=1e-6)
    norms2_N = np.diagonal(found["gram_KGG"], axis1=1, axis2=2).ravel()
    np.testing.assert_allclose(found["kind_norms2_NM"].sum(1), norms2_N, rtol=1e-4)
    total = found["kind_products_M"].sum()
    np.testing.assert_allclose(total, found["reference_product"], rtol=1e-4)


def test_rewards_that_an_estimator_cannot_take_are_refused_at_the_first_prompt(subject_of):
    estimators = find_estimators([{"name": "pass-at-k", "k": 2}], [2, 4], 2)
    measure_prompt(subject_of(estimators=estimators), 0)
    graded = subject_of(lambda text, row: 0.25, estimators=estimators)
    with pytest.raises(InputError, match=r"pass-at-k.* needs rewards 0 and 1, and "):
        measure_prompt(graded, 0)


def test_vectors_that_do_not_fit_are_kept_as_sketches(subject_of, monkeypatch):
    one = subject_of()
    whole = len(measure_prompt(one, 0).arrays.mean_D)
    monkeypatch.setattr("mse_lab.scores.sketches.vectors_fit", lambda *_: False)
    assert whole == one.policy.size != len(measure_prompt(one, 0).arrays.mean_D)


def test_lines_of_a_pool():
    """A log-probability that is not known is null: NaN is no JSON."""
    drawn = replace(
        as_completions([[3, 1], [3, 4, 5]]),
        log_probs_N=np.array([-0.12345678, np.nan]),
        ended_N=np.array([True, False]),
    )
    pool = stages.CompletionPool("replicate", drawn, ["ü", "b"], np.array([1.0, 0.5]))
    first, second = map(json.loads, pool.lines(Prompt("p", "1", "", {})))
    assert first == {
        "prompt": "p",
        "pool": "replicate",
        "text": "ü",
        "reward": 1.0,
        "length": 2,
        "truncated": False,
        "log_prob": -0.123457,
    }
    assert (second["truncated"], second["log_prob"]) == (True, None)
