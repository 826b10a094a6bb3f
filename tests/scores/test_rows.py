"""Rows in memory and in a file."""

import errno
import os

import pytest
import torch

from mse_lab.scores.rows import make_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rows_in_a_file_are_those_in_memory(dtype, tmp_path):
    """Zeros at first; what is written stays, and nothing is to be seen in the folder."""
    like = torch.zeros(1, dtype=dtype).expand(5)
    kept, mapped = make_rows(3, like), make_rows(3, like, tmp_path)
    for one in (kept, mapped):
        assert not one.any()
        one[1:, 2:] = torch.arange(3)
    assert torch.equal(kept, mapped)
    assert mapped.dtype == dtype
    assert not [*tmp_path.iterdir()]


def test_a_full_disk_is_met_at_once(tmp_path, monkeypatch):
    def full(file, start, size):
        raise OSError(errno.ENOSPC, f"{size} from {start}")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="60 from 0"):
        make_rows(3, torch.zeros(5), tmp_path)
