"""Libraries that give every completion's own gradient: stored, then multiplied.

Each module holds

    gram(work) -> (gram_NN, products_N)
    why_not() -> what keeps it from being used here, or None
    PARAMETERS, patterns of the parameters that it covers, or None where it covers all
    TOLERANCE, the relative rounding error of its products, where it is larger than others'
"""

from benchmarks.per_sample import by_bergson, by_opacus, by_vmap

LIBRARIES = {"torch.func": by_vmap, "Opacus": by_opacus, "bergson": by_bergson}
