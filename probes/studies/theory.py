"""What arXiv 2603.01162 says about training, tested where all is exact: on bandits.

    python -m probes.studies.theory [--out DIR]

The bandits are those of `bandits.py`, of which all can be listed. Training is Algorithm 1,
theta <- theta + eta_i g_hat, with the weights of the package's own estimators and eta_i =
beta / (i + i0). Delta is the maximum of J less J, -Hess J = Q diag(lambda) Q' with
lambda > 0, and Gamma = Q' Cov Q.
Theorem 8, whose text lacks beta^2, says

    n Delta_n -> sum_k w_k chi2_1,    w the eigenvalues of (1/2) L Sigma L,
    Sigma_kl = beta^2 Gamma_kl / (beta (lambda_k + lambda_l) - 1),   L = diag(sqrt lambda).

Each finding has a number, its 99% interval (without width where it is listed), what is
predicted, and a verdict: `holds` if the interval lies within a margin of the prediction,
`fails` if all of it lies outside, else `undecided`. A `control` is known to be false: the
exit status is 1 where one holds.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.results.files import write_file
from probes.studies.bandits import (
    Bandit,
    Point,
    Rule,
    crossed,
    estimate,
    find_maximum,
    list_point,
    opposed,
    surrounded,
    weights_of,
    worded,
)

LEVEL = 0.99
REACH = float(stats.norm.ppf((1 + LEVEL) / 2))  # Standard errors of such an interval.
ROUNDING, SHARE, APART = 1e-8, 0.1, 0.06  # Margins: of identities, limits, distributions.
DELAY = 200  # i0, which keeps the first steps short.
RUNS, STEPS = 3000, 1000  # Independent runs of a rule, and the steps of each.
OFFSET = 0.1  # Where runs begin: in every parameter so far from the maximum.
BUDGET, SIZES = 12, (2, 3, 4, 6, 12)  # N, and the G of which one is best.
RIGHT = (0.79, 0.70, 0.65)  # How often prompts are right at the maximum.

Steps = Callable[[int], float]


def ascend(start: Point, rule: Rule, steps: Steps, kept: Sequence[int]) -> Floats:
    """Give where runs are after each number of steps that is kept, (T, D, R)."""
    draws = np.random.default_rng([rule.batch, rule.size, *rule.estimator.encode()])
    theta_DR, path = np.repeat(start.theta_D[:, None] + OFFSET, RUNS, axis=1), []
    for i in range(max(kept) + 1):
        if i:
            theta_DR = theta_DR + steps(i) * estimate(start.bandit, rule, theta_DR, draws)
        if i in kept:
            path.append(theta_DR)
    return np.array(path)


class Limit:
    """The limit law of n Delta at a bandit's maximum, for beta = 2 / the least lambda."""

    def __init__(self, bandit: Bandit) -> None:
        self.peak = find_maximum(bandit)
        values, vectors = np.linalg.eigh(-self.peak.hessian_DD)
        curved = values > 1e-9 * values.max()
        self.lambda_K, self.turned_DK = values[curved], vectors[:, curved]
        self.beta = 2 / float(self.lambda_K[0])

    def steps(self, i: int) -> float:
        """The step beta / (i + i0)."""
        return self.beta / (i + DELAY)

    def gaps(self, theta_DR: Floats) -> Floats:
        """Delta of R runs."""
        return self.peak.values_P.mean() - self.peak.bandit.value(theta_DR)

    def scaled_gaps(self, rule: Rule) -> Floats:
        """(n + i0) Delta_n of independent runs."""
        [theta_DR] = ascend(self.peak, rule, self.steps, [STEPS])
        return (STEPS + DELAY) * self.gaps(theta_DR)

    def law(self, covariance_DD: Floats) -> Floats:
        """(1/2) L Sigma L of a covariance."""
        gamma_KK = self.turned_DK.T @ covariance_DD @ self.turned_DK
        sums_KK = self.lambda_K[:, None] + self.lambda_K
        roots_KK = np.sqrt(self.lambda_K[:, None] * self.lambda_K)
        return self.beta**2 * gamma_KK / (self.beta * sums_KK - 1) * roots_KK / 2

    def weights(self, rule: Rule) -> Floats:
        """w, ascending."""
        return np.asarray(np.linalg.eigvalsh(self.law(self.peak.covariance(rule))))

    @property
    def constants(self) -> Floats:
        """c1, c2, c3 of E N n Delta = c1 G + c2 + c3/(G-1), N completions a step."""
        return np.array([np.trace(self.law(part)) for part in self.peak.noise("grpo")])


