"""What is written can be read by people and programs, the same bytes everywhere."""

import errno
import math
import os
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident

import pandas as pd
import pytest

from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.results.files import as_data, write_bytes, write_file


def test_the_same_bytes_everywhere(tmp_path):
    """Letters of any language stand as they are; tables have ten digits."""
    write_file(tmp_path / "one.json", {"name": "Müller √2"})
    assert (tmp_path / "one.json").read_bytes() == '{\n  "name": "Müller √2"\n}\n'.encode()
    write_file(tmp_path / "one.csv", pd.DataFrame({"é": [1 / 3, 2.0], "n": [1, 2]}))
    assert (tmp_path / "one.csv").read_bytes() == "é,n\n0.3333333333,1\n2,2\n".encode()


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space"):
        write_bytes(tmp_path / "mse.csv", b"x")
    assert not list(tmp_path.iterdir())


def test_no_link_is_followed_when_a_file_is_written(tmp_path):
    """Somebody may have put one where the parts of files lie until they are whole."""
    (tmp_path / "theirs").write_text("theirs")
    part = f".mse.csv.{os.getpid()}-{get_ident()}.part"
    for name in (part, "mse.csv"):
        (tmp_path / name).symlink_to(tmp_path / "theirs")
    write_bytes(tmp_path / "mse.csv", b"ours")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "mse.csv").read_bytes() == b"ours"
    assert not (tmp_path / part).is_symlink()


def test_what_several_write_at_once_is_one_of_them_whole(tmp_path):
    """As two commands that draw the same figure."""
    path, contents = tmp_path / "figure4.png", [bytes([at]) * 10**5 for at in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: write_bytes(path, content), contents * 4))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_data_are_plain_all_the_way_down():
    deep = {"rows": [{"cost": Estimate(1 / 3, -math.inf, math.nan)}], "name": "grpo"}
    low = {"value": 0.33333, "low": "-inf", "high": "nan"}
    assert as_data(deep) == {"rows": [{"cost": low}], "name": "grpo"}
    assert as_data(((2 / 3,), 7)) == [[0.66667], 7]
