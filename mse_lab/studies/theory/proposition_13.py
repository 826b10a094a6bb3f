"""Proposition 13: standardised rewards of 0 and 1 ascend E[2 arcsin sqrt V] - kappa KL.

d 2 arcsin sqrt V = dV / sqrt(V (1-V)), which is what E[(Z - V) / sd(Z) W] is. A group's own
standard deviation gives slope(V) g, whose exact law for any G is that of `mse/laws.py`.
K3 = pi_ref/pi - log(pi_ref/pi) - 1 is differentiated in pi alone: W (1 - pi_ref/pi), whose
mean is the gradient of KL(pi_ref || pi), and not of KL(pi || pi_ref), which K3 estimates.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.estimators import find_estimator
from mse_lab.mse.laws import find_law
from mse_lab.mse.moments import Moments
from mse_lab.studies.theory.bandit import Bandit
from mse_lab.studies.theory.findings import (
    Control,
    Finding,
    distance,
    exactly,
    identity,
    near,
)

# Of a central difference, whose own error is its square or, by rounding, 1e-16 over it.
NUDGE = 1e-5

# Groups, and how near the gradient the larger ones are to come.
SIZES, NEAR = (64, 512), 0.02

# A small group, and a value at which it seldom has an answer that is right.
FEW, RARE = 8, 0.02


def slope_of(function: Callable[[Floats], Floats], theta_D: Floats) -> Floats:
    """The gradient of a function, of parameters (D, R), by central differences."""
    nudges_DD = NUDGE * np.eye(len(theta_D))
    ahead, behind = (theta_D[:, None] + sign * nudges_DD for sign in (1, -1))
    return (function(ahead) - function(behind)) / (2 * NUDGE)


def _arcsine(bandit: Bandit, theta_DR: Floats) -> Floats:
    return 2 * np.arcsin(np.sqrt(bandit.at(theta_DR).value_P)).mean(0)


def _divergence(
    bandit: Bandit, fixed: Floats, theta_DR: Floats, *, forward: bool
) -> Floats:
    """KL(pi_ref || pi) where `forward`, else KL(pi || pi_ref); mean over prompts."""
    policy = bandit.at(theta_DR).probabilities_PK
    logs = np.log(policy / fixed[..., None])
    weights = fixed[..., None] if forward else -policy
    return -(weights * logs).sum(1).mean(0)


def _judge_groups(bandit: Bandit, theta_D: Floats, slope_D: Floats) -> Finding:
    """Judge the mean of groups of G with their own standard deviation."""
    point, errors = bandit.at(theta_D), []
    for size in SIZES:
        law = find_law(find_estimator("grpo-loo-std"), size, binary=True)
        assert law is not None  # Its weights depend on the group's rewards alone.
        mean_D = (law(point.moments).slope[:, None] * point.gradients_PD).mean(0)
        errors.append(distance(mean_D, slope_D))
    products = [f"{size * error:.2g}" for size, error in zip(SIZES, errors, strict=True)]
    return Finding(
        "Proposition 13, groups of 512",
        "mean of leave-one-out over the group's sd, exact, off the gradient of "
        f"E[2 arcsin sqrt V] by; times G: {' and '.join(products)} at G = 64 and 512",
        exactly(errors[-1]),
        0.0,
        near(exactly(errors[-1]), 0.0, NEAR),
        Control(f"groups of 64, off by {errors[0]:.2g}", errors[0] > 4 * errors[-1]),
    )


def _judge_rare() -> Finding:
    """Judge a small group where right answers are rare, over sd(Z) of the prompt itself.

    The law of the mean takes the gradient times a slope; the norms cancel.
    """
    law = find_law(find_estimator("grpo-loo-std"), FEW, binary=True)
    assert law is not None  # As above.
    unit, value, none = np.ones(1), np.array([RARE]), np.zeros(1)
    moments = Moments(unit, value, value, value, value * (1 - value), none)
    slope = float(law(moments).slope[0] * np.sqrt(RARE * (1 - RARE)))
    return Finding(
        f"Proposition 13, groups of {FEW}, V = {RARE:g}",
        "slope of the mean of leave-one-out over the group's sd, exact, over 1/sd(Z)",
        exactly(slope),
        1.0,
        near(exactly(slope), 1.0),
    )


def _judge_pull(bandit: Bandit, theta_D: Floats) -> Finding:
    """Judge the mean gradient of K3, the reference being the policy at the maximum."""
    point, reference = bandit.at(theta_D), bandit.at(bandit.maximum_D).probabilities_PK
    apart_PK = (point.probabilities_PK - reference)[..., None]
    pulled_D = (apart_PK * point.scores_PKD).sum(1).mean(0)
    forward, reverse = (
        slope_of(partial(_divergence, bandit, reference, forward=way), theta_D)
        for way in (True, False)
    )
    other = distance(pulled_D, reverse)
    return identity(
        "Proposition 13, K3: KL(ref || pi)",
        "E[W (1 - pi_ref/pi)] off the differences of KL(ref || pi) by",
        distance(pulled_D, forward),
        Control(f"KL(pi || ref), off by {other:.2g}", other > 0.1),
    )


def judge_proposition_13(bandit: Bandit, theta_D: Floats) -> list[Finding]:
    """Enumerate the mean of both parts at parameters away from the maximum."""
    point = bandit.at(theta_D)
    ascended_D = (point.gradients_PD / np.sqrt(point.moments.variance)[:, None]).mean(0)
    slope_D = slope_of(partial(_arcsine, bandit), theta_D)
    wrong = distance(ascended_D, slope_of(bandit.value, theta_D))
    return [
        identity(
            "Proposition 13, objective",
            "E[(Z - V)/sd W] off the differences of E[2 arcsin sqrt V] by",
            distance(ascended_D, slope_D),
            Control(f"differences of J, off by {wrong:.2g}", wrong > 0.1),
        ),
        _judge_groups(bandit, theta_D, slope_D),
        _judge_rare(),
        _judge_pull(bandit, theta_D),
    ]
