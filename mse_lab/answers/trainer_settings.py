"""Trainers' settings: those that compute the recommended estimator, and other estimators.

The recommended one is GRPO-type: weights Z_i minus the mean of the others, scores summed
over tokens. TRL's mean-centred weights are (G-1)/G times these, and TRL divides its loss by
the longest completion allowed; both are factors, which the learning rate absorbs. The
settings hold for one update a batch, where nothing is clipped. With one completion a prompt
verl's rloo subtracts nothing; TRL refuses it. The lines to type stand in
`config/trainers.yaml`, with the versions that they are of.
"""

from collections.abc import Mapping
from typing import NamedTuple

from mse_lab.config.schema import EstimatorEntry
from mse_lab.config.trainers import TRAINERS
from mse_lab.config.training import DEFAULT, Setting
from mse_lab.estimators import find_estimator

# What TRL and verl compute by default: the group's spread divides, and the mean is over the
# tokens of the batch.
TRAINERS_DEFAULT = DEFAULT.estimator or {}

# The names of estimators that readers know, parameters aside.
DISPLAY_NAMES = {
    "grpo": "GRPO-type (RLOO)",
    "vanilla": "vanilla (no baseline)",
    "batch-mean": "batch-mean baseline",
    "grpo-std": "GRPO with std",
}


def base_name(estimator: EstimatorEntry) -> str:
    """Give an estimator's name without its parameters.

    >>> base_name("grpo-std(eps=0.0001)"), base_name({"name": "grpo-std", "eps": 1e-4})
    ('grpo-std', 'grpo-std')
    """
    whole = estimator if isinstance(estimator, str) else str(estimator["name"])
    return whole.partition("(")[0]


def refuse_without_gradient(setting: Setting) -> None:
    """Refuse an estimator that is not defined, or zero, in groups of the size in use."""
    estimator = setting.estimator and find_estimator(setting.estimator)
    if estimator and setting.group_size < estimator.smallest_group:
        raise setting.refuse(
            f"{setting.table.size} = {setting.group_size}: {estimator.name} gives no "
            f"gradient there; it takes {estimator.smallest_group} or more"
        )


def settings_for(trainer: str, estimator: str, size: int) -> str:
    """Write the settings of a trainer that compute an estimator in groups of a size."""
    return TRAINERS[trainer].lines[base_name(estimator)].format(size=size)


class Typed(NamedTuple):
    """What is typed, or why nothing is."""

    line: str | None
    why: str | None = None


def type_loss(setting: Setting, size: int) -> Typed:
    """Write the present loss in groups of another size."""
    trainer = setting.table
    if size < trainer.least:
        return Typed(None, f"{trainer.title} takes {trainer.least} or more")
    return Typed(trainer.write({trainer.size: size}))


def type_baseline(setting: Setting, alpha: float, lam: float, size: int) -> Typed:
    """Write a baseline alpha + lambda m in groups of a size; scores sum over tokens."""
    trainer = setting.table
    form = trainer.baselines.get("constant" if size == 1 else "affine")
    if form is None:
        return Typed(None, f"{trainer.title} must take advantages of your own for it")
    line = form.format(size=size, alpha=alpha, lam=lam)
    entry = setting.estimator
    if isinstance(entry, Mapping) and entry.get("length") == "sequence":
        for name, kinds in trainer.length.items():
            adds_up = next(value for value, kind in kinds.items() if kind is None)
            line += f"{trainer.writes[1]}{trainer.write({name: adds_up})}"
    return Typed(line)
