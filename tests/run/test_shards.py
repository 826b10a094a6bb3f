"""Shards: what was measured of a prompt is what is read back, or it is measured again."""

import numpy as np
import pytest

from measurements import flat, make_measurement
from mse_lab.errors import InputError
from mse_lab.results.files import write_file
from mse_lab.results.measurement import PromptMeasurement
from mse_lab.run.loop import Shards, load_shard, save_shard


def same(one, other):
    ours, others = flat(one), flat(other)
    return all(
        type(value) is type(others[name])
        and (
            value == others[name]
            if isinstance(value, str)
            else np.array_equal(value, others[name], True)
        )
        for name, value in ours.items()
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rare_ratios_X": np.ones(3), "retreated": True, "process": 3},
    ],
    ids=["plain", "supplied"],
)
def test_what_is_saved_is_read_back(tmp_path, changes):
    path, shard = tmp_path / "shards/000000.npz", make_measurement(**changes)
    save_shard(shard, path, "origin")
    found = load_shard(PromptMeasurement, path, "origin")
    assert same(found, shard)
    assert not same(found, make_measurement(**{**changes, "given_up": 1}))


def cut(at):
    return lambda path: path.write_bytes(path.read_bytes()[:at])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[content.index(make_measurement().arrays.products_N.tobytes())] ^= 1
    path.write_bytes(content)


def rewritten(change):
    """Change the arrays; the file itself is sound."""

    def spoil(path):
        arrays = dict(np.load(path))
        change(arrays)
        write_file(path, arrays)

    return spoil


def alter(name, function):
    return rewritten(lambda arrays: arrays.update({name: function(arrays[name])}))


OTHER_RUN = "changed since, or of another run"
SPOILT = {
    "empty": (cut(0), ""),
    "half": (cut(1000), ""),
    "a bit flipped": (flip_a_bit, ".*CRC"),
    "another version": (alter("version", lambda one: one + 1), "of another version"),
    "no version": (rewritten(lambda arrays: arrays.pop("version")), "of another version"),
    "rewards flipped": (alter("rewards_N", lambda one: 1 - one), OTHER_RUN),
    "other number": (alter("products_N", lambda one: one[:-1]), OTHER_RUN),
    "other shape": (alter("gram_KGG", lambda one: one.reshape(1, 2, 4)), OTHER_RUN),
    "other type": (alter("lengths_N", lambda one: one.astype(np.uint64)), OTHER_RUN),
    "an array less": (rewritten(lambda arrays: arrays.pop("kind_products_M")), OTHER_RUN),
    "no seal": (rewritten(lambda arrays: arrays.pop("seal")), ""),
    "another origin": (lambda path: save_shard(make_measurement(), path, "x"), OTHER_RUN),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_is_spoilt_is_refused(tmp_path, case):
    """However well the file is written; one that is written again as it is, is read."""
    spoil, words = SPOILT[case]
    shards = Shards(PromptMeasurement, tmp_path, lambda item: "origin")
    path = shards.path((1,))
    save_shard(make_measurement(), path, "origin")
    rewritten(lambda arrays: None)(path)
    assert same(load_shard(PromptMeasurement, path, "origin"), make_measurement())
    save_shard(make_measurement(), path, "origin")
    spoil(path)
    remedy = r".*\); start again, and it is measured again"
    with pytest.raises(InputError, match=rf"000001\.npz: damaged \({words}{remedy}"):
        load_shard(PromptMeasurement, path, "origin")
    assert (1,) not in shards
