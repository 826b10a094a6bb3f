"""The scores of one parameter in factored form, and their inner products.

Backpropagation through y_t = A x_t gives a completion's gradient in the matrix A as a sum
of outer products over its tokens, sum_t d_t x_t', d_t the gradient in y_t. Inner products
of such gradients need not form them:

    <sum_t d_t x_t', sum_s e_s y_s'> = sum_ts <d_t, e_s> <x_t, y_s>.

Both ways are exact; `reduce_factors` takes the one with fewer operations. A tied matrix
collects the factors of all its uses, so its cross terms are part of the sum.

A prompt's tokens have the same inputs x_t in all its completions. With an orthonormal basis
Q of their span every x splits into Q Q'x and a rest, which is zero for the prompt's tokens:

    sum_t d_t x_t' = (sum_t d_t (Q'x_t)') Q' + sum_{t > prompt} d_t rest_t'.

The two parts are orthogonal, so their Gram matrices add up, and each is small where the
prompt is short beside the matrix and the completions are shorter still.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

# Formed gradients are handled in slices of at most this many bytes: large enough for
# matrix products at full speed, small beside the activations.
SLICE_BYTES = 2**26

LOW_PRECISION = (torch.bfloat16, torch.float16)

# A contraction multiplies two T x T tables element by element, bound by memory and not
# arithmetic: about this many operations' worth for each element.
ELEMENTWISE_COST = 64

# A Gram matrix is computed in so many panels where each has this many rows at least.
PANELS, PANEL_ROWS = 4, 128

# A GPU takes about a millisecond for an orthonormal basis, whatever its size: so many
# multiplications' time.
BASIS_COST = {"cuda": 10**11}


class Rows(Protocol):
    """Rows (N, T, R) of outer products, stored or computed for the part asked for."""

    @property
    def shape(self) -> torch.Size:
        """(N, T, R)."""

    def __getitem__(self, index: Any) -> Tensor:
        """Give `[..., part]`, a slice or list of the R."""


class OuterProducts(NamedTuple):
    """Gradient sum_t rows_t columns_t' of every completion, a matrix (R, C) each.

    The columns of the first `shared` tokens, those of the prompt, are the same for all.
    """

    rows_NTR: Rows
    columns_NTC: Tensor
    shared: int = 0


class RowSums(NamedTuple):
    """Gradient whose row r is the sum of the columns at tokens t with index_t = r."""

    index_NT: Tensor
    columns_NTC: Tensor


class RoutedProducts(NamedTuple):
    """Gradient whose slice e is the sum of rows_s columns_s' over slots s with e_s = e.

    The parameter holds a matrix (R, C) for each expert e, (E, R, C). Of rows and columns,
    one may have an entry for each token, which stands for all its slots, S / T in order.
    """

    rows_NSR: Tensor
    columns_NSC: Tensor
    expert_NS: Tensor


class Dense(NamedTuple):
    """Gradient of every completion as it is, (N, *shape of the parameter)."""

    values: Tensor


Factor = OuterProducts | RowSums | RoutedProducts | Dense
Pair = TypeVar("Pair", OuterProducts, RowSums)


class Reduced(NamedTuple):
    """What is kept of the scores of one parameter.

    Attributes:
        gram_NN: Their Gram matrix, float64.
        products_N: Their inner products with the reference, float64.
    """

    gram_NN: Tensor
    products_N: Tensor


def _gram(left_ND: Tensor, right_ND: Tensor) -> Tensor:
    return (left_ND @ right_ND.T).double()


def slice_step(bytes_each: int) -> int:
    """How many rows of so many bytes make a slice."""
    return max(1, SLICE_BYTES // bytes_each)


@lru_cache(maxsize=2)
def _workspace(size: int, device: torch.device) -> Tensor:
    """Keep room for a slice: memory that is given back each time must be cleared anew."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def _row_slices(outer: OuterProducts, bytes_a_row: int) -> Iterator[slice]:
    rows, step = outer.rows_NTR.shape[-1], slice_step(bytes_a_row)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _reduce_formed(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    """Form the gradients a slice of their rows at a time, (N, r, C)."""
    count, _, columns = outer.columns_NTC.shape
    gram = outer.columns_NTC.new_zeros(count, count, dtype=torch.float64)
    products = gram.new_zeros(count)
    bytes_a_row = count * columns * outer.columns_NTC.element_size()
    space = _workspace(max(SLICE_BYTES, bytes_a_row), outer.columns_NTC.device)
    for part in _row_slices(outer, bytes_a_row):
        rows_NTR = _at_least_float32(outer.rows_NTR[..., part])
        shape = count, rows_NTR.shape[-1], columns
        gradients = space.view(rows_NTR.dtype)[: math.prod(shape)].view(shape)
        torch.bmm(rows_NTR.mT, outer.columns_NTC, out=gradients)
        flat = gradients.flatten(1)
        gram += _gram(flat, flat)
        products += (flat @ reference_RC[part].flatten()).double()
    return Reduced(gram, products)


def _with_later(each_NTD: Tensor, part: slice) -> Tensor:
    """<d_t, e_s>, t of some completions, s of these and of the later ones."""
    return each_NTD[part].flatten(0, 1) @ each_NTD[part.start :].flatten(0, 1).T


def _token_products(outer: OuterProducts, part: slice) -> Tensor:
    """The same of the rows, which may be computed slice by slice."""
    rows = outer.rows_NTR
    if isinstance(rows, Tensor):
        return _with_later(rows, part)
    table: Tensor | float = 0.0
    for slice_of_rows in _row_slices(outer, 4 * rows.shape[0] * rows.shape[1]):
        table = table + _with_later(_at_least_float32(rows[..., slice_of_rows]), part)
    return torch.as_tensor(table)


def _panel(count: int, tokens: int, bytes_each: int) -> int:
    """How many completions are multiplied with the later ones at a time.

    A Gram matrix is symmetric: of four panels 10 products in 16 are needed, where they are
    large enough for matrix products at full speed.
    """
    panels = PANELS if count * tokens >= PANELS * PANEL_ROWS else 1
    return min(-(-count // panels), slice_step(tokens * count * tokens * bytes_each))


def _reduce_contracted(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    columns = outer.columns_NTC
    count, tokens, _ = columns.shape
    gram = columns.new_zeros(count, count, dtype=torch.float64)
    step = _panel(count, tokens, columns.element_size())
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        table = _token_products(outer, part)
        table *= _with_later(columns, part)
        size = len(columns[part])
        found = table.view(size, tokens, count - start, tokens).sum((1, 3)).double()
        gram[part, start:], gram[start:, part] = found, found.T
    products = gram.new_zeros(count)
    for part in _row_slices(outer, count * tokens * columns.element_size()):
        pulled = _at_least_float32(outer.rows_NTR[..., part]) @ reference_RC[part]
        products += torch.einsum("ntc,ntc->n", pulled, columns).double()
    return Reduced(gram, products)


class Extent(NamedTuple):
    """The sizes of outer products: completions, tokens, rows and columns."""

    N: int
    T: int
    R: int
    C: int

    @property
    def forming(self) -> int:
        """Multiplications of forming the gradients and their Gram matrix."""
        return self.N * (self.T + self.N) * self.R * self.C

    @property
    def contracting(self) -> int:
        """Multiplications of contracting tokens with tokens."""
        return (self.N * self.T) ** 2 * (self.R + self.C + ELEMENTWISE_COST)

    @property
    def least(self) -> int:
        """Multiplications of the cheaper way."""
        return min(self.forming, self.contracting)

    def split(self, shared: int, fixed: int) -> int:
        """Multiplications after a split by the span of so many shared columns.

        Args:
            shared: Columns.
            fixed: What a basis costs whatever its size.
        """
        if not 0 < shared < min(self.T, self.C):
            return self.least + 1
        inside = self._replace(C=shared).least
        rest = self._replace(T=self.T - shared).least
        basis = shared * self.C * (2 * shared + self.N * (self.T - shared) + self.R)
        return inside + rest + basis + fixed


def _extent(outer: OuterProducts) -> Extent:
    count, tokens, columns = outer.columns_NTC.shape
    return Extent(count, tokens, outer.rows_NTR.shape[-1], columns)


def _forming_is_cheaper(outer: OuterProducts) -> bool:
    extent = _extent(outer)
    return extent.forming <= extent.contracting


def _splitting_is_cheaper(outer: OuterProducts) -> bool:
    extent = _extent(outer)
    fixed = BASIS_COST.get(outer.columns_NTC.device.type, 0)
    return extent.split(outer.shared, fixed) < extent.least


def _split(outer: OuterProducts) -> tuple[OuterProducts, OuterProducts, Tensor]:
    """Split columns by the span of the shared ones: coordinates in it, rest, basis."""
    rows, columns, shared = outer
    basis_CS, triangle_SS = torch.linalg.qr(columns[0, :shared].mT)
    own = columns[:, shared:]
    coordinates = own @ basis_CS
    rest = own - coordinates @ basis_CS.mT
    # The shared columns' own coordinates are what the decomposition gives with the basis.
    first = triangle_SS.mT.expand(len(columns), -1, -1)
    coordinates = torch.cat([first, coordinates], 1)
    return OuterProducts(rows, coordinates), OuterProducts(rows[:, shared:], rest), basis_CS


def _reduce_split(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    inside, rest, basis_CS = _split(outer)
    parts = (
        _reduce_whole(inside, reference_RC @ basis_CS),
        _reduce_whole(rest, reference_RC),
    )
    return Reduced(*(first + second for first, second in zip(*parts, strict=True)))


def _reduce_whole(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    reduce = _reduce_formed if _forming_is_cheaper(outer) else _reduce_contracted
    return reduce(outer, reference_RC)


def _reduce_outer(outer: OuterProducts, reference_RC: Tensor) -> Reduced:
    reduce = _reduce_split if _splitting_is_cheaper(outer) else _reduce_whole
    return reduce(outer, reference_RC)


def _row_sums(sums: RowSums, place_NT: Tensor, start: int, stop: int) -> Tensor:
    """Form the gradients' rows of numbers start to stop among those that occur."""
    inside = (place_NT >= start) & (place_NT < stop)
    columns = torch.where(inside[..., None], sums.columns_NTC, 0)
    where = torch.where(inside, place_NT - start, 0)[..., None].expand_as(columns)
    count, _, width = columns.shape
    return columns.new_zeros(count, stop - start, width).scatter_add_(1, where, columns)


def _reduce_rows(
    sums: RowSums, outer: OuterProducts | None, reference_RC: Tensor
) -> Reduced:
    """Reduce row sums, with the cross terms to the outer products of the same matrix.

    Only the rows that occur at all are formed, a slice of them at a time.
    """
    count, _, columns = sums.columns_NTC.shape
    gram = sums.columns_NTC.new_zeros(count, count, dtype=torch.float64)
    products = gram.new_zeros(count)
    occurring, place_NT = torch.unique(sums.index_NT, return_inverse=True)
    step = slice_step(count * columns * sums.columns_NTC.element_size())
    for start in range(0, len(occurring), step):
        rows = occurring[start : start + step]
        flat = _row_sums(sums, place_NT, start, start + len(rows)).flatten(1)
        gram += _gram(flat, flat)
        products += (flat @ reference_RC[rows].flatten()).double()
        if outer is not None:
            formed = _at_least_float32(outer.rows_NTR[..., rows]).mT @ outer.columns_NTC
            cross = _gram(flat, formed.flatten(1))
            gram += cross + cross.T
    return Reduced(gram, products)


def _slots(each_NSR: Tensor, slot_NS: Tensor) -> Tensor:
    """Pick slots from entries for each slot, or for each token."""
    own = torch.arange(len(slot_NS), device=slot_NS.device)[:, None]
    return each_NSR[own, slot_NS]


def _by_expert(routed: RoutedProducts, experts: int) -> Iterator[OuterProducts | None]:
    """Give each expert's outer products, padded with zeros; None where it has none."""
    rows, columns, expert_NS = routed
    slots = expert_NS.shape[1]
    order_NS = expert_NS.argsort(dim=1, stable=True)
    ones = torch.ones_like(expert_NS)
    sizes_NE = ones.new_zeros(len(ones), experts).scatter_add_(1, expert_NS, ones)
    starts_NE = sizes_NE.cumsum(1) - sizes_NE
    for expert, most in enumerate(sizes_NE.max(0).values.tolist()):
        if not most:
            yield None
            continue
        place = torch.arange(most, device=ones.device).expand(len(ones), -1)
        inside = place < sizes_NE[:, expert, None]
        slot = order_NS.gather(1, (place + starts_NE[:, expert, None]).clamp(max=slots - 1))
        left, right = (
            _at_least_float32(_slots(each, slot // (slots // each.shape[1])))
            for each in (rows, columns)
        )
        yield OuterProducts(torch.where(inside[..., None], left, 0), right)


def _reduce_routed(routed: RoutedProducts, reference_ERC: Tensor) -> Reduced:
    """Reduce expert by expert: what is formed is one expert's, of the tokens it had."""
    count = len(routed.expert_NS)
    gram = routed.rows_NSR.new_zeros(count, count, dtype=torch.float64)
    products = gram.new_zeros(count)
    each = _by_expert(routed, len(reference_ERC))
    for outer, reference_RC in zip(each, reference_ERC, strict=True):
        if outer is not None:
            reduced = _reduce_outer(outer, reference_RC)
            gram += reduced.gram_NN
            products += reduced.products_N
    return Reduced(gram, products)


def _join_routed(uses: Sequence[RoutedProducts]) -> RoutedProducts:
    """Join several uses of the same experts into one, along the slots."""
    if len(uses) == 1:
        return uses[0]

    def each(entries: Tensor, use: RoutedProducts) -> Tensor:
        return entries.repeat_interleave(use.expert_NS.shape[1] // entries.shape[1], 1)

    return RoutedProducts(
        torch.cat([each(use.rows_NSR, use) for use in uses], 1),
        torch.cat([each(use.columns_NSC, use) for use in uses], 1),
        torch.cat([use.expert_NS for use in uses], 1),
    )


def _reduce_dense(values_ND: Tensor, reference: Tensor) -> Reduced:
    return Reduced(_gram(values_ND, values_ND), (values_ND @ reference.flatten()).double())


def _as_dense(factor: Factor, shape: torch.Size) -> Tensor:
    """Form the gradients of a factor whole, (N, D)."""
    if isinstance(factor, Dense):
        return factor.values.reshape(len(factor.values), -1)
    if isinstance(factor, OuterProducts):
        return (factor.rows_NTR[..., :].mT @ factor.columns_NTC).flatten(1)
    if isinstance(factor, RoutedProducts):
        rows = _at_least_float32(factor.rows_NSR)
        nothing = rows.new_zeros(len(rows), *shape[1:])
        formed = [
            nothing if outer is None else outer.rows_NTR[..., :].mT @ outer.columns_NTC
            for outer in _by_expert(factor, shape[0])
        ]
        return torch.stack(formed, 1).flatten(1)
    return _row_sums(factor, factor.index_NT, 0, shape[0]).flatten(1)


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in LOW_PRECISION else tensor


def _exact(factor: Factor) -> Factor:
    """Give a factor whose products are summed in float32 or better."""
    if isinstance(factor, RowSums):
        return RowSums(factor.index_NT, _at_least_float32(factor.columns_NTC))
    if isinstance(factor, Dense):
        return Dense(_at_least_float32(factor.values))
    if isinstance(factor, RoutedProducts):
        return factor  # made exact expert by expert
    rows = factor.rows_NTR
    rows = _at_least_float32(rows) if isinstance(rows, Tensor) else rows
    return OuterProducts(rows, _at_least_float32(factor.columns_NTC), factor.shared)


def _join_uses(factors: Sequence[Pair]) -> Pair:
    """Join several uses of a matrix into one, along the tokens."""
    if len(factors) == 1:
        return factors[0]
    # The shared tokens are no longer the first ones.
    first = torch.cat([factor[0][..., :] for factor in factors], 1)
    second = torch.cat([factor[1] for factor in factors], 1)
    return type(factors[0])(first, second)


def join_completions(parts: Sequence[Factor], shape: torch.Size) -> Factor:
    """Join the factors of one use of a parameter, met in parts of the completions."""
    if len(parts) == 1:
        return parts[0]
    if len({type(part) for part in parts}) > 1:
        # What is all completions' together is a completion's own where it is alone.
        return Dense(torch.cat([_as_dense(_exact(part), shape) for part in parts]))
    joined: list[Any] = [
        torch.cat(each) if isinstance(each[0], Tensor) else each[0]
        for each in zip(*parts, strict=True)
    ]
    return type(parts[0])(*joined)


def reduce_factors(factors: Sequence[Factor], reference: Tensor) -> Reduced:
    """Reduce the scores of one parameter to their inner products.

    Args:
        factors: One for each use of the parameter in the forward pass; a completion's
            score is their sum.
        reference: The reference gradient in this parameter, of its shape.

    Returns:
        Gram matrix and products with the reference. Products of two gradients are summed
        in float32 or better, sums over slices and parameters in float64.
    """
    with _tensor_cores(factors):
        return _reduce([_exact(factor) for factor in factors], _at_least_float32(reference))


@contextmanager
def _tensor_cores(factors: Sequence[Factor]) -> Iterator[None]:
    """Multiply what came in 16 bits on a GPU's tensor cores, which read it without loss.

    TF32 has the 10 bits of float16's mantissa and more than bfloat16's, and sums in
    float32; what is formed is rounded to them, as low-precision gradients are anyway.
    """
    tensors = [part for factor in factors for part in factor if isinstance(part, Tensor)]
    low = any(tensor.is_cuda and tensor.dtype in LOW_PRECISION for tensor in tensors)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if low else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _reduce(factors: Sequence[Factor], reference: Tensor) -> Reduced:
    """Reduce factors of float32 or better."""
    if any(isinstance(factor, Dense) for factor in factors):
        whole = torch.stack([_as_dense(factor, reference.shape) for factor in factors]).sum(
            0
        )
        return _reduce_dense(whole, reference)
    outers = [factor for factor in factors if isinstance(factor, OuterProducts)]
    sums = [factor for factor in factors if isinstance(factor, RowSums)]
    outer = _join_uses(outers) if outers else None
    routed = [factor for factor in factors if isinstance(factor, RoutedProducts)]
    reduced = []
    if routed:
        reduced.append(_reduce_routed(_join_routed(routed), reference))
    if outer is not None:
        reduced.append(_reduce_outer(outer, reference))
    if sums:
        reduced.append(_reduce_rows(_join_uses(sums), outer, reference))
    return Reduced(
        gram_NN=torch.stack([part.gram_NN for part in reduced]).sum(0),
        products_N=torch.stack([part.products_N for part in reduced]).sum(0),
    )
