"""Pools: arrays taken as they are or refused in one line, and products of long vectors."""

from dataclasses import asdict

import numpy as np
import pytest

from mse_lab.arrays import LARGEST, LEAST
from mse_lab.errors import InputError
from mse_lab.mse.pools import NUMBERS_IN_CACHE, Pools, inner_products
from simulated import make_pools


@pytest.fixture
def arrays():
    """Pools of three prompts, two blocks of four."""
    pools = asdict(make_pools(3, 8, 2, 4, seed=1))
    kinds = {"kind_norms2_PNM": np.ones((3, 8, 2)), "kind_products_PM": np.ones((3, 2))}
    return pools | kinds


def test_a_runs_arrays_are_taken_as_they_are(arrays):
    pools = Pools.from_arrays(arrays)
    for name, array in arrays.items():
        assert getattr(pools, name) is array or (getattr(pools, name) == array).all()


def test_kinds_and_norms_of_logits_may_be_absent(arrays):
    for name in ("kind_norms2_PNM", "kind_products_PM", "logit_norms2_PN"):
        del arrays[name]
    pools = Pools.from_arrays(arrays)
    assert pools.logit_norms2_PN.shape == (3, 8)
    assert np.isnan(pools.logit_norms2_PN).all()
    assert pools.kind_norms2_PNM.shape == (3, 8, 0)
    assert pools.kind_products_PM.shape == (3, 0)


def test_whole_numbers_and_narrow_ones_are_widened(arrays):
    arrays["rewards_PN"] = arrays["rewards_PN"].astype(bool)
    arrays["lengths_PN"] = arrays["lengths_PN"].astype(np.float32)
    arrays["products_PN"] = arrays["products_PN"].astype(">f4")
    pools = Pools.from_arrays(arrays)
    assert pools.rewards_PN.dtype == pools.products_PN.dtype == np.dtype(float)
    assert pools.lengths_PN.dtype == np.dtype(np.int64)


def test_products_between_completions_may_be_unknown(arrays):
    arrays["gram_PKGG"] = np.where(np.eye(4, dtype=bool), arrays["gram_PKGG"], np.nan)
    assert not Pools.from_arrays(arrays).has_cross_products


def at_first(value):
    """Put a number at the first place of an array."""

    def change(array):
        changed = array.astype(float)
        changed.flat[0] = value
        return changed

    return change


BAD = {
    "missing": ("products_PN", lambda array: None, "no array of this name"),
    "a list": ("products_PN", lambda array: array.tolist(), "no array of this name"),
    "one kind only": ("kind_products_PM", lambda array: None, "no array of this name"),
    "an axis less": ("rewards_PN", lambda array: array[0], "not of 2 axes"),
    "no axis": ("rewards_PN", lambda array: array[0, 0, ...], "not of 2 axes"),
    "other prompts": ("between_PP", lambda array: array[:2], "with P = 2"),
    "other group": ("gram_PKGG", lambda array: array[..., :3], "with G = 3"),
    "fewer blocks": ("gram_PKGG", lambda array: array[:, :1], "for 8 completions"),
    "empty blocks": ("gram_PKGG", lambda array: array[..., :0, :0], "for 8 completions"),
    "three in two halves": ("reference_rewards_PN", lambda array: array[:, :3], "halves"),
    "halves of one": ("reference_rewards_PN", lambda array: array[:, :2], "two or more"),
    "no reference": ("reference_rewards_PN", lambda array: array[:, :0], "halves"),
    "text": ("rewards_PN", lambda array: array.astype(str), "holds <U"),
    "complex": ("rewards_PN", lambda array: array.astype(complex), "holds complex128"),
    "wider": ("rewards_PN", lambda array: array.astype(np.longdouble), "64 bits or less"),
    "dates": ("rewards_PN", lambda array: array.astype("M8[s]"), "holds datetime64"),
    "no tokens": ("lengths_PN", lambda array: 0 * array, "whole numbers of tokens"),
    "half a token": ("lengths_PN", at_first(1.5), "whole numbers of tokens"),
    "NaN tokens": ("lengths_PN", at_first(np.nan), "whole numbers of tokens"),
    "endless tokens": ("lengths_PN", at_first(np.inf), "whole numbers of tokens"),
    "NaN reward": ("rewards_PN", at_first(np.nan), "holds NaN"),
    "NaN norm": ("gram_PKGG", at_first(np.nan), "holds NaN"),
    "infinite": ("products_PN", at_first(-np.inf), "holds inf"),
    "wide": ("reference_rewards_PN", at_first(1e300), "holds 1e+300"),
    "negative norms": ("gram_PKGG", np.negative, "holds a negative squared norm"),
    "negative distance": ("reference_distance2_P", np.negative, "a negative squared norm"),
    "negative kinds": ("kind_norms2_PNM", np.negative, "a negative squared norm"),
    "negative logits": ("logit_norms2_PN", np.negative, "a negative squared norm"),
    "masked": ("rewards_PN", lambda array: np.ma.masked_equal(array, 0), "give all numb"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "says"), BAD.values(), ids=list(BAD))
