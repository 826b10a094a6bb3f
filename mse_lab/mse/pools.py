"""Pools: the measurements of the completions of P prompts.

Everything after the scores is a function of these arrays: any estimator, at any group
size that divides the largest, can be evaluated on them without the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import LARGEST, LEAST, Arrays, Flags, Floats, Ints
from mse_lab.errors import InputError, nearest
from mse_lab.estimators.groups import is_binary

# Numbers of each vector turned into float64 at a time, which a processor's cache holds.
NUMBERS_IN_CACHE = 2**13

# Of how many rewards and squared score norms an array's numbers are products; else three.
_FACTORS = {
    "rewards_PN": 1,
    "reference_rewards_PN": 1,
    "gram_PKGG": 1,
    "logit_norms2_PN": 1,
    "kind_norms2_PNM": 1,
    "products_PN": 2,
}

# Squared norms; and how far <W_i, W_j> and <W_j, W_i> may differ, in ||W_i|| ||W_j||.
_SQUARES = ("gram_PKGG", "reference_distance2_P", "kind_norms2_PNM", "logit_norms2_PN")
ASYMMETRY = 1e-2

# Arrays that may be absent, together: the kinds of module that scores lie in, and the norms
# of logits.
KIND_ARRAYS = ("kind_norms2_PNM", "kind_products_PM")
LOGITS = "logit_norms2_PN"
MAY_BE_ABSENT = (KIND_ARRAYS, (LOGITS,))


@dataclass(frozen=True)
class Pools:
    """Pools of P prompts; N replicate completions each, in K blocks of the largest G."""

    rewards_PN: Floats  # Rewards Z of the replicate pool.
    lengths_PN: Ints  # Tokens of each completion, end token included.
    # <W_i, W_j> inside each block; NaN between completions that were not scored together,
    # for want of memory.
    gram_PKGG: Floats
    products_PN: Floats  # <W_i, rbar>.
    reference_rewards_PN: Floats  # Rewards of the reference pool, half A then half B.
    reference_product_P: Floats  # <r_A, r_B>, unbiased for ||g||^2.
    reference_distance2_P: Floats  # ||r_A - r_B||^2.
    # <rbar(x), rbar(x')>, exact or from sketches; the diagonal is ||rbar||^2 and is no
    # estimate of ||g||^2.
    between_PP: Floats
    halves_PP: Floats  # <r_A(x) - r_B(x), rbar(x')>, the noise of those products.
    kind_norms2_PNM: Floats  # ||W_i||^2 in each of M kinds of module.
    kind_products_PM: Floats  # <r_A, r_B> in each kind of module.
    # sum_t (1 - 2 p_y + sum_v p_v^2) over a completion's tokens; NaN where not recorded.
    logit_norms2_PN: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Take the arrays of `pools.npz`; refuse, by name, what no run can have measured.

        The two `kind_*` and `logit_norms2_PN` may be absent. Numbers that are too small
        become zero. There must be two blocks K or more, for a spread.
        """
        given = _named(arrays, [field.name for field in fields(cls)])
        _check_shapes(given)
        numbers = {name: _as_numbers(name, array) for name, array in given.items()}
        shape = numbers["rewards_PN"].shape
        none_PN0 = np.zeros((*shape, 0))
        absent = dict(zip(KIND_ARRAYS, (none_PN0, none_PN0[:, 0]), strict=True))
        return cls(**(absent | {LOGITS: np.full(shape, np.nan)} | numbers))

    @property
    def prompts(self) -> int:
        """P."""
        return len(self.rewards_PN)

    @property
    def largest_group(self) -> int:
        """G of the blocks."""
        return self.gram_PKGG.shape[-1]

    @property
    def blocks(self) -> int:
        """K, blocks a prompt."""
        return self.gram_PKGG.shape[1]

    @property
    def has_cross_products_P(self) -> Flags:
        """Whether all of a prompt's <W_i, W_j>, i != j, are known, (P,)."""
        return np.asarray(~np.isnan(self.gram_PKGG).any((1, 2, 3)))

    @property
    def has_cross_products(self) -> bool:
        """Whether they are known for all prompts; if not, only norms and laws are."""
        return bool(self.has_cross_products_P.all())

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return is_binary(self.rewards_PN) and is_binary(self.reference_rewards_PN)

    @property
    def reference_half(self) -> int:
        """Completions n in one half of the reference."""
        return self.reference_rewards_PN.shape[1] // 2

    @property
    def norms2_PN(self) -> Floats:
        """||W_i||^2."""
        diagonal = np.diagonal(self.gram_PKGG, axis1=-2, axis2=-1)
        return diagonal.reshape(self.prompts, -1)

    @property
    def value_P(self) -> Floats:
        """V, from the reference pool alone, so that it is independent of the replicates."""
        return self.reference_rewards_PN.mean(-1)

    @property
    def reward_variance_P(self) -> Floats:
        """Var(Z), unbiased, from the reference pool."""
        return self.reference_rewards_PN.var(-1, ddof=1)

    @property
    def aggregate_norm2(self) -> float:
        """||mean_x g(x)||^2 over the run's own prompts, unbiased by the two halves.

        That of the population they are drawn from is `prompt_table.Constants.gradient2`.
        """
        products_PP = self.between_PP.copy()
        np.fill_diagonal(products_PP, self.reference_product_P)
        return float(products_PP.mean())

    def in_blocks(self, values_PN: Floats) -> Floats:
        """View per-completion values (P, N) as (P, K, G)."""
        return values_PN.reshape(self.prompts, self.blocks, self.largest_group)


