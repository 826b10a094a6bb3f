"""The noise by kind of module, by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mse_lab.answers.noise_by_module import share_by_kind
from simulated import Design, make_design, of_kinds


@pytest.fixture(scope="module")
def design():
    return make_design(np.random.default_rng(3), 400)


@pytest.fixture(scope="module")
def pools(design):
    return design.draw(np.random.default_rng(4), 64, 2, 8)


def test_the_share_of_a_kind_is_a_ratio_of_means(pools):
    """E||W||^2: its interval is that of the mean of part less share times whole."""
    part_P, whole_P = (
        one.mean(1) for one in (pools.kind_norms2_PNM[..., 0], pools.norms2_PN)
    )
    share = part_P.mean() / whole_P.mean()
    error = (part_P - share * whole_P).std(ddof=1) / whole_P.mean() / 20
    reach = stats.norm.ppf(0.95) * error
    found = share_by_kind(pools, 0.9)[0].norm2
    assert found == pytest.approx((share, share - reach, share + reach), rel=1e-3)


def test_shares_of_t_and_zeta_are_those_of_the_laws(pools, design: Design):
    """Within their intervals at 99.9%, which are narrow."""
    exact = [replace(design, score_PCD=one).moments() for one in of_kinds(design.score_PCD)]
    for kind, own in zip(share_by_kind(pools, 0.999), exact, strict=True):
        for number in ("trace_oracle", "zeta"):
            share = getattr(own, number).sum() / getattr(design.moments(), number).sum()
            _, low, high = getattr(kind, number)
            assert low < share < high < low + 0.1