def test_what_is_refused(arrays, name, change, says):
    changed = {**arrays, name: change(arrays[name])}
    with pytest.raises(InputError) as caught:
        Pools.from_arrays({key: one for key, one in changed.items() if one is not None})
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 200


def test_an_unknown_name_is_refused_with_the_nearest(arrays):
    arrays["rewards_NP"] = arrays.pop("rewards_PN")
    with pytest.raises(InputError, match="did you mean rewards_PN"):
        Pools.from_arrays(arrays)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_what_counts_as_symmetric_is_in_proportion_to_both_scores(arrays, size):
    """<W_i, W_j> and <W_j, W_i> may be 1% of ||W_i|| ||W_j|| apart, of unlike sizes too."""
    sizes = np.array([1.0, size, 1.0, 1.0])
    gram = arrays["gram_PKGG"] * sizes[:, None] * sizes
    limit = np.sqrt(gram[0, 0, 0, 0] * gram[0, 0, 1, 1]) / 100
    gram[0, 0, 0, 1] = gram[0, 0, 1, 0] + 0.9 * limit
    Pools.from_arrays(arrays | {"gram_PKGG": gram})
    gram[0, 0, 0, 1] = gram[0, 0, 1, 0] + 1.1 * limit
    with pytest.raises(InputError, match="gram_PKGG: a block is not symmetric"):
        Pools.from_arrays(arrays | {"gram_PKGG": gram})


def test_no_prompts_are_refused(arrays):
    none = {name: array[:0] for name, array in arrays.items()}
    none |= {name: arrays[name][:0, :0] for name in ("between_PP", "halves_PP")}
    with pytest.raises(InputError, match="gram_PKGG: of shape"):
        Pools.from_arrays(none)


def test_one_block_shows_no_spread():
    with pytest.raises(InputError, match="give K >= 2 blocks"):
        Pools.from_arrays(asdict(make_pools(2, 8, 1, 4)))


def test_the_largest_number_is_taken(arrays):
    arrays["lengths_PN"] = at_first(2**53 - 1)(arrays["lengths_PN"])
    arrays["rewards_PN"] = at_first(LARGEST)(arrays["rewards_PN"])
    arrays["products_PN"] = at_first(LARGEST**2)(arrays["products_PN"])
    pools = Pools.from_arrays(arrays)
    assert (pools.rewards_PN[0, 0], pools.products_PN[0, 0]) == (LARGEST, LARGEST**2)
    assert pools.lengths_PN[0, 0] == 2**53 - 1


def test_what_is_too_small_counts_as_zero(arrays):
    arrays["rewards_PN"] = at_first(LEAST / 2)(arrays["rewards_PN"])
    arrays["products_PN"] = at_first(-LEAST)(arrays["products_PN"])
    pools = Pools.from_arrays(arrays)
    assert (pools.rewards_PN[0, 0], pools.products_PN[0, 0]) == (0, -LEAST)


def test_products_run_over_all_numbers():
    """Vectors longer than what is turned into float64 at a time, and no multiple of it."""
    rng = np.random.default_rng(0)
    left, right = (
        [
            rng.standard_normal(2 * NUMBERS_IN_CACHE + 3).astype(np.float32)
            for _ in range(count)
        ]
        for count in (2, 3)
    )
    expected = np.array(left, float) @ np.array(right, float).T
    np.testing.assert_allclose(inner_products(left, right), expected, rtol=1e-9)
