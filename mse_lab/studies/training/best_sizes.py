"""Which group sizes may be the best, and what another size loses (after Hsu 1981).

`values_SG` holds J of S independent seeds, each trained at every group size. A size is
compared with all others at once, seed by seed, by Student's t at Bonferroni's level, which
needs no correlation between the gains. No law of J is assumed, neither a peak nor its
position, so a group size between two that were trained is not judged.

The regret of a size is how much the best of the others gains over it, 0 where nothing. A
size is in the set unless it is significantly worse than another. So with probability
`level` the best is in the set, and no size loses more than the high end of its regret.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.answers.judgement import Verdict, decide
from mse_lab.arrays import Floats


class Curve(NamedTuple):
    """J of each seed at each group size, in rising order."""

    sizes: Floats
    values_SG: Floats

    @property
    def means(self) -> Floats:
        """Mean over seeds, (G,)."""
        return np.asarray(self.values_SG.mean(0))

    @property
    def best(self) -> int:
        """Group size of the largest mean."""
        return int(self.sizes[np.argmax(self.means)])

    def nearest(self, size: float) -> int:
        """Index of the group size nearest to another, as a ratio."""
        return int(np.argmin(abs(np.log(self.sizes / size))))


class Regret(NamedTuple):
    """How much the best of the others gains over a group size, 0 where nothing."""

    value: float
    low: float
    high: float

    @property
    def in_set(self) -> bool:
        """Whether the size is not significantly worse than any other."""
        return self.low == 0


def regrets(curve: Curve, level: float) -> list[Regret]:
    """Compare each group size with the best of the others; two seeds and sizes or more."""
    compared, values_SG = [], curve.values_SG
    # Where J is a share of right answers, no loss is larger than 1.
    most = 1.0 if values_SG.min() >= 0 and values_SG.max() <= 1 else math.inf
    seeds, others = len(values_SG), len(curve.sizes) - 1
    quantile = float(stats.t.isf((1 - level) / others, seeds - 1))
    for at in range(len(curve.sizes)):
        gains_SJ = np.delete(values_SG, at, axis=1) - values_SG[:, [at]]
        reach = quantile * stats.sem(gains_SJ)
        ends = ((gains_SJ.mean(0) + sign * reach).max() for sign in (0, -1, 1))
        compared.append(Regret(*(min(max(0.0, float(end)), most) for end in ends)))
    return compared


def judge_size(regret: Regret, others: list[Regret], tolerance: float) -> Verdict:
    """Judge "this group size loses at most `tolerance`, and it matters which is taken".

    It holds only where another size is shown to lose more: else any size would pass.
    """
    matters = any(other.low > tolerance for other in others)
    return decide(regret.low > tolerance, matters and regret.high <= tolerance)
