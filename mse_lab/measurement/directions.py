"""Directions of a sample of prompts, and their forms in a metric.

`mse/metric_forms.py` says what they are. They may lie on the disk (`scores/rows.py`), so
all that is computed of them goes by slices of their D columns.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Floats
from mse_lab.mse.metric_forms import Forms
from mse_lab.scores.rows import columns

# A function that adds the products of vectors (K, D) with a matrix to others (K, D).
Multiply = Callable[[Tensor, Tensor], object]


class Directions(NamedTuple):
    """Directions g_A, g_B and z of every prompt, as `mse/metric_forms.py` defines them.

    And room for vectors that a curvature is multiplied with, and for the products.
    """

    a_PD: Tensor
    b_PD: Tensor
    z_PD: Tensor
    asked_KD: Tensor
    products_KD: Tensor

    @property
    def slices(self) -> Iterator[slice]:
        """The columns, cut so that a slice of all vectors has few numbers."""
        return columns(self.a_PD.shape[1], sum(map(len, self)))

    def at(self, slice_D: slice) -> Iterator[Tensor]:
        """Give a slice of g_A, g_B and z in float64."""
        return (one[:, slice_D].double() for one in self[:3])


def _add_up(parts: Iterator[tuple[Tensor, ...]]) -> list[Floats]:
    """Add up slices one by one: small tensors that stay would break up the memory."""
    totals = next(parts)
    for part in parts:
        for total, one in zip(totals, part, strict=True):
            total += one
    return [total.cpu().numpy() for total in totals]


def first_order(directions: Directions, scale_D: Tensor) -> Forms:
    """Compute the forms of all prompts in the metric D, K = 1."""

    def meet(at: slice) -> tuple[Tensor, ...]:
        a_PD, b_PD, z_PD = directions.at(at)
        scaled_PD = b_PD * scale_D[at]
        pairs_P = (z_PD.square() * scale_D[at]).sum(1)
        return a_PD @ scaled_PD.T, (b_PD * scaled_PD).sum(1), pairs_P

    halves_PP, squares_P, pairs_P = _add_up(map(meet, directions.slices))
    gradients_P = np.diag(halves_PP)
    found = Forms(
        gradients_KP=gradients_P,
        noises_KP=squares_P - gradients_P,
        pairs_KP=pairs_P,
        rows_KP=halves_PP.sum(1) - gradients_P,
        columns_KP=halves_PP.sum(0) - gradients_P,
        meetings_KP=np.zeros_like(gradients_P),
    )
    return Forms(*(part[None] for part in vars(found).values()))


def curved(
    directions: Directions,
    scale_D: Tensor,
    position: int,
    signs_RP: Tensor,
    multiply: Multiply,
) -> tuple[Floats, ...]:
    """Compute the forms of all prompts in the metric DMD of prompt `position`, each (P,).

    `multiply` multiplies by M, the curvature of that prompt.
    """
    a_PD, b_PD, z_PD, asked_KD, products_KD = directions
    repeats, count = signs_RP.shape
    mine_P = torch.eye(count)[[position]].to(a_PD)
    signs_RP, others_P = signs_RP.to(a_PD) * (1 - mine_P), 1 - mine_P
    # What is asked of each: signed sums first, the prompt's own direction last.
    of_b, of_z = torch.cat([signs_RP, others_P, mine_P]), torch.cat([signs_RP, mine_P])
    for at in directions.slices:
        parts = of_b @ b_PD[:, at], of_z @ z_PD[:, at], others_P @ a_PD[:, at]
        asked_KD[:, at] = torch.cat(parts) * scale_D[at]
    products_KD.zero_()
    multiply(asked_KD, products_KD)

    def meet(at: slice) -> tuple[Tensor, ...]:
        scaled_KD = products_KD[:, at].double() * scale_D[at]
        from_b, from_z, from_a = scaled_KD.split([len(of_b), len(of_z), 1])
        a_PD, b_PD, z_PD = directions.at(at)
        return from_b @ a_PD.T, from_b @ b_PD.T, from_z @ z_PD.T, from_a @ b_PD.T

    b_a, b_b, z_z, a_b = _add_up(map(meet, directions.slices))
    signs = signs_RP.double().cpu().numpy()
    gradients_P, squares_P, pairs_P = (
        (signs * found[:repeats]).sum(0) / repeats for found in (b_a, b_b, z_z)
    )
    meetings_P = b_a[-1]
    gradients_P[position] = meetings_P[position]
    squares_P[position] = b_b[-1, position]
    pairs_P[position] = z_z[-1, position]
    rows_P, columns_P = b_a[repeats] - gradients_P, a_b[0] - gradients_P
    rows_P[position] = columns_P[position] = 0
    noises_P = squares_P - gradients_P
    return gradients_P, noises_P, pairs_P, rows_P, columns_P, meetings_P
