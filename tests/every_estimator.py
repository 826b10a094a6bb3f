"""Every estimator, those that need parameters with some."""

from mse_lab.estimators import ESTIMATORS, find_estimator

NEEDS_PARAMETERS = ("affine", "constant")
BY_NORM = {"name": "norm-weighted", "weight": "logits"}
_ENTRIES = [
    *(name for name in ESTIMATORS if name not in NEEDS_PARAMETERS),
    {"name": "affine", "alpha": 0.2, "lambda": 0.4},
    {"name": "constant", "alpha": 0.3},
    BY_NORM,
    BY_NORM | {"over": "batch"},
    BY_NORM | {"over": "batch", "weight": "score"},
]
# By their names with parameters: as in a probe, and as they are used.
ENTRIES = {find_estimator(entry).name: entry for entry in _ENTRIES}
EVERY = {name: find_estimator(entry) for name, entry in ENTRIES.items()}
