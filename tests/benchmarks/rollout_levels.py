"""How often the intervals of `mse-lab rollouts` hold the truth: simulated logs.

    python tests/benchmarks/rollout_levels.py [LOGS]

Prompts are drawn from a population of 20,000 with known values, each comes in some groups
of 8 at steps whose values drift where the design says so, and the summary's 95% intervals
are compared with the population's numbers.
"""

import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.trainer_logs.collect import Columns
from mse_lab.trainer_logs.forms import GENERAL
from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import Log, Source
from mse_lab.trainer_logs.summary import Summary

SIZE, POPULATION = 8, 20_000
LIMIT = 24  # Tokens of a completion.


class Design(NamedTuple):
    """A population's values, and how a log is drawn from it."""

    values: Callable[[np.random.Generator], Floats]
    prompts: int
    groups: int = 1
    drift: float = 0.0


def _beta(a: float, b: float) -> Callable[[np.random.Generator], Floats]:
    return lambda rng: rng.beta(a, b, size=POPULATION)


def _rare(rng: np.random.Generator) -> Floats:
    """Nine in ten prompts never right."""
    return np.where(rng.random(POPULATION) < 0.9, 0.0, rng.random(POPULATION))


DESIGNS = {
    "U-shaped V, 12 prompts": Design(_beta(0.3, 0.3), 12),
    "U-shaped V, 60 prompts": Design(_beta(0.3, 0.3), 60),
    "U-shaped V, 1,000 prompts": Design(_beta(0.3, 0.3), 1000),
    "U-shaped V, 60 prompts, 4 groups each": Design(_beta(0.3, 0.3), 60, 4),
    "V 0.2 to 0.8, 60 prompts": Design(lambda rng: rng.uniform(0.2, 0.8, POPULATION), 60),
    "V near 0, 24 prompts": Design(_beta(0.5, 10.0), 24),
    "V near 0, 60 prompts": Design(_beta(0.5, 10.0), 60),
    "nine in ten never right, 24 prompts": Design(_rare, 24),
    "nine in ten never right, 60 prompts": Design(_rare, 60),
    "drift of 0.2, 60 prompts, 4 groups each": Design(_beta(2.0, 2.0), 60, 4, 0.2),
}


def _at(values: Floats, design: Design, step: int) -> Floats:
    share = step / max(design.groups - 1, 1)
    return np.clip(values + design.drift * (share - 0.5), 0, 1)


def _draw(values_P: Floats, design: Design, rng: np.random.Generator) -> Summary:
    shape = (design.groups, len(values_P), SIZE)
    reward = np.empty(shape)
    for step in range(design.groups):
        reward[step] = rng.random(shape[1:]) < _at(values_P, design, step)[:, None]
    step_N, prompt_N, _ = (index.ravel() for index in np.indices(shape))
    unknown_N, none_N = np.full(reward.size, -1), np.full(reward.size, np.nan)
    # Right completions are shorter, those of easy prompts too; they have fewer texts.
    right_N = reward.ravel().astype(int)
    length_N = 1 + rng.poisson(20 - 5 * right_N - 10 * values_P[prompt_N])
    content_N = 1 + right_N + 2 * rng.integers(0, 12 - 8 * right_N)
    columns = Columns(
        prompts=[str(prompt) for prompt in range(len(values_P))],
        named=True,
        whole=frozenset(),
        prompt_N=prompt_N,
        group_N=step_N * len(values_P) + prompt_N,
        step_N=step_N,
        rewards={"reward": reward.ravel()},
        content_N=content_N,
        length_N=np.minimum(length_N, LIMIT),
        characters_N=unknown_N,
        truncated_N=(length_N > LIMIT).astype(int),
        last_token_N=unknown_N,
        advantage_N=none_N,
        tokens_N=0 * unknown_N,
        log_ratio_N=none_N,
        kl_N=none_N,
    )
    log = Log(Source("log", GENERAL), columns)
    return Summary(log, make_groups(log))


def _others(summary: Summary) -> Mapping[str, Estimate]:
    """The other shares, and means over some completions."""
    groups, cut_N = summary.groups, summary.truncated_N
    assert summary.lengths is not None
    assert cut_N is not None
    lengths_N = summary.lengths[1]
    return {
        "all right": summary.all_right,
        "never right": summary.never_right,
        "always right": summary.always_right,
        "cut": summary.truncated or UNKNOWN,
        "copies": summary.duplicates or UNKNOWN,
        "length where right": summary.mean_where(lengths_N, groups.right_N),
        "length where wrong": summary.mean_where(lengths_N, groups.wrong_N),
        "reward where cut": summary.mean_reward_where(cut_N),
    }


def _truths(values: Floats, design: Design) -> Mapping[str, float]:
    """The population's numbers, averaged over the steps."""
    steps = [_at(values, design, step) for step in range(design.groups)]

    def share(size: int) -> float:
        return float(np.mean([one**size + (1 - one) ** size for one in steps]))

    every = np.concatenate(steps)
    whole = _others(_draw(values, design, np.random.default_rng(1)))
    return {
        "mean reward": float(every.mean()),
        "zero variance, G = 8": share(8),
        "all wrong": float(np.mean((1 - every) ** 8)),
        "forecast, G = 2": share(2),
        "forecast, G = 4": share(4),
        "model, G = 16": share(16),
        "model, G = 32": share(32),
        "sd of values": float(every.std()),
        "drift": float(steps[-1].mean() - steps[0].mean()) if design.groups > 3 else np.nan,
        **{name: estimate.value for name, estimate in whole.items()},
    }


def _intervals(summary: Summary) -> Mapping[str, Estimate]:
    at = {one.group_size: one.zero_variance for one in summary.forecasts}
    return {
        "mean reward": summary.mean_reward,
        "zero variance, G = 8": summary.zero_variance,
        "all wrong": summary.all_wrong,
        "forecast, G = 2": at[2],
        "forecast, G = 4": at[4],
        "model, G = 16": at.get(16, Estimate(np.nan, np.nan, np.nan)),
        "model, G = 32": at.get(32, Estimate(np.nan, np.nan, np.nan)),
        "sd of values": summary.spread.between,
        "drift": summary.drift,
        **_others(summary),
    }


def covered(design: Design, logs: int, seed: int = 0) -> dict[str, float]:
    """Share of simulated logs, in percent, whose interval holds the truth."""
    rng = np.random.default_rng(seed)
    values = design.values(rng)
    truths = _truths(values, design)
    held: dict[str, list[bool]] = {name: [] for name in truths}
    for _ in range(logs):
        drawn = rng.choice(values, size=design.prompts)
        for name, (_, low, high) in _intervals(_draw(drawn, design, rng)).items():
            if np.isfinite(low) and np.isfinite(truths[name]):
                held[name].append(low - 1e-12 <= truths[name] <= high + 1e-12)
    return {name: 100 * float(np.mean(each)) for name, each in held.items() if each}


def main(logs: int) -> None:
    """Print the table."""
    names = list(_truths(np.full(100, 0.5), Design(_beta(1, 1), 1)))
    print(f"| {logs} logs each | {' | '.join(names)} |")
    print(f"|---|{'--:|' * len(names)}")
    for label, design in DESIGNS.items():
        shares = covered(design, logs)
        cells = [f"{shares[name]:.1f}" if name in shares else "" for name in names]
        print(f"| {label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
