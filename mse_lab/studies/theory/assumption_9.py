"""Assumption 9: <grad J, theta* - theta> >= mu ||theta* - theta||^2 with one mu > 0.

theta* is the nearest maximum, so only the directions in which J curves count. On `opposed`
prompts J is a sum over them, and the ratio of the two sides a weighted mean over them: the
least ratio of a box lies on an axis. Near the maximum it is the curvature; far out it falls
off exponentially, and a box is what Assumption 6 asks for.
"""

import math

import numpy as np

from mse_lab.answers.judgement import decide
from mse_lab.studies.theory.findings import ROUNDING, Control, Finding, exactly
from mse_lab.studies.theory.lemma_6 import EVERYWHERE, GRID
from mse_lab.studies.theory.limit import Limit

# Half-width of the box, and what share of the curvature is none.
BOX, NONE = 2.0, 1e-3


def least_pull(limit: Limit, half_width: float) -> float:
    """The least <grad J, theta* - theta> / d^2 in a box, over the least curvature."""
    along_R = half_width * np.linspace(-1, 1, GRID)
    pulls = []
    for axis_D in limit.directions_DK.T:
        point = limit.bandit.at(limit.bandit.maximum_D[:, None] + axis_D[:, None] * along_R)
        pulls.append((-(axis_D @ point.gradients_PD.mean(0)) / along_R).min())
    return float(min(pulls) / limit.curvatures_K[0])


def judge_assumption_9(limit: Limit) -> Finding:
    """Judge it in a box; the control is where it fails, far out."""
    least, far = (least_pull(limit, width) for width in (BOX, EVERYWHERE))
    return Finding(
        f"Assumption 9, box of half-width {BOX:g}",
        "least <grad J, theta* - theta> / d^2, over the least curvature at theta*; mu > 0",
        exactly(least),
        math.nan,
        decide(fails=least < ROUNDING, holds=least > NONE),
        Control(f"box of half-width {EVERYWHERE:g}, {far:.1g}", far < NONE),
    )