def _named(arrays: Mapping[str, Any], names: list[str]) -> Arrays:
    for name in arrays:
        if name not in names:
            raise InputError(f"{name}: no such array; {nearest(str(name), names)}")
    absent = [name for group in MAY_BE_ABSENT if not {*group} & {*arrays} for name in group]
    needed = [name for name in names if name not in absent]
    for name in needed:
        if not isinstance(arrays.get(name), np.ndarray):
            raise InputError(f"{name}: no array of this name; give one")
        if isinstance(arrays[name], np.ma.MaskedArray):
            raise InputError(f"{name}: a masked array; give all numbers")
    return {name: arrays[name] for name in needed}


def _check_shapes(arrays: Arrays) -> None:
    """Check that an axis, a letter in names, has the same length in every array."""
    lengths: dict[str, int] = {}
    for name, array in arrays.items():
        axes = name.rpartition("_")[2]
        if name == "reference_rewards_PN":
            axes = "Pn"
        if array.ndim != len(axes):
            raise InputError(f"{name}: of shape {array.shape}, not of {len(axes)} axes")
        for axis, length in zip(axes, array.shape, strict=True):
            if lengths.setdefault(axis, length) != length:
                raise InputError(
                    f"{name}: of shape {array.shape}, with {axis} = {length}; in the "
                    f"arrays before it {axis} is {lengths[axis]}"
                )
    blocks, group = lengths["K"], lengths["G"]
    if lengths["N"] != blocks * group or blocks < 2 or not lengths["P"] * group:
        raise InputError(
            f"gram_PKGG: of shape {arrays['gram_PKGG'].shape} for {lengths['N']} "
            f"completions; give K >= 2 blocks of G, K G = N"
        )
    if lengths["n"] % 2 or lengths["n"] < 4:
        raise InputError(
            f"reference_rewards_PN: {lengths['n']} rewards a prompt; give two halves of "
            "two or more"
        )


def _as_numbers(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "buif" or array.dtype.itemsize > 8:
        raise InputError(f"{name}: holds {array.dtype}, not numbers of 64 bits or less")
    numbers = array.astype(np.float64, copy=False)
    if name == "lengths_PN":
        # No length is beyond what a float64 can count.
        if not ((numbers >= 1) & (numbers < 2**53) & (np.trunc(numbers) == numbers)).all():
            raise InputError(f"{name}: give the whole numbers of tokens, one or more")
        return numbers.astype(np.int64)
    # Norms of scores are always known; products between completions may be NaN, and norms
    # of logits.
    gram = name == "gram_PKGG"
    checked = np.diagonal(numbers, axis1=-2, axis2=-1) if gram else numbers
    if np.isnan(checked).any() and name != LOGITS:
        raise InputError(f"{name}: holds NaN; measure it again")
    if name in _SQUARES and (checked < 0).any():
        raise InputError(f"{name}: holds a negative squared norm; measure it again")
    sizes, factors = np.abs(numbers), _FACTORS.get(name, 3)
    largest, limit = np.nanmax(sizes, initial=0), LARGEST**factors
    if largest > limit:
        raise InputError(
            f"{name}: holds {largest:.3g}, more than {limit:.3g}; scale rewards or scores"
        )
    if gram:
        lengths = np.sqrt(checked)
        apart = np.abs(numbers - numbers.swapaxes(-1, -2))
        if (apart > ASYMMETRY * lengths[..., None] * lengths[..., None, :]).any():
            raise InputError(f"{name}: a block is not symmetric; give all <W_i, W_j>")
    tiny = (sizes > 0) & (sizes < LEAST**factors)
    return np.where(tiny, 0.0, numbers) if tiny.any() else numbers


def name_of_all(name: str) -> str:
    """Name the array of all prompts, by the name of a prompt's array or number.

    >>> name_of_all("gram_KGG"), name_of_all("reference_product")
    ('gram_PKGG', 'reference_product_P')
    """
    stem, _, axes = name.rpartition("_")
    return f"{stem}_P{axes}" if axes.isupper() else f"{name}_P"


def without_diagonal(matrix_PP: Floats) -> Floats:
    """Keep the products of different prompts alone."""
    return matrix_PP - np.diag(np.diag(matrix_PP))


def inner_products(left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]) -> Floats:
    """Inner products (P, Q) of P vectors of D numbers with Q others, summed in float64."""
    size, total = len(left[0]), np.zeros((len(left), len(right)))
    for start in range(0, size, NUMBERS_IN_CACHE):
        part = slice(start, start + NUMBERS_IN_CACHE)
        first, second = (
            np.stack([row[part] for row in rows], dtype=float) for rows in (left, right)
        )
        total += first @ second.T
    return total
