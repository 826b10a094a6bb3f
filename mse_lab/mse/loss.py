"""A loss over random prompts: where its gradient estimate points, how noisy, at what cost.

For an estimator whose mean is h(x), which for rewards of two values is slope(x) g(x) if its
weights depend on a group's rewards alone, with hbar = E h(X) and of one group

    E||g_hat||^2 = ||hbar||^2 + (between + within) / B,
    between = E||h(X) - hbar||^2,  within = E[tr Var(g_hat | X)].

A factor of g_hat is a matter of the learning rate. What counts is the share of the possible
progress that a step makes. One of length eta gains, to second order and with curvature
kappa in the directions that count, eta <hbar, g> - (eta^2 kappa / 2) E||g_hat||^2. At the
best length of each estimator that is, over the gain of the true gradient,

    <hbar, g>^2 / (||g||^2 E||g_hat||^2) = c^2 / (1 + q/N),

c the cosine of hbar with g, and q = G (between + within) / ||hbar||^2 the noise scale in
completions (arXiv 1812.06162). The best length, <hbar, g> / (kappa E||g_hat||^2), is SGD's;
Adam, which divides by the root of the second moment, takes the root of a ratio of them. So
a training needs steps in proportion to the cost

    cost(G, N) = ||g||^2 (N + q) / c^2,

which is N ||g||^2 + N MSE for an unbiased estimator, where c = 1; there the costs of two
sizes share ||g||^2 and need not divide by it. At N = 0 the ratio of two costs is that of
the completions for equal progress, the limit of small batches.

The squared cosine is a ratio of estimates, which is too large by order 1/P where slopes
differ; the jackknife subtracts this bias. Bounds of a ratio of costs take the linear part,
by the jackknife: they neglect terms of the order of one over the number of prompts.

For rewards of more than two values the mean of a loss is not along g(x). Then few
completions of each prompt give E||g_hat||^2, and the products of h(x) with h(x') and g(x')
by sub-groups (`subgroups.py`); a finished run does not keep what they take.

The law of a biased loss needs G + 3 completions of each prompt, sub-groups a block of
G + 1. Where few are drawn, larger groups are compared by unimodality: cost falls to its
least and rises again. So if it rises at the largest size that is known, the best size is
among the known ones (`is_bracketed`).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.config.schema import EstimatorEntry
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.mse.intervals import Estimate, falling
from mse_lab.mse.laws import MORE_THAN_A_GROUP, BinaryLaw, find_law, unbiased_law
from mse_lab.mse.prompt_table import Constants, PromptTable, one_baseline, raise_to_zero

# What divides by a number of a large batch, or subtracts it, or differs by a factor.
_AS_GOOD_AS = {
    "batch-std": "grpo",
    "centred": "grpo",
    "reinforce++": "batch-mean",
    "global-mean": "batch-mean",
}

# Moments s and Z s of the weights by which a large batch averages its rewards.
_WEIGHTS = {
    "score": ("norm2", "reward_norm2"),
    "logits": ("logit_norm2", "reward_logit_norm2"),
}


class Aim(NamedTuple):
    """Where an estimator points in groups of one size; arrays over samples of prompts."""

    noise: Floats  # G x the variance of a group, over random prompts.
    signal: Floats  # ||hbar||^2.
    gradient2: Floats  # ||E g(X)||^2.
    cosine2: Floats | None  # Squared cosine of its mean with g; None where that is g.
    between: Floats | float = 0.0  # What whole epochs cancel of the noise: that of prompts.

    @classmethod
    def of_unbiased(cls, constants: Constants, within: Floats, group_size: int) -> Self:
        """Take the aim of an unbiased estimator, by G times its mean MSE on a prompt."""
        between = group_size * raise_to_zero(constants.c1)
        gradient2 = constants.gradient2
        return cls(between + within, gradient2, gradient2, None, between)

    @classmethod
    def of_prompts(cls, table: PromptTable, mse_P: Floats, group_size: int) -> Self:
        """Take the aim of an unbiased estimator, by the MSE of a group of each prompt."""
        within = table.prompt_samples.means(group_size * mse_P)
        return cls.of_unbiased(table.samples, within, group_size)

    @classmethod
    def of_means(
        cls,
        table: PromptTable,
        mean_norm2: Floats,
        inner: Floats,
        norm2_P: Floats,
        within_P: Floats,
        group_size: int,
    ) -> Self:
        """By ||hbar||^2, <hbar, g>, (S,), and by each prompt's ||h(x)||^2 and noise."""
        samples, gradient2 = table.prompt_samples, table.samples.gradient2
        cosine2 = samples.without_bias(divide(inner**2, mean_norm2 * gradient2))
        between = raise_to_zero(samples.means(norm2_P) - mean_norm2)
        noise = group_size * (between + samples.means(within_P))
        return cls(noise, mean_norm2, gradient2, cosine2, group_size * between)

    @property
    def in_epochs(self) -> Self:
        """The aim where many small steps of a whole epoch cancel the noise of prompts."""
        return self._replace(noise=self.noise - self.between)

    def cost(self, completions: float) -> Floats:
        """Steps at N completions each, in proportion; at N = 0 completions instead."""
        if self.cosine2 is None:
            return np.asarray(self.noise + completions * raise_to_zero(self.gradient2))
        scale = divide(self.noise, self.signal, LARGEST)
        needed = self.gradient2 * (completions + scale)
        return divide(needed, self.cosine2, LARGEST)


