"""Curves: which points there are, and what moves them."""

from itertools import permutations

import numpy as np
import pytest

from mse_lab.estimators import find_estimators
from mse_lab.mse.curves import (
    Between,
    Curves,
    decompose,
    law_curves,
    law_sizes,
    measure_curves,
    paired_ratio,
)
from mse_lab.mse.reference_noise import draw_reference_noise
from mse_lab.mse.replicates import Key, measure_errors
from simulated import make_design

BIASED = ["centred", "grpo-std", "maxrl", "quantile"]
SIZES = [4, 16]


def curves_of(design, rng, names, reference=256, blocks=4, largest=16):
    pools = design.draw(rng, reference, blocks, largest)
    estimators = find_estimators(names, SIZES)
    errors = measure_errors(pools, estimators, SIZES)
    return pools, Curves(pools, draw_reference_noise(pools, 300, rng)), estimators, errors


def test_no_aggregate_for_a_bias_without_a_cheap_form():
    rng = np.random.default_rng(0)
    _, curves, estimators, errors = curves_of(make_design(rng), rng, ["opo", "reinforce++"])
    assert all(
        pair == (None, None) for pair in measure_curves(curves, estimators, errors).values()
    )


def test_laws_reach_1024():
    rng = np.random.default_rng(0)
    _, curves, estimators, _ = curves_of(
        make_design(rng, prompts=4), rng, ["grpo", "maxrl"]
    )
    powers = [2**k for k in range(1, 11)]
    assert law_sizes(estimators[0], [3, 12]) == sorted([3, 12, *powers])
    points = dict(law_curves(curves, estimators, SIZES))
    assert np.isfinite(points[Key("maxrl", 1024)].point.mse)


def test_the_noise_of_v_moves_the_oracle_by_nothing_on_average():
    """4.5 standard errors of 20,000 draws; its price, left in, would be 25 of them."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 6).draw(rng, 16, 4, 8)
    curves = Curves(pools, draw_reference_noise(pools, 20_000, rng))
    [oracle] = find_estimators(["oracle"], [4])
    errors = measure_errors(pools, [oracle], [4])
    curve = curves.measured(oracle, 4, errors[Key("oracle", 4)])
    shift_B = curve.noise.mse - curve.point.mse
    assert abs(shift_B.mean()) < 4.5 * shift_B.std() / np.sqrt(20_000)


def test_a_paired_ratio_is_that_of_known_numbers_and_else_nothing():
    rng = np.random.default_rng(0)
    _, curves, estimators, errors = curves_of(make_design(rng, 6), rng, ["grpo", "oracle"])
    points = measure_curves(curves, estimators, errors)
    grpo, oracle = (points[Key(one.name, 4)].measured for one in estimators)
    value, low, high = paired_ratio(grpo, oracle, 0.95)
    assert value == float(grpo.point.mse) / float(oracle.point.mse)
    assert low < value < high
    errors_PR = errors[Key("oracle", 4)]
    zero = curves.measured(estimators[1], 4, errors_PR - errors_PR.mean())
    for pair in ((grpo, None), (None, oracle), (grpo, zero)):
        assert paired_ratio(*pair, 0.95) is None


def test_without_a_positive_norm_nothing_divides_by_it():
    parts = decompose(*map(np.array, (1.0, 0.0, 0.0, -0.1)))
    assert np.isnan([parts.slope, parts.cosine, parts.scale_free_mse]).all()
    assert np.isfinite([parts.mse, parts.bias2, parts.variance]).all()


def test_noise_between_prompts_is_that_of_the_references():
    """To first order: rbar(x) + noise (r_A(x) - r_B(x)) / 2; different prompts alone."""
    rng = np.random.default_rng(2)
    rbar, apart = rng.standard_normal((2, 3, 4))
    left, right, noise = rng.standard_normal((3, 3))
    found = Between(rbar @ rbar.T, apart @ rbar.T, noise).form(left, right)
    expected = sum(
        left[x]
        * right[y]
        * (
            rbar[x] @ rbar[y]
            + noise[x] / 2 * apart[x] @ rbar[y]
            + noise[y] / 2 * apart[y] @ rbar[x]
        )
        for x, y in permutations(range(3), 2)
    )
    assert found == pytest.approx(expected)
