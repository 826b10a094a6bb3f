"""Theorem 12: after m minibatches of one rollout token ratios are biased by O(m eta).

A token's ratio knows neither how likely its prefix has become nor what follows it now. To
first order in eta

    bias = O(||theta_m - theta_0||),
    E||theta_m - theta_0||^2 = eta^2 (m^2 ||g||^2 + m tr Cov g_hat),

so the squared bias grows like eta^2, but like m^2 only from m = tr Cov g_hat / ||g||^2 on;
below that like m. The ratio of the whole completion, prod_t mu_t, has no bias.

PPO's objective min(mu A, clip(mu, 1 - c, 1 + c) A) has no gradient in a token with mu above
1 + c where A > 0, or below 1 - c where A < 0. So of a token that right and wrong
completions share it keeps the part that points back.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from mse_lab.answers.judgement import Verdict
from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.probe.streams import stream
from mse_lab.studies.theory.effort import Effort
from mse_lab.studies.theory.findings import (
    SHARE,
    Control,
    Finding,
    around,
    at_most,
    distance,
    error_of,
    exactly,
    identity,
    near,
)
from mse_lab.studies.theory.rollout import CLIP, Rollout
from mse_lab.studies.theory.sequences import Sequences, Written

# Sizes of a minibatch, of which the first has its mean decide and the other its noise;
# minibatches m of a rollout; step sizes, of which the last is that of the powers of m.
MANY, FEW, MINIBATCHES, ETAS = 8192, 4, 16, (0.0025, 0.005, 0.01)

# Runs at most; a step of PPO's path without noise, and how many it has.
RUNS, STRIDE, LENGTH = 400, 0.1, 40


def fit_power(levels_T: Floats, values_TR: Floats) -> Estimate:
    """Fit the power of a level by which the mean over runs grows: least squares in logs.

    The error is that of the delta method, in runs; a run's values at different levels may
    depend on one another.
    """
    logs_T = np.log(levels_T) - np.log(levels_T).mean()
    slopes_T, means_T = logs_T / (logs_T**2).sum(), values_TR.mean(1)
    parts_R = slopes_T @ (values_TR / means_T[:, None])
    return around(slopes_T @ np.log(means_T), error_of(parts_R))


def _squares(
    rollout: Rollout, path_TDR: Floats, bias: Callable[[Rollout, Written], Floats]
) -> Floats:
    """Squared bias along a path, (T, R)."""
    points = map(rollout.policy.at, path_TDR)
    return np.array([(bias(rollout, point) ** 2).sum(0) for point in points])


def _judge_power(
    name: str, what: str, levels_T: Floats, values_TR: Floats, *, bound: bool = False
) -> Finding:
    """Judge a power, which is to be 2 or, as a bound, at most 2."""
    power = fit_power(levels_T, values_TR)
    halved = Estimate(*(end / 2 for end in power))
    verdict: Verdict = at_most(power, 2 + SHARE) if bound else near(power, 2.0)
    return Finding(
        f"Theorem 12, {name}",
        f"power of {what} by which E||bias||^2 grows{', a bound' * bound}",
        power,
        2.0,
        verdict,
        None if bound else Control("the bias itself", near(halved, 2.0) == "fails"),
    )


def _train(rollout: Rollout, effort: Effort) -> dict[tuple[int, float], Floats]:
    """Train runs at each G and eta; the path of each."""
    paths = {}
    for size, eta in [*((MANY, eta) for eta in ETAS), (FEW, ETAS[-1])]:
        draws = stream(effort.seed, "theory", "rollout", str(size), str(eta))
        runs = min(RUNS, effort.runs)
        paths[size, eta] = rollout.train(size, eta, MINIBATCHES, runs, draws)
    return paths


def _judge_rates(rollout: Rollout, effort: Effort) -> tuple[list[Finding], pd.DataFrame]:
    """Judge the powers of eta and of m."""
    paths, counts = _train(rollout, effort), np.arange(1.0, MINIBATCHES + 1)
    squares = {key: _squares(rollout, one, Rollout.bias) for key, one in paths.items()}
    ends = np.array([squares[MANY, eta][-1] for eta in ETAS])
    last = np.array([paths[MANY, eta][-1] for eta in ETAS])
    of_all = _squares(rollout, last, Rollout.bias_of_all)
    etas, after = np.array(ETAS), f"eta, m = {MINIBATCHES}, G = {MANY:,},"
    findings = [
        _judge_power("eta", after, etas, ends),
        _judge_power("eta, sd and K3", after, etas, of_all),
        _judge_power(f"m, G = {MANY:,}", "m", counts, squares[MANY, ETAS[-1]]),
        _judge_power(f"m, G = {FEW}", "m", counts, squares[FEW, ETAS[-1]], bound=True),
    ]
    rows = [
        (*key, m, values_R.mean(), error_of(values_R))
        for key, values_TR in squares.items()
        for m, values_R in zip(counts.astype(int), values_TR, strict=True)
    ]
    columns = ["group_size", "eta", "minibatches", "bias2", "error"]
    return findings, pd.DataFrame(rows, columns=columns)


def _judge_sequences(rollout: Rollout) -> Finding:
    """Judge the ratio of the whole completion at parameters that are not near."""
    now = rollout.reference
    tokens = distance(rollout.by_token(now), now.gradient_DR)
    return identity(
        "Theorem 12, ratio of the completion",
        "E_0[Z W prod_t mu_t] off g by",
        distance(rollout.by_sequence(now), now.gradient_DR),
        Control(f"token ratios, off by {tokens:.2g}", tokens > 0.1),
    )


def clip_path(rollout: Rollout) -> pd.DataFrame:
    """Follow PPO's mean gradient; tabulate each step's bias with the clip and without."""
    theta_DR, rows = rollout.policy.start_DR, []
    for step in range(LENGTH + 1):
        now = rollout.policy.at(theta_DR)
        true, (moved, share) = now.gradient_DR, rollout.clipped(now)
        cosine = float((moved * true).sum() / np.sqrt((moved**2).sum() * (true**2).sum()))
        means = moved, rollout.by_token(now)
        biases = [float(((mean - true) ** 2).sum()) for mean in means]
        rows.append((step, float(now.value_R[0]), share, cosine, *biases))
        theta_DR = theta_DR + STRIDE * moved
    columns = ["step", "value", "clipped", "cosine", "bias2", "bias2_without"]
    return pd.DataFrame(rows, columns=columns)


def _judge_clip(path: pd.DataFrame) -> Finding:
    """Judge what the clip adds where it binds first; before that it adds nothing."""
    first = path[path["clipped"] > 0].iloc[0]
    ratio = exactly(first["bias2"] / first["bias2_without"])
    return Finding(
        f"Theorem 12, where a clip of {CLIP:g} binds",
        "||bias||^2 over that without the clip at the first step at which it binds, "
        f"{first['clipped']:.1%} of tokens; cosine of the mean to g {first['cosine']:.2f}",
        ratio,
        1.0,
        near(ratio, 1.0),
    )


def judge_theorem_12(
    policy: Sequences, effort: Effort
) -> tuple[list[Finding], dict[str, pd.DataFrame]]:
    """Judge rates, the ratio of a completion, and the clip; give both curves."""
    rollout = Rollout(policy)
    findings, rates = _judge_rates(rollout, effort)
    path = clip_path(rollout)
    findings += [_judge_sequences(rollout), _judge_clip(path)]
    return findings, {"theorem_12": rates, "clip": path}