def best_size(constants: Sequence[float] | Floats) -> float:
    """1 + sqrt(c3/c1)."""
    return float(1 + np.sqrt(constants[2] / constants[0]))


def mixture_cdf(points: Floats, weights_K: Floats) -> Floats:
    """P(sum_k w_k chi2_1 <= q) for each point q, exactly (Ruben 1962).

    With b the least of K weights it is sum_j a_j P(chi2_{K+2j} <= q/b); all a_j are
    positive and add up to one.

    >>> round(float(mixture_cdf(np.array([4 * np.log(2)]), np.array([2.0, 2.0]))[0]), 12)
    0.5
    """
    rest_K = 1 - weights_K.min() / weights_K
    shares, powers = [float(np.sqrt(1 - rest_K).prod())], list[float]()
    while 1 - sum(shares) > 1e-10:
        powers.append(float((rest_K ** (len(powers) + 1)).sum()))
        shares.append(float(np.dot(shares, powers[::-1])) / (2 * len(powers)))
    degrees = len(weights_K) + 2 * np.arange(len(shares))
    return stats.chi2.cdf(points[:, None] / weights_K.min(), degrees) @ np.array(shares)


class Finding(NamedTuple):
    """One row of `findings.csv`."""

    statement: str
    quantity: str
    measured: float
    low: float
    high: float
    predicted: float
    verdict: str


def judge(
    statement: str,
    quantity: str,
    measured: float,
    predicted: float,
    error: float = 0.0,
    margin: float = SHARE,
) -> Finding:
    """Judge whether a number, with its standard error, is within a margin of another."""
    low, high = float(measured - REACH * error), float(measured + REACH * error)
    verdict = "undecided"
    if high < predicted - margin or low > predicted + margin:
        verdict = "fails"
    elif predicted - margin <= low and high <= predicted + margin:
        verdict = "holds"
    return Finding(statement, quantity, float(measured), low, high, predicted, verdict)


def judge_law(statement: str, scaled_R: Floats, weights_K: Floats) -> Finding:
    """Judge a distribution by its largest distance from the mixture of chi-squares.

    The distance that R runs have is off their true one by at most
    sqrt(log(2 / (1 - level)) / (2 R)) (Dvoretzky, Kiefer, Wolfowitz, Massart).
    """
    test = stats.kstest(scaled_R, lambda points: mixture_cdf(points, weights_K))
    reach = np.sqrt(np.log(2 / (1 - LEVEL)) / (2 * len(scaled_R)))
    quantity = f"Kolmogorov-Smirnov distance of {len(scaled_R):,} runs"
    return judge(statement, quantity, test.statistic, 0.0, reach / REACH, APART)


class Box(NamedTuple):
    """L of J everywhere, and mu and M where no run leaves a box about the maximum."""

    smooth: float
    pull: float
    noise: float

    def bounds(self, steps: Steps, first: float, count: int) -> Floats:
        """E Delta_i <= (1 - 2 mu eta + L mu eta^2) E Delta_{i-1} + L eta^2 M / 2, (T,)."""
        gaps = [first]
        for eta in map(steps, range(1, count + 1)):
            kept = 1 - 2 * self.pull * eta + self.smooth * self.pull * eta**2
            gaps.append(kept * gaps[-1] + self.smooth * eta**2 * self.noise / 2)
        return np.array(gaps)


