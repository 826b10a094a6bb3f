"""Curves: which points there are, and what moves them."""

import numpy as np

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
from simulated import make_pools

SIZES = [4, 16]


def curves_of(pools, names, sizes=SIZES, draws=300, rng=None):
    """Curves of pools with their noise drawn, the estimators, and errors of groups."""
    estimators = find_estimators(names, sizes)
    errors = measure_errors(pools, estimators, sizes)
    noise = draw_reference_noise(pools, draws, rng or np.random.default_rng(0))
    return Curves(pools, noise), estimators, errors


def test_no_aggregate_for_a_bias_without_a_cheap_form():
    points = measure_curves(*curves_of(make_pools(6, 256, 4, 16), ["opo", "reinforce++"]))
    assert {*points.values()} == {(None, None)}


def test_laws_reach_1024():
    curves, estimators, _ = curves_of(make_pools(4, 256, 4, 16), ["grpo", "maxrl"])
    powers = [2**k for k in range(1, 11)]
    assert law_sizes(estimators[0], [3, 12]) == sorted([3, 12, *powers])
    points = dict(law_curves(curves, estimators, SIZES))
    assert np.isfinite(points[Key("maxrl", 1024)].point.mse)


def test_the_noise_of_v_moves_the_oracle_by_nothing_on_average():
    """4.5 standard errors of 20,000 draws; its price, left in, would be 25 of them."""
    rng, pools = np.random.default_rng(0), make_pools(6, 16, 4, 8)
    curves, [oracle], errors = curves_of(pools, ["oracle"], [4], 20_000, rng)
    curve = curves.measured(oracle, 4, errors[Key("oracle", 4)])
    shift_B = curve.noise.mse - curve.point.mse
    assert abs(shift_B.mean()) < 4.5 * shift_B.std() / np.sqrt(20_000)


def test_a_draw_moves_an_unbiased_error_as_it_moves_each_prompts():
    curves, [grpo], errors = curves_of(make_pools(6, 256, 4, 16), ["grpo"])
    curve = curves.measured(grpo, 4, errors[Key("grpo", 4)])
    moved_B = curves.noise.error_shift_BP.sum(-1) / 6**2
    np.testing.assert_allclose(curve.noise.mse - curve.point.mse, moved_B)


def test_a_draw_moves_the_products_as_it_moves_each_prompts_reference():
    """To first order: r_A and r_B of four prompts in six dimensions, moved by 1e-6."""
    rng = np.random.default_rng(0)
    first_PD, second_PD = rng.normal(size=(2, 4, 6))
    left_P, right_P, normals_P = rng.normal(size=(3, 4))
    mean_PD, apart_PD = (first_PD + second_PD) / 2, first_PD - second_PD

    def form(by: float) -> float:
        moved_PD = mean_PD + by * normals_P[:, None] * apart_PD / 2
        products_PP = moved_PD @ moved_PD.T * ~np.eye(4, dtype=bool)
        return float(left_P @ products_PP @ right_P)

    drawn = Between(
        mean_PD @ mean_PD.T, apart_PD @ mean_PD.T, noise_BP=1e-6 * normals_P[None]
    )
    moved = drawn.form(left_P, right_P)[0] - form(0.0)
    np.testing.assert_allclose(moved, form(1e-6) - form(0.0), rtol=1e-4)


def test_a_paired_ratio_is_that_of_known_numbers_and_else_nothing():
    curves, estimators, errors = curves_of(make_pools(6, 256, 4, 16), ["grpo", "oracle"])
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