def up_to_a_factor(entry: EstimatorEntry) -> EstimatorEntry:
    """Name what points alike, as noisy: what it takes of a large batch is constant.

    >>> up_to_a_factor({"name": "batch-std", "eps": 1e-4, "length": "token-batch"})
    'grpo'
    """
    if isinstance(entry, str):
        return _AS_GOOD_AS.get(entry, entry)
    kept = {key: value for key, value in entry.items() if value != "token-batch"}
    name = str(kept["name"])
    if name in _AS_GOOD_AS and "length" not in kept:
        return _AS_GOOD_AS[name]
    return name if [*kept] == ["name"] else kept


def _weight_over_batch(entry: EstimatorEntry) -> str | None:
    """Name the weight by which a baseline averages all rewards of a batch, if it does."""
    if isinstance(entry, str):
        return "equal" if entry == "batch-mean" else None
    whole = entry.get("over") == "batch" and "length" not in entry
    return str(entry.get("weight", "score")) if whole else None


def is_constant(entry: EstimatorEntry) -> bool:
    """Whether a baseline does not look at the group, so that its best G is 1.

    >>> is_constant("batch-mean"), is_constant({"name": "constant", "alpha": 0.2})
    (True, True)
    """
    kept = up_to_a_factor(entry)
    if _weight_over_batch(kept):
        return True
    estimator = find_estimator(kept)
    coefficients = estimator.affine
    return estimator.learns_baseline or (coefficients is not None and not coefficients[1])


def is_unbiased(entry: EstimatorEntry) -> bool:
    """Whether a loss has a law for any rewards, and points along g, up to a factor.

    >>> is_unbiased("centred"), is_unbiased("grpo-std")
    (True, False)
    """
    kept = up_to_a_factor(entry)
    if _weight_over_batch(kept):
        return True
    return unbiased_law(find_estimator(kept)) is not None


def find_aims(
    table: PromptTable, entry: EstimatorEntry, sizes: Sequence[int]
) -> dict[int, Aim]:
    """Find where an estimator points at each size that its law is known at.

    Args:
        table: The prompts that were measured.
        entry: The estimator, as in a probe.
        sizes: Group sizes.

    Returns:
        Aims by size; none where it has no law.
    """
    entry = up_to_a_factor(entry)
    if weight := _weight_over_batch(entry):
        within = _within_over_batch(table, weight)
        if within is None:
            return {}
        return {size: Aim.of_unbiased(table.samples, within, size) for size in sizes}
    estimator = find_estimator(entry)
    sizes = [size for size in sizes if size >= estimator.smallest_group]
    if law := unbiased_law(estimator):
        return {
            size: Aim.of_prompts(table, law(table.moments, size), size) for size in sizes
        }
    kept: dict[tuple[Estimator, int], Aim | None] = table.kept
    for size in sizes:
        if (estimator, size) not in kept:
            kept[estimator, size] = _aim_by_law(table, estimator, size)
    found = {size: kept[estimator, size] for size in sizes}
    return {size: aim for size, aim in found.items() if aim is not None}


def _within_over_batch(table: PromptTable, weight: str) -> Floats | None:
    """G times the mean MSE at one baseline E[Z s] / E s, as a large batch gives it."""
    if weight == "equal":
        return table.samples.batch_mean
    if weight not in _WEIGHTS:
        return None
    mean, moments = table.prompt_samples.means, table.moments
    weights = [getattr(moments, name) + 0 * moments.norm2 for name in _WEIGHTS[weight]]
    by, rewarded = map(mean, weights)
    if np.isnan(by).any():
        return None
    return one_baseline(lambda moment: mean(moment(moments)), divide(rewarded, by))


def _aim_by_law(table: PromptTable, estimator: Estimator, size: int) -> Aim | None:
    """Find where an estimator of the rewards alone points, where that is known."""
    moments, law = table.moments, find_law(estimator, size, table.values)
    if size < max(estimator.smallest_group, 2):
        return None
    if law is None:
        return _aim_by_subgroups(table, estimator, size)
    if isinstance(law, BinaryLaw) and not law.knows_mean(moments):
        return None
    mean = law(moments)
    slope_P, norm2_P = mean.slope, mean.slope**2 * moments.gradient2
    return Aim.of_means(
        table,
        table.mean_products(slope_P, slope_P),
        table.mean_products(slope_P, np.ones_like(slope_P)),
        norm2_P,
        mean.second - norm2_P,
        size,
    )