def find_box(limit: Limit, rule: Rule, reach: float) -> Box:
    """Search the only curved direction, by a grid without the maximum, where mu is 0/0."""
    axis_D, grid = limit.turned_DK[:, 0], np.linspace(-1, 1, 400)
    middle_D, bandit = limit.peak.theta_D, limit.peak.bandit
    far, near = (
        [list_point(bandit, middle_D + width * share * axis_D) for share in grid]
        for width in (12.0, reach)
    )
    slopes = np.array([axis_D @ point.gradients_PD.mean(0) for point in near])
    gaps = limit.peak.values_P.mean() - np.array([point.values_P.mean() for point in near])
    smooth = max(abs(axis_D @ point.hessian_DD @ axis_D) for point in far)
    noise = max(np.trace(point.covariance(rule)) for point in near)
    return Box(smooth, (slopes**2 / (2 * gaps)).min(), noise)


def lemma_6() -> list[Finding]:
    """Bounds on E Delta_n at every n, for constant (a) and for decaying steps (b).

    A loose bound is easily kept: near the maximum of one direction L is hardly above mu,
    and the bound is nearly reached. With a third of the noise it is exceeded.
    """
    limit, rule, count = Limit(opposed(RIGHT[:1], 2)), Rule("grpo", 8, 4), 400
    findings = []
    for name, steps, reach in (("a", lambda _: 1.0, 1.0), ("b", limit.steps, 0.8)):
        theta_TDR = ascend(limit.peak, rule, steps, range(count + 1))
        gaps_TR = np.array([limit.gaps(theta_DR) for theta_DR in theta_TDR])
        apart_TDR = theta_TDR - limit.peak.theta_D[:, None]
        left = int((np.abs(limit.turned_DK.T @ apart_TDR).max((0, 1)) > reach).sum())
        means_T, errors_T = gaps_TR.mean(1), stats.sem(gaps_TR, axis=1)
        box, quantity = find_box(limit, rule, reach), f"E Delta_n / bound; {left} runs left"
        less = box._replace(noise=box.noise / 3)
        for start, one in ((f"Lemma 6({name})", box), (f"control: 6({name}), M/3", less)):
            bounds_T = one.bounds(steps, means_T[0], count)
            ratios_T, off_T = means_T / bounds_T, errors_T / bounds_T
            worst = 1 + int(ratios_T[1:].argmax())
            findings.append(judge(start, quantity, ratios_T[worst], 1.0, off_T[worst]))
    return findings


def judge_mean(name: str, scaled_R: Floats, law: float, beta2: float) -> list[Finding]:
    """Judge the mean of n Delta, with beta^2 in Sigma and without, as printed."""
    quantity = "mean of (n + i0) Delta over that of the limit"
    ratio, error = scaled_R.mean() / law, stats.sem(scaled_R) / law
    return [
        judge(f"{name}, mean", quantity, ratio, 1.0, error),
        judge(f"{name}, Sigma as printed", quantity, beta2 * ratio, 1.0, beta2 * error),
    ]


def theorem_8() -> list[Finding]:
    """The law of n Delta for each baseline, with noise across the Hessian's directions."""
    limit, findings = Limit(crossed((0.85, 0.8), 3)), list[Finding]()
    for estimator in ("vanilla", "grpo", "oracle"):
        rule, name = Rule(estimator, 8, 3), f"Theorem 8, {estimator}"
        scaled_R, weights_K = limit.scaled_gaps(rule), limit.weights(rule)
        diagonal_K = np.diag(limit.law(limit.peak.covariance(rule)))
        findings.append(judge_law(f"{name}, law", scaled_R, weights_K))
        findings.append(judge_law(f"control: {name}, diagonal", scaled_R, diagonal_K))
        if estimator == "grpo":
            findings += judge_mean(name, scaled_R, weights_K.sum(), limit.beta**2)
    return findings


