"""What groups of each size cost for the user's own loss, and where an estimator points.

For an estimator whose mean is h(x) = slope(x) g(x), which for rewards 0 and 1 is any whose
weights depend on a group's rewards alone, with hbar = E h(X) and of one group

    E||g_hat||^2 = ||hbar||^2 + (between + within) / B,
    between = E||h(X) - hbar||^2,  within = E[tr Var(g_hat | X)].

A factor of g_hat is a matter of the learning rate, so what counts is the scale-free MSE,
min_a E||a g_hat - g||^2 = ||g||^2 - <hbar, g>^2 / E||g_hat||^2. The squared cosine of hbar
with g is a ratio of estimates. Where slopes differ it is too large by order 1/P, which may
exceed the whole relative MSE; the jackknife subtracts this bias.

The cost of a group size G is the number of completions, over the budget N, with which an
estimator reaches the scale-free error that a base, the same or another estimator at some
group size, has at N. With q = G x noise / ||hbar||^2 of one completion, the estimator's
noise scale, and c the cosine of hbar with g, the base's error is 1 - c_0^2 / (1 + q_0 / N):

    cost = (q / N) / (c^2 / c_0^2 (1 + q_0 / N) - 1),

q / q_0 where c = c_0. For GRPO-type q ||g||^2 is c1 G + c2 + c3/(G-1), a mean over prompts;
for other losses a cost is a ratio of means over prompts and pairs of them, of which bounds
take the linear part, by the jackknife: beyond the asymptotics of the confidence sequence
they neglect terms of the order of one over the number of prompts.

The law of a biased loss needs G + 3 completions of each prompt. Where few are drawn, larger
groups are compared by unimodality: cost falls to its least and rises again. So if it rises
at the largest size that is known, the best size is among the known ones (`is_bracketed`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.mse.budget import Constants, Population, mse_times_budget
from mse_lab.mse.laws import BinaryLaw, find_law
from mse_lab.mse.prompt_samples import raise_to_zero
from mse_lab.probe.schema import EstimatorEntry


class Direction(NamedTuple):
    """Where an estimator points over random prompts; arrays over samples of prompts."""

    mean_norm2: Floats  # ||hbar||^2.
    cosine2: Floats  # Squared cosine of hbar with E g(X).
    # E||h(X) - hbar||^2, what only more prompts reduce; raised to zero as
    # `Constants.nonnegative_c1`.
    between: Floats
    within: Floats  # E[tr Var(g_hat | X)] of one group.

    @property
    def noise(self) -> Floats:
        """B times the variance of a batch of B groups."""
        return self.between + self.within


def find_direction(population: Population, slope_P: Floats, within_P: Floats) -> Direction:
    """Estimate where an estimator points, by its slope and noise on each prompt, (S,)."""
    samples, ones = population.prompt_samples, np.ones_like(slope_P)
    own_P = population.gradient2_P
    mean_norm2 = population.mean_products(slope_P, slope_P)
    inner = population.mean_products(slope_P, ones)
    norms2 = mean_norm2 * population.mean_products(ones, ones)
    return Direction(
        mean_norm2=mean_norm2,
        cosine2=samples.without_bias(divide(inner**2, norms2)),
        between=raise_to_zero(samples.means(slope_P**2 * own_P) - mean_norm2),
        within=samples.means(within_P),
    )


# Baselines that are one number for each prompt, or one for all prompts.
CONSTANT = ("vanilla", "batch-mean", "best-constant")

# What divides by a number of a large batch, or subtracts it: one factor, or baseline.
_OF_LARGE_BATCHES = {"batch-std": "centred", "reinforce++": "batch-mean"}

# Costs of sizes over samples of prompts; bounds of their ratios, (K, K), by whose they are.
Costs = Mapping[int, Floats]
Bound = Callable[[Costs, bool], Floats]


class Aim(NamedTuple):
    """Where an estimator points in groups of one size; arrays over samples of prompts."""

    noise: Floats  # G x the variance of a group, over random prompts.
    signal: Floats  # ||hbar||^2.
    cosine2: Floats  # Squared cosine of its mean with g.

    @classmethod
    def of(cls, direction: Direction, group_size: int) -> Self:
        """Take the aim of a direction in groups of a size."""
        return cls(group_size * direction.noise, direction.mean_norm2, direction.cosine2)

    @classmethod
    def of_unbiased(cls, constants: Constants, name: str, group_size: int) -> Self:
        """Take the aim of GRPO-type, or of a constant baseline, by c1 to c3 and theirs."""
        noise = mse_times_budget(name, constants, group_size)
        return cls(noise, constants.gradient2, np.ones_like(noise))

    def cost(self, base: "Aim", budget: float) -> Floats:
        """Completions for the scale-free error of the base at a budget, over the budget.

        Very large where no number of completions suffices. A signal that both share, as
        unbiased ones do, cancels.
        """
        nearer = divide(self.cosine2, base.cosine2)
        with np.errstate(divide="ignore", invalid="ignore"):
            signal = np.where(self.signal == base.signal, 1, self.signal / base.signal)
        needed = (nearer - 1) * budget * self.signal + nearer * base.noise * signal
        return divide(self.noise, needed, LARGEST)


def without_batch(entry: EstimatorEntry) -> EstimatorEntry:
    """Leave out what an estimator takes from the whole batch: it is nearly constant.

    >>> without_batch({"name": "batch-std", "eps": 1e-4, "length": "token-batch"})
    'centred'
    """
    if isinstance(entry, str):
        return _OF_LARGE_BATCHES.get(entry, entry)
    kept = {key: value for key, value in entry.items() if value != "token-batch"}
    name = str(kept["name"])
    if name in _OF_LARGE_BATCHES and "length" not in kept:
        return _OF_LARGE_BATCHES[name]
    return name if [*kept] == ["name"] else kept


def find_aims(
    population: Population, entry: EstimatorEntry, sizes: Sequence[int], *, binary: bool
) -> dict[int, Aim]:
    """Find where an estimator points at each size that its law is known at.

    Args:
        population: The prompts that were measured.
        entry: The estimator, as in a probe.
        sizes: Group sizes.
        binary: Whether all rewards are 0 or 1.

    Returns:
        Aims by size; none where it has no law.
    """
    entry, constants = without_batch(entry), population.samples
    if entry in CONSTANT:
        return {size: Aim.of_unbiased(constants, str(entry), size) for size in sizes}
    estimator = find_estimator(entry)
    if estimator.name in ("grpo", "centred"):
        return {
            size: Aim.of_unbiased(constants, "grpo", size) for size in sizes if size > 1
        }
    directions = law_directions(population, estimator, sizes, binary=binary)
    return {size: Aim.of(direction, size) for size, direction in directions.items()}


def law_directions(
    population: Population, estimator: Estimator, sizes: Sequence[int], *, binary: bool
) -> dict[int, Direction]:
    """Find directions by the law of an estimator of the rewards alone; {} without one."""
    moments, directions = population.moments, {}
    for size in sizes:
        law = find_law(estimator, size, binary=binary)
        known = not isinstance(law, BinaryLaw) or law.knows_mean(moments)
        if law is not None and known and size >= max(estimator.smallest_group, 2):
            mean = law(moments)
            noise_P = mean.second - mean.slope**2 * moments.gradient2
            directions[size] = find_direction(population, mean.slope, noise_P)
    return directions


def own_costs(
    population: Population,
    entry: EstimatorEntry,
    present: int,
    sizes: Collection[int],
    budget: float,
    *,
    binary: bool,
) -> dict[int, Floats]:
    """Price group sizes of a loss against its present one, over samples of prompts.

    Returns:
        Size -> cost (S,), 1 at the present size; empty where no law gives it there.
    """
    if without_batch(entry) in CONSTANT:
        sizes = {1, *sizes}
    aims = find_aims(population, entry, sorted({*sizes, present}), binary=binary)
    if present not in aims:
        return {}
    base = aims[present]
    return {size: aim.cost(base, budget) for size, aim in aims.items()}


def is_bracketed(sizes: Sequence[int], upper_KK: Floats, largest: int) -> bool:
    """Whether the best of all sizes up to `largest` is shown to be among those compared.

    Args:
        sizes: The sizes compared, ascending.
        upper_KK: Upper bounds of the cost of each over that of each other.
        largest: The largest size that training would use.
    """
    return sizes[-1] >= largest or bool((upper_KK[:-1, -1] < 1).any())
