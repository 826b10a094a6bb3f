"""Kinds of module, to show where in the model the noise of a gradient sits."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

# The first kind one of whose words stands in the parameter's name.
KINDS: dict[str, tuple[str, ...]] = {
    "norm": ("norm", "ln_"),
    "attention": ("attn", "attention"),
    "mlp": ("mlp", "feed_forward", "ffn", "expert"),
    "embedding": ("embed", "wte", "wpe"),
    "head": ("lm_head",),
    "other": ("",),
}


def kind_of(name: str) -> str:
    """Tell the kind of module that a parameter belongs to.

    >>> kind_of("model.layers.0.self_attn.q_proj.weight")
    'attention'
    """
    return next(
        kind for kind, words in KINDS.items() if any(word in name for word in words)
    )


def sum_by_kind(
    values: Mapping[str, float] | Mapping[str, NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Sum values by parameter into the kinds.

    Args:
        values: Parameter name -> number or array, all of one shape.

    Returns:
        Array (..., M) with the kinds as last axis, in the order of `KINDS`.
    """
    arrays = {name: np.asarray(value) for name, value in values.items()}
    zero = np.zeros_like(next(iter(arrays.values())))
    sums = {kind: zero.copy() for kind in KINDS}
    for name, array in arrays.items():
        sums[kind_of(name)] = sums[kind_of(name)] + array
    return np.stack(list(sums.values()), axis=-1)