def completions_needed(entry: EstimatorEntry | None, size: int) -> int:
    """Say how many completions of each prompt tell the cost of a loss in groups of a size.

    As few as there are where it follows from c1 to c3, and where nothing tells it: 0.

    >>> completions_needed({"name": "grpo-std"}, 16), completions_needed("grpo", 16)
    (19, 0)
    """
    if entry is None or is_unbiased(entry):
        return 0
    estimator = find_estimator(up_to_a_factor(entry))
    return size + MORE_THAN_A_GROUP if estimator.takes_rewards_alone else 0


def _aim_by_subgroups(table: PromptTable, estimator: Estimator, size: int) -> Aim | None:
    """Find an aim by few completions of graded rewards."""
    if not estimator.takes_rewards_alone or estimator.binary or table.drawn is None:
        return None
    figures, samples = table.drawn.figures_of_loss(estimator, size), table.prompt_samples
    if figures is None:
        return None
    mean_norm2 = samples.mean_of_pairs(figures.products_P, figures.products_P)
    inner = samples.mean_of_pairs(figures.with_gradients_P, figures.of_gradients_P)
    return Aim.of_means(
        table,
        table.with_squares(mean_norm2, figures.norm2_P),
        table.with_squares(inner, figures.inner_P),
        figures.norm2_P,
        figures.second_P - figures.norm2_P,
        size,
    )


def is_bracketed(sizes: Sequence[int], upper_KK: Floats, largest: int) -> bool:
    """Whether the best of all sizes up to `largest` is shown to be among those compared.

    Args:
        sizes: The sizes compared, ascending.
        upper_KK: Upper bounds of the cost of each over that of each other.
        largest: The largest size that training would use.
    """
    return sizes[-1] >= largest or bool((upper_KK[:-1, -1] < 1).any())


def noise_scale(table: PromptTable, aim: Aim, level: float) -> Estimate:
    """Completions a step at which the error E is one: half of the progress is made.

    Without an upper end where ||g||^2 is not measurably positive.
    """
    inverse = divide(aim.signal, aim.noise)
    return falling(table.estimate(inverse, level), -1)


def progress(table: PromptTable, aim: Aim, completions: float, level: float) -> Estimate:
    """Share of the possible progress that a step of N completions makes, from 0 to 1."""
    if aim.cosine2 is None:
        scale = noise_scale(table, aim, level)
        ends = (scale.value, scale.high, scale.low)
        return Estimate(*(completions / (completions + end) for end in ends))
    ratio = divide(aim.noise, completions * aim.signal, LARGEST)
    share = divide(aim.cosine2, 1 + ratio)
    shares = table.estimate(share, level)
    return Estimate(*(min(max(one, 0.0), 1.0) for one in shares))


def ratio_of_costs(table: PromptTable, top: Floats, base: Floats, level: float) -> Estimate:
    """Estimate the ratio of two costs, paired over the prompts; infinite: no bound."""
    # A cost that is not positive, as of a sample of prompts, tells nothing of the ratio.
    efficiency = np.clip(divide(base, top, LARGEST), 0, LARGEST)
    share = table.estimate_positive(efficiency, level)
    ends = (share.value, share.high, share.low)
    return Estimate(*(1 / end if end > 0 else math.inf for end in ends))


def steps_ratio(
    table: PromptTable, top: Aim, base: Aim, completions: float, level: float
) -> Estimate:
    """Steps with one estimator and size over those with another, at N completions a step.

    Of two unbiased ones the ratio lies between 1 and that of the completions (N = 0). That
    is all that is known where ||g||^2 is not significantly positive: the value is NaN.
    """
    ratio, limit = (
        ratio_of_costs(table, top.cost(one), base.cost(one), level)
        for one in (completions, 0.0)
    )
    if not completions or top.cosine2 is not None or base.cosine2 is not None:
        return ratio
    if not table.knows_gradient(level):
        return Estimate(math.nan, min(limit.low, 1.0), max(limit.high, 1.0))
    return Estimate(
        ratio.value,
        max(ratio.low, min(limit.low, 1.0)),
        min(ratio.high, max(limit.high, 1.0)),
    )


def halved_step_size(
    table: PromptTable, aim: Aim, completions: float, level: float
) -> Estimate:
    """By what factor Adam's best step size changes where the batch is halved.

    The square root of (1 + E) / (1 + 2 E), which is SGD's, E the error at N completions. So
    it lies between 1/2 and 1, which is all that is known of SGD's where ||g||^2 is not
    significantly positive.
    """
    error, signal = aim.noise / completions, raise_to_zero(aim.signal)
    # An error that is not above its noise may be estimated below zero, a ratio with it.
    ratio = table.estimate_positive(divide(error + signal, 2 * error + signal), level)
    low, high = 0.5, 1.0
    if table.knows_gradient(level):
        low, high = max(ratio.low, low), min(ratio.high, high)
    value = min(max(ratio.value, low), high)
    return Estimate(*(end**0.5 for end in (value, low, high)))
