"""Shards: what was measured of a prompt is what is read back, or it is measured again."""

import numpy as np
import pytest

from measurements import flat, make_measurement
from mse_lab.errors import InputError
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.results import shard as module
from mse_lab.results.files import write_arrays
from mse_lab.results.shard import load_shard, save_shard


def same(one, other):
    ours, others = flat(one), flat(other)
    return all(
        type(value) is type(others[name])
        and (value == others[name] if isinstance(value, str)
             else np.array_equal(value, others[name], True))
        for name, value in ours.items()
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lines": ""},
        {"alternative_ratios_R": np.ones(3), "retreated": True, "process": 3},
    ],
    ids=["plain", "no text", "supplied"],
)
def test_what_is_saved_is_read_back(tmp_path, changes):
    path, shard = tmp_path / "shards/000000.npz", make_measurement(**changes)
    save_shard(shard, path, "origin")
    assert same(load_shard(PromptMeasurement, path, "origin"), shard)
    assert not same(
        load_shard(PromptMeasurement, path, "origin"),
        make_measurement(**{**changes, "given_up": 1}),
    )


def test_another_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "one.npz"
    save_shard(make_measurement(), path, "origin")
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    with pytest.raises(InputError, match=r"one.npz: damaged \(.*another version.*measured"):
        load_shard(PromptMeasurement, path, "origin")


@pytest.mark.parametrize("cut", [0, 10, 1000, -1])
def test_half_a_shard_is_refused(tmp_path, cut):
    path = tmp_path / "one.npz"
    save_shard(make_measurement(), path, "origin")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=r"one.npz: damaged"):
        load_shard(PromptMeasurement, path, "origin")


def test_a_bit_that_has_flipped_is_refused(tmp_path):
    path = tmp_path / "one.npz"
    save_shard(make_measurement(), path, "origin")
    content = bytearray(path.read_bytes())
    content[content.index(make_measurement().arrays.products_N.tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged \(.*CRC"):
        load_shard(PromptMeasurement, path, "origin")


def spoil_diagonal(arrays):
    arrays["gram_KGG"][0, 0, 0] = np.nan


def alter(name, function):
    return lambda arrays: arrays.update({name: function(arrays[name])})


CHANGES = {
    "rewards flipped": alter("rewards_N", lambda one: 1 - one),
    "Gram scaled": alter("gram_KGG", lambda one: 100 * one),
    "NaN on the diagonal": spoil_diagonal,
    "other number": alter("products_N", lambda one: one[:-1]),
    "other shape": alter("gram_KGG", lambda one: one.reshape(1, 2, 4)),
    "other type": alter("lengths_N", lambda one: one.astype(np.uint64)),
    "an array less": lambda arrays: arrays.pop("kind_products_M"),
    "no seal": lambda arrays: arrays.pop("seal"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_since_is_refused(tmp_path, change):
    """However well the file is written."""
    path = tmp_path / "one.npz"
    save_shard(make_measurement(), path, "origin")
    arrays = dict(np.load(path))
    write_arrays(path, arrays)
    assert same(load_shard(PromptMeasurement, path, "origin"), make_measurement())
    CHANGES[change](arrays)
    write_arrays(path, arrays)
    with pytest.raises(InputError, match=r"one.npz: damaged \("):
        load_shard(PromptMeasurement, path, "origin")


def test_another_origin_is_refused(tmp_path):
    path = tmp_path / "one.npz"
    save_shard(make_measurement(), path, "origin")
    with pytest.raises(InputError, match=r"damaged \(changed since, or of another run"):
        load_shard(PromptMeasurement, path, "another origin")
