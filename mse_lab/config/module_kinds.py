"""Kinds of modules: the parts of a model that `pools.npz` has score norms of."""

from collections.abc import Mapping

import numpy as np

from mse_lab.arrays import Floats

# Kind -> words; the first kind with a word in the parameter's name counts.
KINDS: dict[str, tuple[str, ...]] = {
    "norm": ("norm", "ln_"),
    "attention": ("attn", "attention"),
    "mlp": ("mlp", "feed_forward", "ffn", "expert"),
    "embedding": ("embed", "wte", "wpe"),
    "head": ("lm_head",),
    "other": ("",),
}


def kind_of(name: str) -> str:
    """Return the kind of module that a parameter belongs to.

    >>> kind_of("model.layers.0.self_attn.q_proj.weight")
    'attention'
    """
    return next(
        kind for kind, words in KINDS.items() if any(word in name for word in words)
    )


def sum_by_kind(values: Mapping[str, float] | Mapping[str, Floats]) -> Floats:
    """Sum the values of parameters by kind of module: (..., M) in the order of `KINDS`."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    sums = dict.fromkeys(KINDS, np.zeros_like(next(iter(arrays.values()))))
    for name, array in arrays.items():
        sums[kind_of(name)] = sums[kind_of(name)] + array
    return np.stack(list(sums.values()), axis=-1)
