"""The estimators by name, and a user's own as `package.module:function`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mse_lab.config import EstimatorEntry, InputError, nearest
from mse_lab.estimators.constant import best_constant, oracle, vanilla
from mse_lab.estimators.leave_one_out import grpo
from mse_lab.groups import Groups
from mse_lab.pools import Floats


@dataclass(frozen=True)
class Estimator:
    """An estimator as a run uses it.

    Attributes:
        name: As in the probe; heads its rows and arrays.
        weights: Groups -> weights w_i, (P, R, G).
        smallest_group: The least G it is defined for.
    """

    name: str
    weights: Callable[[Groups], Floats]
    smallest_group: int = 1


ESTIMATORS: dict[str, Estimator] = {
    estimator.name: estimator
    for estimator in (
        Estimator("vanilla", vanilla),
        Estimator("oracle", oracle),
        Estimator("best-constant", best_constant),
        Estimator("grpo", grpo, smallest_group=2),
    )
}


def find_estimator(entry: EstimatorEntry) -> Estimator:
    """Look up an entry of a probe's `estimators`.

    Raises:
        InputError: There is no such estimator, or it does not take these parameters.
    """
    name = entry if isinstance(entry, str) else entry["name"]
    if name not in ESTIMATORS:
        raise InputError(f"estimators: unknown {name}; {nearest(name, list(ESTIMATORS))}")
    if not isinstance(entry, str) and set(entry) != {"name"}:
        extra = ", ".join(sorted(set(entry) - {"name"}))
        raise InputError(f"estimators: {name} takes no parameter {extra}; remove it")
    return ESTIMATORS[name]


def find_estimators(
    entries: Sequence[EstimatorEntry], group_sizes: Sequence[int]
) -> list[Estimator]:
    """Look up all of a probe's estimators and see that its group sizes suit them.

    Raises:
        InputError: An entry is unknown or stands twice, or a group is too small for it.
    """
    found = [find_estimator(entry) for entry in entries]
    names = [estimator.name for estimator in found]
    for estimator in found:
        if names.count(estimator.name) > 1:
            raise InputError(f"estimators: {estimator.name} stands twice; name it once")
        if min(group_sizes) < estimator.smallest_group:
            raise InputError(
                f"group_sizes = {list(group_sizes)}: {estimator.name} needs groups of "
                f"{estimator.smallest_group} or more; remove {min(group_sizes)}"
            )
    return found
