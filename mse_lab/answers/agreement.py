"""Agreement: does a measured number equal its law?

A test that finds no difference is no proof, so agreement `holds` only where the interval
of measured / law also lies within a stated distance of one.
"""

from mse_lab.answers.claim import Verdict
from mse_lab.answers.evidence import Evidence
from mse_lab.mse.intervals import Estimate, Statistic

# Half of a number missing, or half as much again, would have been seen.
RESOLUTION = 0.5


def judge_agreement(
    ratio: Estimate, p_value: float, alpha: float, resolution: float = RESOLUTION
) -> Verdict:
    """Judge measured / law by its interval and the corrected p-value of the difference."""
    if p_value < alpha:
        return "fails"
    narrow = ratio.low > 1 - resolution and ratio.high < 1 + resolution
    return "holds" if narrow else "undecided"


def ratio_to_law(evidence: Evidence, measured: Statistic, law: Statistic) -> Estimate:
    """Estimate measured / law, paired."""
    return (measured / law).interval(evidence.level, positive=True)


def p_unequal(measured: Statistic, law: Statistic) -> float:
    """Test whether a measured number and its law differ, paired; two-sided."""
    return measured.exceeding(law).p_refuted()


def explain(verdict: Verdict, resolution: float = RESOLUTION) -> str:
    """Say what a verdict on agreement rests on."""
    return {
        "holds": "The exact law at the pool's moments lies inside the interval.",
        "fails": "The exact law at the pool's moments lies outside the interval.",
        "premise fails": "",
        "undecided": f"The interval reaches more than {resolution:.0%} from the law.",
    }[verdict]
