"""What a trainer logs of its live model, and what its screen says."""

import math
from collections.abc import Sequence

import numpy as np

from mse_lab.answers.advice import Advice
from mse_lab.answers.advice_evidence import Evidence
from mse_lab.mse.zero_variance import fit_beta_binomial
from mse_lab.results.tables import columns_of

# By how much a forecast may exceed the completions of a prompt, as in the logs' forecast.
BEYOND = 4


def zero_variance(advice: Advice, evidence: Evidence) -> float:
    """Share of zero-variance groups; by a Beta law where groups are larger than drawn."""
    if advice.zero_variance is not None:
        return advice.zero_variance.value
    sizes_P = np.array([len(rewards) for rewards in evidence.rewards])
    size = advice.setting.group_size
    if not evidence.table.binary or size > BEYOND * sizes_P.min():
        return math.nan
    right_P = np.array([int(rewards.sum()) for rewards in evidence.rewards])
    law = fit_beta_binomial(right_P, sizes_P, np.ones(len(sizes_P)))
    return law.zero_variance(size)


def log_numbers(advice: Advice, evidence: Evidence) -> dict[str, float]:
    """Name the numbers to log; unknown ones are left out."""
    size, steps = advice.setting.group_size, advice.completions_per_step
    numbers = {
        **columns_of("best_group_size", advice.best),
        "progress": advice.progress_at(steps, size).progress.value if steps else None,
        "steps_saved": advice.steps_saved.value if advice.steps_saved else None,
        "noise_scale": advice.noise_scale.value,
        "zero_variance_groups": zero_variance(advice, evidence),
        "rho": advice.regime.rho.value,
        "value": advice.mean_reward,
    }
    return {
        f"mse/{name}": float(value)
        for name, value in numbers.items()
        if value is not None and math.isfinite(value)
    }


def log_of_rollouts(
    words: str,
    steps: Sequence[int],
    count: int | None,
    sizes: Sequence[int],
    *,
    engine: bool,
) -> str:
    """Say an advice with the steps whose rollouts it rests on, and who drew them.

    `count` is the number of rollouts, and `sizes` how many of each prompt are in a step, at
    least and at most.
    """
    first, last = steps[0], steps[-1]
    when = f"step {last}" if first == last else f"steps {first} to {last}"
    whose = "policy" if first == last else "policies"
    drawn = f"at the {whose} that drew them"
    if engine:
        drawn += ", by vLLM, whose probabilities may differ"
    each = " to ".join(map(str, dict.fromkeys(sizes)))
    return f"{when}: {words} Of {count} rollouts, {each} a prompt, {drawn}."
