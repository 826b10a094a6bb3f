"""On which side of vanilla a run is: all answers against its prompts' exact moments.

What the moments say of groups is enumerated in `mse/test_regime.py`, and the paper's
statements are held against the same runs in `test_statements.py`.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from claimed_runs import DESIGNS, draw
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.moments import Moments
from mse_lab.mse.prompt_table import count_carriers
from mse_lab.mse.regime import _side, aggregate_place, find_regime, gain_shares, oracle_gain
from simulated import Design, analysed, make_design, with_rewards

KINDS, SIZES = ("fair", "quiet", "loud", "easy"), (4, 8, 16)


@pytest.mark.parametrize("kind", KINDS)
def test_advice_and_the_phase_diagram_know_the_side(kind):
    run = draw(kind)
    found, worse = run.advise(), oracle_gain(DESIGNS[kind].moments()).sum() > 0
    regime = found.regime
    assert regime.side == ("above" if worse else "below")
    assert (regime.rho.low > regime.line) == worse
    assert (regime.rho.high < regime.line) == (not worse)
    assert (gain_shares(run.moments).sum() > 0) == worse


def test_few_prompts_that_decide_widen_the_intervals():
    """No degrees of freedom beyond the prompts that carry q, nor beyond those given."""
    moments = make_design(np.random.default_rng(0), 40).moments()
    carriers = count_carriers(oracle_gain(moments))  # 18; by q's own spread 26 do.

    def regime(most):
        return find_regime(moments, True, 0.95, most)

    assert regime(math.inf).rho == regime(carriers).rho
    few, many = (regime(most).rho for most in (carriers / 2, carriers))
    assert few.low < many.low < many.high < few.high
    wide, narrow = (regime(most).best_baseline for most in (2, math.inf))
    assert wide.high / wide.low > 1.01 * narrow.high / narrow.low
    for found in (wide, narrow):  # Of a positive number.
        assert found.low * found.high == pytest.approx(found.value**2)


def test_the_place_by_hand():
    """V = 1/2 twice, S = 1 and 3, b* = 1/4 and 1/2: E[VB] / E[V^2 S] = 7/8."""
    value, norm2, best = np.array([[0.5, 0.5], [1.0, 3.0], [0.25, 0.5]])
    moments = Moments(norm2, best * norm2, best * norm2, value, value / 2, 0 * value)
    found = find_regime(moments, True, 0.95)
    assert found.value == pytest.approx(1 / 2)
    assert found.best_baseline.value == pytest.approx(7 / 16)
    assert found.rho.value == pytest.approx((7 / 16) / (9 / 16))
    assert found.line == pytest.approx(1 / 3)
    graded = find_regime(moments, False, 0.95)
    assert np.isnan([*graded.rho, graded.line]).all()


def test_rewards_that_are_not_0_and_1_have_b_and_no_rho():
    """Of rewards moved by a constant V and b* move by it, too."""
    moved = with_rewards(draw("fair").pools, lambda one: one + 3)
    design = DESIGNS["fair"]
    exact = replace(design, reward_PC=design.reward_PC + 3).moments()
    found = analysed(moved, SIZES).advise().regime
    assert not found.binary
    assert np.isnan([*found.rho, found.line]).all()
    assert found.side == "above"
    _, best = aggregate_place(exact)
    assert found.best_baseline.value == pytest.approx(best, abs=0.02)


def test_the_interval_covers_over_random_prompts():
    """Nominal 90%, 300 samples of 40 prompts, exact moments: within 85 and 95%.

    A standard error is 1.7%; false alarm 4e-3 were coverage 90%. Without the noise of the
    place's V the interval of b* covers in 71%.
    """
    rng = np.random.default_rng(8)
    design, hits = make_design(rng, 2000), 0
    _, truth = aggregate_place(design.moments())
    for _ in range(300):
        index = rng.integers(0, 2000, 40)
        some = Design(*(part[index] for part in vars(design).values())).moments()
        found = find_regime(some, True, 0.9)
        hits += found.best_baseline.low <= truth <= found.best_baseline.high
    assert 0.85 < hits / 300 < 0.95


def test_nothing_that_is_ever_right_has_no_place():
    found = find_regime(Moments(*np.zeros((6, 3))), True, 0.95)
    assert found.side == "undecided"
    assert np.isnan([found.value, *found.rho]).all()


@pytest.mark.parametrize(
    ("ends", "side"),
    [((0.6, 0.4, 0.8), "undecided"), ((0.4, 0.3, 0.6), "undecided"),
     ((0.7, 0.6, 0.8), "above"), ((0.3, 0.2, 0.4), "below")],
)  # fmt: skip
def test_a_side_is_told_by_the_interval_not_the_value(ends, side):
    assert _side(Estimate(*ends)) == side
