"""The observations of section 5.1 on Figure 4.

Vanilla is largest everywhere; GRPO-type is close to the oracle at G = 8 and cannot be told
from it at 32 and 64; every MSE falls with G; and every MSE falls from base to instruct to
ICL, the runs in the order given.

Runs count as independent. Runs of one seed and the same prompts share the uniforms that
draw their completions; what they have in common makes the intervals between runs wider
than they need be, not narrower, where it moves both the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mse_lab.answers.claim import Claim, Verdict, describe, for_all
from mse_lab.answers.corollary_4 import MARGIN, explain_distance, near_oracle
from mse_lab.answers.corollary_5 import explain_vanilla
from mse_lab.answers.evidence import Evidence
from mse_lab.answers.judgement import holm, judge_sign
from mse_lab.mse.intervals import Statistic

LARGEST = "Section 5.1 (vanilla largest)"
NEAR = "Section 5.1 (near the oracle at G = 8)"
SAME = "Section 5.1 (the oracle's at G = 32 and 64)"
FALLS = "Section 5.1 (falls with G)"
ORDER = "Section 5.1 (falls from run to run)"
SAYS = {
    LARGEST: "Vanilla has the largest MSE at every group size.",
    NEAR: f"At G = 8 GRPO-type is within {MARGIN:.0%} of the oracle.",
    SAME: f"At G = 32 and 64 GRPO-type is within {MARGIN:.0%} of the oracle.",
    FALLS: "Every MSE falls with the group size.",
    ORDER: "Every MSE falls from base to instruct to ICL, the runs in the order given.",
}

CLOSE = {NEAR: (8,), SAME: (32, 64)}
CURVES = ("vanilla", "grpo", "oracle")


@dataclass(frozen=True)
class _Pair:
    """Two MSEs of which one is claimed to be the smaller."""

    label: str
    size: int
    smaller: Statistic
    larger: Statistic

    @property
    def contrast(self) -> Statistic:
        """Positive where the claim is right."""
        return self.larger.exceeding(self.smaller)


@dataclass(frozen=True)
class _Order:
    """A statement that orders MSEs, at each group size by several pairs."""

    statement: str
    runs: tuple[str, ...]
    reason: str
    level: float

    def judge(self, pairs: Sequence[_Pair]) -> list[Claim]:
        """Judge all pairs as one family, then each group size, then the whole."""
        p_values = holm([pair.contrast.p_not_zero() for pair in pairs])
        rows = [
            self._judge_size(
                size,
                [
                    (pair, p)
                    for pair, p in zip(pairs, p_values, strict=True)
                    if pair.size == size
                ],
            )
            for size in dict.fromkeys(pair.size for pair in pairs)
        ]
        return [self._judge_whole(rows), *rows]

    def _judge_size(self, size: int, found: Sequence[tuple[_Pair, float]]) -> Claim:
        """Show the pair that speaks least for the statement."""
        verdicts = [judge_sign(pair.contrast, p, 1 - self.level) for pair, p in found]
        ratios = [
            (pair.smaller / pair.larger).interval(self.level, positive=True)
            for pair, _ in found
        ]
        worst = self._worst(verdicts, [ratio.value for ratio in ratios])
        listed = ", ".join(
            f"{pair.label} {describe(ratio)}"
            for (pair, _), ratio in zip(found, ratios, strict=True)
        )
        return Claim(
            self.statement,
            self.runs,
            SAYS[self.statement],
            listed,
            for_all(verdicts),
            self.reason,
            group_size=size,
            estimate=ratios[worst],
            p_value=found[worst][1],
        )

    def _worst(self, verdicts: Sequence[Verdict], ratios: Sequence[float]) -> int:
        rank = {"fails": 3, "premise fails": 2, "undecided": 1, "holds": 0}
        return max(
            range(len(ratios)),
            key=lambda one: (rank[verdicts[one]], np.nan_to_num(ratios[one])),
        )

    def _judge_whole(self, rows: Sequence[Claim]) -> Claim:
        counts = {
            verdict: sum(row.verdict == verdict for row in rows)
            for verdict in ("holds", "fails", "undecided")
        }
        told = ", ".join(
            f"{verdict} at {count}" for verdict, count in counts.items() if count
        )
        worst = max(rows, key=lambda row: float(np.nan_to_num(row.estimate.value)))
        return Claim(
            self.statement,
            self.runs,
            SAYS[self.statement],
            f"{told} of {len(rows)} group sizes; largest ratio, which should be below one, "
            f"{describe(worst.estimate)} at G = {worst.group_size}",
            for_all(row.verdict for row in rows),
            self.reason,
            estimate=worst.estimate,
            p_value=worst.p_value,
        )


def _judge_largest(evidence: Evidence) -> list[Claim]:
    reason = evidence.explain(explain_vanilla(evidence))
    order = _Order(LARGEST, (evidence.name,), reason, evidence.level)
    return order.judge(
        [
            _Pair(
                f"{name} / vanilla",
                size,
                evidence.mse(name, size),
                evidence.mse("vanilla", size),
            )
            for size in evidence.group_sizes
            for name in ("grpo", "oracle")
        ]
    )


def _judge_near(evidence: Evidence, statement: str) -> list[Claim]:
    sizes = [size for size in evidence.group_sizes if size in CLOSE[statement]]
    runs, says = (evidence.name,), SAYS[statement]
    if not sizes:
        listed = " or ".join(map(str, CLOSE[statement]))
        why = f"The run has no group size {listed}."
        return [Claim(statement, runs, says, "nothing", "undecided", why)]
    rows = near_oracle(evidence, sizes, statement, says)
    worst = max(rows, key=lambda row: float(np.nan_to_num(row.estimate.value)))
    cannot = (
        " With rewards of 0 or 1 Assumption 2 makes zeta >= T, so that at G = 8 the ratio "
        "is 1 + 1/7 = 1.14 at least: where the assumption holds, this cannot."
    )
    whole = Claim(
        statement,
        runs,
        says,
        f"at G = {worst.group_size}: {worst.measured}",
        for_all(row.verdict for row in rows),
        f"{explain_distance(evidence)}{cannot if statement == NEAR else ''}",
        estimate=worst.estimate,
        p_value=worst.p_value,
    )
    return [whole, *rows]


def _judge_falls(evidence: Evidence) -> list[Claim]:
    runs = (evidence.name,)
    if len(evidence.group_sizes) < 2:
        why = "The run has one group size."
        return [Claim(FALLS, runs, SAYS[FALLS], "nothing", "undecided", why)]
    reason = (
        "By the laws G x MSE is constant for vanilla and oracle, and falls for GRPO-type."
    )
    return _Order(FALLS, runs, evidence.explain(reason), evidence.level).judge(
        [
            _Pair(
                f"{name} G = {large} / {small}",
                large,
                evidence.mse(name, large),
                evidence.mse(name, small),
            )
            for small, large in pairwise(evidence.group_sizes)
            for name in CURVES
        ]
    )


def judge_observations(evidence: Evidence) -> list[Claim]:
    """Judge the observations that concern one run."""
    return [
        *_judge_largest(evidence),
        *_judge_near(evidence, NEAR),
        *_judge_near(evidence, SAME),
        *_judge_falls(evidence),
    ]


def _obstacle(runs: Sequence[Evidence], sizes: Sequence[int]) -> str | None:
    """Say what stands in the way of a comparison."""
    prompts = [str(run.pools.prompts) for run in runs]
    if len(set(prompts)) > 1:
        return f"The runs have {' and '.join(prompts)} prompts: their aggregates differ."
    return None if sizes else "The runs have no group size in common."


def _common_sizes(runs: Sequence[Evidence]) -> list[int]:
    shared = set.intersection(*(set(run.group_sizes) for run in runs))
    return sorted(shared)


def _describe_gradients(runs: Sequence[Evidence]) -> str:
    """Set the noise beside the gradient, for a raw MSE says little across models."""
    traces = " -> ".join(f"{run.vanilla_trace.value:.3g}" for run in runs)
    gradients = " -> ".join(f"{run.pools.aggregate_norm2:.3g}" for run in runs)
    return (
        f"G x MSE of vanilla by the moments goes {traces}; the aggregate's ||g||^2 goes "
        f"{gradients}, so raw and relative MSE need not move together."
        f"{_name_untested(runs)}"
    )


def _name_untested(runs: Sequence[Evidence]) -> str:
    names = ", ".join(run.name for run in runs if not run.has_replicates)
    return f" By the law alone, for want of replicates: {names}." if names else ""


def judge_order_of_runs(runs: Sequence[Evidence]) -> list[Claim]:
    """Judge whether every MSE falls from each run to the next; needs two runs."""
    if len(runs) < 2:
        return []
    names = tuple(run.name for run in runs)
    sizes = _common_sizes(runs)
    if why := _obstacle(runs, sizes):
        return [Claim(ORDER, names, SAYS[ORDER], "nothing", "undecided", why)]
    level = max(run.level for run in runs)
    return _Order(ORDER, names, _describe_gradients(runs), level).judge(
        _pairs_of_runs(runs, sizes)
    )


def _pairs_of_runs(runs: Sequence[Evidence], sizes: Sequence[int]) -> list[_Pair]:
    return [
        _Pair(
            f"{name} {after.name} / {before.name}",
            size,
            after.mse(name, size),
            before.mse(name, size),
        )
        for size in sizes
        for before, after in pairwise(runs)
        for name in CURVES
    ]
