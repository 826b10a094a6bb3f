"""The mismatch of an engine that is known: which correction is named, and when none."""

from dataclasses import fields

import numpy as np
import pytest

from mse_lab.answers.mismatch import SMALL, judge_mismatch
from mse_lab.mse.corrections import (
    CORRECTIONS,
    EXACT,
    NAMES,
    NONE,
    CorrectedPrompt,
    CorrectionPools,
)

BEST = NAMES.index("TRL token_truncate")


def pools_of(directions, spread=0.02, noise=0.1, apart=0.0):
    """24 prompts; corrections point as given, the others along (1, 0), g along (1, 1)."""
    rng = np.random.default_rng(0)
    mean_FD = np.tile([1.0, 0.0], (len(CORRECTIONS), 1))
    mean_FD[EXACT] = 1.0
    for place, direction in directions.items():
        mean_FD[place] = direction
    prompts = []
    for _ in range(24):
        gradients_FD = mean_FD + spread * rng.normal(size=2)
        gradients_FD[[NONE, BEST]] += apart * rng.normal(size=(2, 2))
        apart_FF = gradients_FD @ gradients_FD.T
        own_F = apart_FF.diagonal()
        prompts.append(CorrectedPrompt(
            apart_FF=apart_FF, linked_F=own_F, same_F=own_F + noise,
            mass_F=np.ones(len(CORRECTIONS)), log_ratios_N=np.zeros(4),
            divergences_N=np.full(4, 0.02), lengths_N=np.full(4, 2.0),
            gradients_FD=gradients_FD,
        ))  # fmt: skip
    return CorrectionPools.of(prompts)


def judged(directions, **given):
    return judge_mismatch(pools_of(directions, **given), 4, 256, 0.95)


def test_the_correction_that_points_best_is_named():
    """By hand: (1, 0.9) with (1, 1) has the squared cosine 1.9^2 / (2 x 1.81)."""
    found = judged({BEST: [1.0, 0.9]})
    assert found.needed
    assert found.best == "TRL token_truncate"
    row = found.rows[BEST]
    assert row.kept.value == pytest.approx(1.9 / 2, abs=0.01)
    assert row.bias2.value == pytest.approx(0.01 / 2, abs=0.001)
    # Of pairs of 4: 2 E||h||^2 / (4 x 3), of 64 groups.
    assert row.variance.value == pytest.approx(0.1 / 6 / 64 / 2, rel=0.2)
    error = 1 - 1.9**2 / (2 * 1.81) + row.variance.value
    assert row.scale_free_mse.value == pytest.approx(error, abs=3e-4)
    assert row.difference.value == pytest.approx(error - 0.5, abs=0.01)
    assert row.difference.high < 0


def test_arrays_that_are_no_numbers_are_refused():
    pools = pools_of({})
    arrays = {field.name: getattr(pools, field.name) for field in fields(pools)}
    again = CorrectionPools.from_arrays(arrays)
    np.testing.assert_equal(again.log_ratios_PN, pools.log_ratios_PN)
    unknown = pools.log_ratios_PN.copy()
    unknown[0, 0] = np.nan
    for damaged in (unknown, pools.log_ratios_PN[:-1]):
        with pytest.raises(ValueError, match="numbers"):
            CorrectionPools.from_arrays(arrays | {"log_ratios_PN": damaged})


def test_a_bias_of_ratios_that_none_was_beyond_is_unknown():
    """The mask is then the exact ratio in these completions; of that one it is known."""
    mask = NAMES.index("TRL sequence_mask")
    rows = judged({mask: [1.0, 1.0]}).rows
    assert np.isnan([*rows[mask].kept, *rows[mask].bias2]).all()
    assert tuple(rows[EXACT].kept) == (1, 1, 1)
    assert rows[mask].scale_free_mse == rows[EXACT].scale_free_mse
    assert judged({mask: [1.0, 0.999]}).rows[mask].kept.value < 1


def test_a_factor_is_no_error():
    """Half the gradient, in its direction, is as good as a learning rate."""
    found = judged({BEST: [0.5, 0.5], NONE: [1.0, 1.0]})
    assert found.rows[BEST].kept.value == pytest.approx(0.5, abs=0.01)
    assert found.rows[BEST].scale_free_mse.value < 0.01


def test_without_a_bias_no_correction_is_needed():
    found = judged({NONE: [1.0, 1.0]})
    assert not found.needed
    assert found.best is None
    assert tuple(found.rows[NONE].difference) == (0, 0, 0)
    assert (found.sd, found.effective) == (0, 1)
    assert found.kl_per_token == pytest.approx(0.01)


@pytest.mark.parametrize("share", [0.98, 1.02])
def test_a_correction_is_needed_from_a_share_of_bias_in_the_error(share):
    """By hand: the variance is 2 x 0.1 / 12 / 64 where prompts do not differ."""
    bias2 = share * SMALL / (1 - SMALL) * 0.1 / 6 / 64
    found = judged({NONE: [1.0, 1.0 - bias2**0.5]}, spread=0.0)
    assert found.needed == (share > 1)


def test_the_uncut_ratio_is_never_named():
    assert judged({}).best is None


def test_what_prompts_do_not_show_is_needed_and_not_named():
    """Of corrections that point otherwise with every prompt the mean is not known."""
    found = judged({BEST: [1.0, 0.1], NONE: [1.0, 0.3]}, apart=0.3)
    difference = found.rows[BEST].difference
    assert difference.low < 0 < difference.high
    assert found.best is None
    assert judged({NONE: [1.0, 1.0]}, apart=0.3).needed


def test_without_a_gradient_relative_figures_are_unknown():
    found = judged({EXACT: [0.0, 0.0]}, spread=1.0)
    assert np.isnan(found.rows[NONE].kept.value)
    assert found.needed
    assert found.best is None
