"""What a trainer logs of its live model, and what its screen says."""

import math
from collections.abc import Sequence

import numpy as np

from mse_lab.answers.advice import Advice, GroupSize
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.mse.zero_variance import fit_beta_binomial
from mse_lab.results.tables import columns_of

# By how much a forecast may exceed the completions of a prompt, as in the logs' forecast.
BEYOND = 4


def zero_variance(used: GroupSize, run: SampledRun) -> float:
    """Share of zero-variance groups; by a Beta law where groups are larger than drawn."""
    if used.zero_variance is not None:
        return used.zero_variance.value
    sizes_P = np.array([len(rewards) for rewards in run.rewards])
    if not run.binary or used.group_size > BEYOND * sizes_P.min():
        return math.nan
    right_P = np.array([int(rewards.sum()) for rewards in run.rewards])
    law = fit_beta_binomial(right_P, sizes_P, np.ones(len(sizes_P)))
    return law.zero_variance(used.group_size)


def log_numbers(
    advice: Advice, run: SampledRun, size: int, step_size: int
) -> dict[str, float]:
    """Name the numbers to log; unknown ones are left out.

    `size` is G in use, `step_size` the completions of one step of the optimiser.
    """
    used = advice.row(size)
    least = min(mse.value for mse in (*advice.curves["grpo"], used.mse))
    scale = advice.noise_scale.value * used.cost.value
    numbers = {
        **columns_of("best_group_size", advice.best),
        "cost_at_G": used.mse.value / least,
        "relative_error": scale / step_size,
        "noise_scale": scale,
        "zero_variance_groups": zero_variance(used, run),
        "rho": advice.regime.rho.value,
        "value": np.mean([rewards.mean() for rewards in run.rewards]),
    }
    return {
        f"mse/{name}": float(value)
        for name, value in numbers.items()
        if value is not None and math.isfinite(value)
    }


def log_of_rollouts(
    words: str, steps: Sequence[int], count: int, sizes: Sequence[int], *, engine: bool
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
