"""Rows of D numbers: in memory, or in a file that is mapped where memory does not suffice.

What is computed of them goes by slices of their columns, so that no second copy arises.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from torch import Tensor

SLICE = 2**22  # Numbers in float64 at a time: little memory, yet long pieces of a file.


def columns(count: int, rows: int) -> Iterator[slice]:
    """Cut `count` columns into slices of `SLICE` numbers, in that many rows together.

    >>> [*columns(SLICE, 2)]
    [slice(0, 2097152, None), slice(2097152, 4194304, None)]
    """
    width = max(1, SLICE // rows)
    return (slice(at, min(at + width, count)) for at in range(0, count, width))


def make_rows(count: int, like_D: Tensor, folder: Path | None = None) -> Tensor:
    """Make rows (N, D) of zeros like a vector; in a file of a folder, if one is given.

    The file has no name and ends with the rows, or with the process. All of its space is
    taken at once, so that a disk that is full is met here and not later.
    """
    if folder is None:
        return like_D.new_zeros(count, len(like_D))
    dtype = np.dtype(str(like_D.dtype).removeprefix("torch."))
    with TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # Not on macOS.
            os.posix_fallocate(file.fileno(), 0, count * len(like_D) * dtype.itemsize)
        shape = count, len(like_D)
        return torch.from_numpy(np.memmap(file, dtype, "r+", shape=shape))
