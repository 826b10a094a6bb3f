"""Theorem 2: the law and the line hold for independent draws, and fail without."""

import re
from dataclasses import replace

import numpy as np
import pytest

from claimed_runs import (
    DESIGNS,
    LEVEL,
    PROMPTS,
    draw,
    evidence_of,
    scores_with_a_mean,
    take,
    verdicts,
)
from mse_lab.answers.proposition_3_prompts import judge_random_prompts
from mse_lab.answers.theorem_2_mse import fit_line, judge_expansion
from simulated import make_design as make_plain


@pytest.mark.parametrize("kind", ["fair", "quiet", "loud"])
def test_theorem_2_and_proposition_3_hold(kind):
    claims = judge_expansion(draw(kind)) + judge_random_prompts(draw(kind))
    found = verdicts(claims)
    assert len(found) == 4
    # The slope of so few replicates may be too uncertain; it must not be refused.
    assert found.pop("Theorem 2 (slope)") != "fails"
    assert set(found.values()) == {"holds"}


def test_each_size_is_told_with_its_mse_and_its_law():
    run = draw("fair")
    for claim in judge_expansion(run):
        if claim.group_size is not None and claim.measured.startswith("MSE"):
            size = claim.group_size
            told = re.match(r"MSE ([\d.]+) .*, law ([\d.]+),", claim.measured).groups()
            exact = [one("grpo", size).value for one in (run.mse_of, run.law_of)]
            np.testing.assert_allclose([float(one) for one in told], exact, rtol=0.01)
            break
    else:
        pytest.fail("no size was judged")


def test_the_slope_holds_with_many_replicates():
    pools = DESIGNS["fair"].draw(np.random.default_rng(4), 1024, 32, 16)
    claims = judge_expansion(evidence_of("many", pools, (4, 8, 16), LEVEL))
    assert set(verdicts(claims).values()) == {"holds"}


def test_theorem_2_and_proposition_3_fail_where_scores_have_a_mean():
    evidence = scores_with_a_mean(draw("fair"))
    claims = judge_expansion(evidence) + judge_random_prompts(evidence)
    assert set(verdicts(claims).values()) == {"fails"}


@pytest.mark.parametrize("reference", [16, 256])
def test_the_fitted_line_is_unbiased(reference):
    """Over 40 runs within four standard errors of T and zeta; false alarm 1e-4."""
    design = DESIGNS["fair"]
    exact = np.array([design.moments().trace_oracle.sum(), design.moments().zeta.sum()])
    rng = np.random.default_rng(5)
    found = []
    for _ in range(40):
        pools = design.draw(rng, reference, 4, 16)
        fitted = fit_line(evidence_of("line", pools, (4, 8, 16)))
        found.append([one.value * PROMPTS**2 for one in fitted])
    standard_error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (abs(np.mean(found, axis=0) - exact) < 4 * standard_error).all()


RUNS = 300


def make_unlike():
    """Make 40 prompts of which three have nearly all the noise."""
    design = make_plain(np.random.default_rng(0), 40)
    scale = np.where(np.arange(40) < 3, 1.0, 0.05)
    return replace(design, score_PCD=design.score_PCD * scale[:, None, None])


FEW = {
    "one prompt": take(DESIGNS["fair"], 1),
    "two prompts": take(DESIGNS["fair"], 2),
    "unlike prompts": make_unlike(),
}


@pytest.mark.parametrize("kind", list(FEW))
def test_theorem_2_is_refused_no_more_often_than_stated(kind):
    """Two blocks a prompt, the fewest that there may be."""
    rng, p_values = np.random.default_rng(3), []
    for run in range(RUNS):
        pools = FEW[kind].draw(rng, 256, 2, 8)
        claims = judge_expansion(evidence_of(str(run), pools, (8,), draws=200))
        p_values.append(claims[0].p_value)
    for alpha in (0.05, 0.01):
        error = np.sqrt(alpha * (1 - alpha) / RUNS)
        share = np.mean(np.array(p_values) < alpha)
        assert share <= 4 / 3 * alpha + 4 * error, (alpha, share)


def test_two_sizes_make_a_line_and_one_makes_none():
    assert fit_line(draw("fair", sizes=(4, 8))) is not None
    assert fit_line(draw("fair", sizes=(8,))) is None