def listed_covariance(point: Point, estimator: str, size: int) -> Floats:
    """Cov of one prompt's estimate given the prompt, averaged, with every group listed."""
    groups_RG = np.array(list(product(range(point.chances_PK.shape[1]), repeat=size)))
    total = np.zeros_like(point.hessian_DD)
    for x, chances_K in enumerate(point.chances_PK):
        rewards_RG = point.bandit.rewards_PK[x][groups_RG]
        values_R = np.full(len(groups_RG), point.values_P[x])
        weights_RG = weights_of(estimator, rewards_RG, values_R)
        total_RD = np.einsum("rg,rgd->rd", weights_RG, point.scores_PKD[x][groups_RG])
        apart_RD = total_RD / size - point.gradients_PD[x]
        chances_R = chances_K[groups_RG].prod(1)
        total += np.einsum("r,rd,re->de", chances_R, apart_RD, apart_RD)
    return total / len(point.chances_PK)


def corollary_9() -> list[Finding]:
    """GRPO-type's covariance, and so its limit, approach the oracle's like 1/(G (G-1))."""
    limit, both = Limit(surrounded()), ("grpo", "oracle")
    pairs_DD = limit.peak.noise("grpo")[2]

    def off(size: int, factor: int) -> float:
        grpo_DD, oracle_DD = (listed_covariance(limit.peak, one, size) for one in both)
        apart_DD = (grpo_DD - oracle_DD) * factor - pairs_DD
        return float(np.abs(apart_DD).max() / np.abs(pairs_DD).max())

    def largest(size: int) -> float:
        grpo_K, oracle_K = (limit.weights(Rule(one, 1, size)) for one in both)
        return float((grpo_K / oracle_K).max())

    name, sizes = "Corollary 9, covariances", (2, 3, 4)
    quantity = "(Cov_GRPO - Cov_oracle) G (G-1), all groups of 2, 3, 4 listed, off by"
    ratio = "largest weight of the limit over the oracle's at the same B and G"
    exact, wrong = ([off(G, G * (G - one)) for G in sizes] for one in (1, 0))
    return [
        judge(name, quantity, max(exact), 0.0, margin=ROUNDING),
        judge(f"control: {name}, G^2 for G (G-1)", quantity, min(wrong), 0.0),
        judge("Corollary 9, limit at G = 32", ratio, largest(32), 1.0),
        judge("control: Corollary 9, limit at G = 2", ratio, largest(2), 1.0),
    ]


def corollary_10() -> list[Finding]:
    """No baseline of the prompt alone has a smaller limit than the oracle's.

    The condition, score norms uncorrelated with rewards at the maximum, says b* = V. For a
    log-linear policy E_x[S (b* - V)] = tr Hess J, S = E||W||^2, which is below zero at a
    maximum: there the condition never holds.
    """
    findings = []
    for actions, bandit in (("two", opposed(RIGHT, 5)), ("six", surrounded())):
        limit, name = Limit(bandit), f"Corollary 10, {actions} actions"
        peak, trace = limit.peak, float(np.trace(limit.peak.hessian_DD))
        norms2_P, off_P = peak.mean(peak.norms2_PK), peak.best_constants_P - peak.values_P
        premise, quantity = float((norms2_P * off_P).mean()), "E[S (b* - V)] less tr Hess J"
        findings.append(judge(f"{name}, trace", quantity, premise - trace, 0, 0, ROUNDING))
        rules = (Rule(one, 2, 4) for one in ("best-constant", "oracle"))
        best, oracle = (limit.weights(rule).sum() for rule in rules)
        quantity = "E n Delta of the best constant baseline over the oracle's"
        one = judge(name, quantity, best / oracle, 1.0, margin=ROUNDING)
        false = one.verdict == "fails" and abs(premise) > ROUNDING
        findings.append(one._replace(verdict="premise fails") if false else one)
    return findings


