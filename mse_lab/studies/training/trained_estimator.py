"""Which estimators a training can have the weights of."""

from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.studies.training.settings import Training


def trained_estimator(training: Training) -> Estimator:
    """Look up the estimator of an arm, and see that it suits its group sizes.

    Raises:
        InputError: It does not, or it looks at what no training knows.
    """
    sizes = training.group_sizes
    fewest = training.budget // max(sizes)
    [found] = find_estimators([training.estimator], sorted(sizes), fewest)
    if found.knows_value or found.learns_baseline:
        raise InputError(
            f"estimator: {found.name} looks at what no training knows; use "
            "best-constant-loo, or grpo"
        )
    return found
