"""Designs on which intervals and verdicts are measured: prompts like and unlike.

Real prompts differ: in how often they are answered rightly, in the size of their scores, in
how heavy the tails of those are. Each design draws the pools of a run from known laws.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from benchmarks.truths import Truth
from mse_lab.answers.claims import judge
from mse_lab.answers.evidence import theorem_2
from mse_lab.estimators import find_estimators
from mse_lab.mse.curves import Curves, measure_curves, paired_ratio
from mse_lab.mse.reference_noise import draw_reference_noise
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.results.warnings import warn_of_few_degrees
from simulated import DIMENSIONS, KINDS, Design, analysed, make_design

UNBIASED = ("vanilla", "grpo", "oracle")
BIASED = ("centred", "grpo-std", "grpo-loo-std", "maxrl", "median", "quantile")
REFERENCE = 256
LEVEL = 0.95


@dataclass(frozen=True)
class Made:
    """A design, the size of its pools, and whether it is beyond what must be covered."""

    design: Design
    blocks: int = 2
    largest: int = 64
    estimators: tuple[str, ...] = UNBIASED
    extreme: bool = False

    def draw(self, rng):
        return self.design.draw(rng, REFERENCE, self.blocks, self.largest)


def scaled(design, scale_P):
    """Multiply the scores of each prompt."""
    return replace(design, score_PCD=design.score_PCD * np.asarray(scale_P)[:, None, None])


def with_values(rng, value_P, kinds=KINDS, tails=0.0):
    """Make prompts of given values; scores' sizes are log-normal with heavy tails."""
    prompts = len(value_P)
    probability = rng.dirichlet(np.ones(kinds), size=prompts)
    right = probability.cumsum(-1) <= value_P[:, None]
    none = ~right.any(-1)
    right[none, 0] = True
    rest = probability[none, 1:] / probability[none, 1:].sum(-1, keepdims=True)
    probability[none, 1:] = rest * (1 - value_P[none, None])
    probability[none, 0] = value_P[none]
    size = np.where(right, 1.0, 2.0) * np.exp(tails * rng.standard_normal(right.shape))
    score = size[..., None] * rng.standard_normal((prompts, kinds, DIMENSIONS))
    score -= (probability[..., None] * score).sum(1, keepdims=True)
    return Design(probability, score, right.astype(float))


def _make():
    stream = np.random.default_rng
    own = make_design(stream(0))
    graded = -5 + stream(1).standard_normal(own.reward_PC.shape)
    active = own.reward_PC * (np.arange(60) < 5)[:, None]
    one = np.arange(60) == 7
    u_shaped = np.clip(stream(7).beta(0.4, 0.4, 100), 0.004, 0.996)
    gsm8k = scaled(
        with_values(stream(7), u_shaped), np.exp(0.6 * stream(8).normal(size=100))
    )
    middling, rare = stream(10).uniform(0.1, 0.9, 60), np.full(60, 0.015)
    return {
        "own": Made(own),
        "mean V 0.08": Made(with_values(stream(2), stream(2).uniform(0.02, 0.14, 60))),
        "continuous rewards of mean -5": Made(replace(own, reward_PC=graded)),
        "6 biased estimators": Made(own, estimators=("oracle", *BIASED)),
        "5 of 60 active": Made(replace(own, reward_PC=active)),
        "scales e^N": Made(scaled(own, np.exp(stream(3).normal(size=60))), blocks=4),
        "scales e^1.5N": Made(scaled(own, np.exp(1.5 * stream(4).normal(size=60))), 4),
        "one of 60 x 5": Made(scaled(own, np.where(one, 5, 1))),
        "P = 4": Made(make_design(stream(5), 4)),
        "P = 8": Made(make_design(stream(6), 8)),
        "GSM8K-like": Made(gsm8k),
        "best constant": Made(own, estimators=("oracle", "best-constant")),
        "one of 60 x 30": Made(scaled(own, np.where(one, 30, 1)), extreme=True),
        "P = 1": Made(make_design(stream(9), 1), extreme=True),
        "log-normal tails": Made(with_values(stream(10), middling, 256, 1.2), extreme=True),
        "V = 0.015, log-normal tails": Made(
            with_values(stream(11), rare, 256, 1.2), extreme=True
        ),
    }


DESIGNS = _make()


class Counts(NamedTuple):
    """How many runs' intervals covered the truth, and said that they know too little."""

    runs: int = 0
    covered: int = 0
    few: int = 0
    either: int = 0

    def add(self, covered, few):
        return Counts(
            self.runs + 1,
            self.covered + covered,
            self.few + few,
            self.either + (covered or few),
        )


def cover(made, runs, sizes=(4, 16, 64), seed=0, draws=300):
    """Count the runs whose intervals cover the exact MSE, by kind, estimator and G.

    Kinds: the measured `mse`, its `law`, and the paired `ratio` to the oracle.
    """
    rng = np.random.default_rng(seed)
    estimators = find_estimators(list(made.estimators), list(sizes))
    known = Truth(made.design)
    exact = {
        Key(one.name, size): known.decomposed(one, size)
        for one in estimators
        for size in sizes
    }
    counts = {}
    for _ in range(runs):
        pools = made.draw(rng)
        errors = measure_errors(pools, estimators, sizes)
        curves = Curves(pools, draw_reference_noise(pools, draws, rng))
        found = measure_curves(curves, estimators, errors)
        few = bool(warn_of_few_degrees(pools, found))
        for key, (measured, law) in found.items():
            base = Key("oracle", key.group_size)
            truth = float(exact[key].mse)
            intervals = {
                "mse": (measured.interval("mse", LEVEL), truth),
                "law": (law.interval("mse", LEVEL), truth),
            }
            if key != base and (
                found_ratio := paired_ratio(measured, found[base][0], LEVEL)
            ):
                intervals["ratio"] = (found_ratio, truth / float(exact[base].mse))
            for kind, (interval, target) in intervals.items():
                inside = interval.low <= target <= interval.high
                counts[kind, key] = counts.get((kind, key), Counts()).add(inside, few)
    return counts


def refuse(made, runs, seed=1):
    """Count the runs in which Theorem 2's exact law, which is true, fails at 5%."""
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(runs):
        result = analysed(made.draw(rng), (4, 16, 64), resamples=300)
        [whole, *_] = judge(theorem_2(result), (result.name,), result.level)
        refused += whole.verdict == "fails"
    return refused