def fit_best_size(means_G: Floats, errors_G: Floats) -> tuple[float, float]:
    """Fit c1 G + c2 + c3/(G-1) at `SIZES`: log(G* - 1), and its standard error."""
    sizes = np.array(SIZES, dtype=float)
    design = np.stack([sizes, np.ones(len(sizes)), 1 / (sizes - 1)], axis=1)
    fit = sm.WLS(means_G, design, weights=errors_G**-2).fit(cov_type="fixed scale")
    c1, _, c3 = fit.params
    slope = np.array([-1 / c1, 0.0, 1 / c3]) / 2
    return float(np.log(c3 / c1) / 2), float(np.sqrt(slope @ fit.cov_params() @ slope))


def theorem_7() -> list[Finding]:
    """The best group size of runs at N completions a step is 1 + sqrt(c3/c1)."""
    limit, rows = Limit(surrounded()), []
    c1, c2, c3 = limit.constants
    for size in SIZES:
        scaled_R = BUDGET * limit.scaled_gaps(Rule("grpo", BUDGET // size, size))
        law = c1 * size + c2 + c3 / (size - 1)
        rows.append((size, scaled_R.mean(), stats.sem(scaled_R), law))
    table = pd.DataFrame(rows, columns=["group_size", "gap", "error", "limit"])
    worst = table.loc[(table["gap"] / table["limit"] - 1).abs().idxmax()]
    quantity = f"E N n Delta over c1 G + c2 + c3/(G-1), at G = {worst['group_size']:g}"
    ratio, off = worst["gap"] / worst["limit"], worst["error"] / worst["limit"]
    findings = [judge("Theorem 7, means over G", quantity, ratio, 1.0, off)]
    fitted, error = fit_best_size(table["gap"].to_numpy(), table["error"].to_numpy())
    quantity = f"log(G* - 1) fitted to runs, N = {BUDGET}: G* = {1 + np.exp(fitted):.2f}"
    both = ("", best_size(limit.constants)), ("control: 2.41 for ", 1 + 2**0.5)
    for name, best in both:
        statement, predicted = f"{name}Theorem 7, best G", float(np.log(best - 1))
        findings.append(judge(statement, quantity, fitted, predicted, error, 0.26))
    return findings


def seen_and_unseen() -> list[Finding]:
    """The size of least MSE trains best where the reward sees all; a word moves it."""
    plain, findings = opposed(RIGHT, 5), []
    quantity = "1 + sqrt(c3/c1) of the MSE; predicted is that of the limit"
    for words, bandit in (("all is seen", plain), ("a word of 8 unseen", worded(plain, 8))):
        limit, statement = Limit(bandit), f"Theorem 7, the size of least MSE, {words}"
        of_mse = best_size([np.trace(part) for part in limit.peak.noise("grpo")])
        findings.append(judge(statement, quantity, of_mse, best_size(limit.constants)))
    return findings


def study(folder: Path) -> list[Finding]:
    """Test all statements; write `findings.csv`."""
    parts = (lemma_6, theorem_7, theorem_8, seen_and_unseen, corollary_9, corollary_10)
    findings = [one for part in parts for one in part()]
    write_file(folder / "findings.csv", pd.DataFrame(findings))
    return findings


def main(words: Sequence[str] | None = None) -> int:
    """Run the study; give 1 if a control holds."""
    parser = argparse.ArgumentParser(description="The paper's statements, on bandits.")
    parser.add_argument("--out", type=Path, default=Path("results/theory"), metavar="DIR")
    findings = study(parser.parse_args(words).out)
    for one in findings:
        interval = f"{one.measured:.3g} [{one.low:.3g}, {one.high:.3g}]"
        print(f"{one.verdict:13} {one.statement}: {interval}; {one.predicted:.3g}")
    controls = [one for one in findings if one.statement.startswith("control")]
    return int(any(one.verdict == "holds" for one in controls))


if __name__ == "__main__":
    sys.exit(main())
