"""Shards: what was measured of a prompt is what is read back, or it is measured again."""

from dataclasses import fields

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.results import shard as module
from mse_lab.results.shard import Shard, stack
from shards import make_shard


def same(one, other):
    return all(
        type(getattr(one, field.name)) is type(getattr(other, field.name))
        and np.array_equal(getattr(one, field.name), getattr(other, field.name), True)
        if not isinstance(getattr(one, field.name), str)
        else getattr(one, field.name) == getattr(other, field.name)
        for field in fields(Shard)
    )


@pytest.mark.parametrize(
    "changes",
    [{}, {"lines": ""}, {"rivals_R": np.ones(3), "retreated": True, "process": 3}],
    ids=["plain", "no text", "supplied"],
)
def test_what_is_saved_is_read_back(tmp_path, changes):
    path, shard = tmp_path / "shards/000000.npz", make_shard(**changes)
    shard.save(path)
    assert same(Shard.load(path), shard)
    assert not same(Shard.load(path), make_shard(**{**changes, "given_up": 1}))


def test_another_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "one.npz"
    make_shard().save(path)
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    with pytest.raises(InputError, match=r"one.npz: damaged \(.*another version.*measured"):
        Shard.load(path)


@pytest.mark.parametrize("cut", [0, 10, 1000, -1])
def test_half_a_shard_is_refused(tmp_path, cut):
    path = tmp_path / "one.npz"
    make_shard().save(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"one.npz: damaged"):
        Shard.load(path)


def test_a_bit_that_has_flipped_is_refused(tmp_path):
    path = tmp_path / "one.npz"
    make_shard().save(path)
    content = bytearray(path.read_bytes())
    content[content.index(make_shard().products_N.tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged \(.*CRC"):
        Shard.load(path)


def test_stacked_pools_hold_each_prompts_numbers_and_the_products_between_them():
    rng = np.random.default_rng(1)
    shards = [make_shard(rng), make_shard(rng), make_shard(rng)]
    pools = stack(shards)
    means, differences = (
        np.array([getattr(one, name) for one in shards], float)
        for name in ("mean_D", "difference_D")
    )
    assert np.allclose(pools.between_PP, means @ means.T, rtol=1e-12)
    assert np.allclose(pools.halves_PP, differences @ means.T, rtol=1e-12)
    for name, of_one in [
        ("rewards_PN", "rewards_N"),
        ("lengths_PN", "lengths_N"),
        ("gram_PKGG", "gram_KGG"),
        ("products_PN", "products_N"),
        ("reference_rewards_PN", "reference_rewards_N"),
        ("reference_product_P", "reference_product"),
        ("reference_distance2_P", "reference_distance2"),
        ("kind_norms2_PNM", "kind_norms2_NM"),
        ("kind_products_PM", "kind_products_M"),
    ]:
        expected = np.array([getattr(one, of_one) for one in shards])
        assert np.array_equal(getattr(pools, name), expected), name


def test_a_shard_says_what_it_took_and_found():
    shard = make_shard()
    assert shard.seconds == 1 + 2 + 3 + 4
    assert shard.mean_reward == 0.75
