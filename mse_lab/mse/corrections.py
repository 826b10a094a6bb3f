"""Corrections of an engine's mismatch: their weights, and each one's bias and variance.

An engine, mu, draws completions that are differentiated under the policy, pi. With the
ratios rho_t = pi(y_t | x, y_<t) / mu(y_t | x, y_<t) and rho = prod_t rho_t of a completion,
a correction c replaces the score W by

    U = c(rho) W  of the sequence,    or    U = sum_t c(rho_t) grad log pi(y_t | x, y_<t),

c truncating ratios at a bound or leaving out those beyond it (a mask). All expectations are
under mu. The full U = rho W has no bias: E[rho W] = 0 and E[rho W Z] = g. GRPO-type with U
is

    g_hat = (1/G) sum_i (Z_i - mean of the others) U_i = mean of h_ij over i != j,
    h_ij = (U_i - U_j) (Z_i - Z_j) / 2,    E g_hat = E h_12 = h = Cov(U, Z),

a U-statistic, so that for groups of G, whatever E[U] is,

    G (G-1) E||g_hat||^2 = (G-2) (G-3) ||h||^2 + 4 (G-2) E<h_12, h_13> + 2 E||h_12||^2.

The Gram matrix of W and U gives all three, and <h, g>, as means over different completions
of one block; the blocks' gradients give the products of independent blocks and prompts.

Sources: TRL 1.16, `vllm_importance_sampling_mode`, `_clip_max` = 3.0, `_clip_min` = None;
verl at 20c30bf, `algorithm.rollout_correction`, `rollout_is_threshold` = 2.0 by default, or
`low_high`, beyond which a token counts as zero: IcePop, arXiv 2510.18855. Where verl masks,
it also averages over fewer tokens, which is a factor; its geometric mask is left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.pools import name_of_all
from mse_lab.mse.prompt_samples import (
    PromptSamples,
    count_carriers,
    jackknife,
    raise_to_zero,
)

# Log ratios are clipped at this size, so that the fourth powers of ratios are finite.
MOST_NATS = 100.0


class Correction(NamedTuple):
    """A function c of ratios."""

    name: str  # The trainer's name of it.
    per_token: bool  # Whether it is of each token's ratio, not of their product.
    high: float = math.inf  # The upper bound of a ratio.
    low: float = 0.0  # The lower bound of a ratio.
    masked: bool = False  # Whether a ratio beyond a bound counts as zero, not as the bound.
    setting: str = ""  # The trainer's setting.

    def weigh(self, log_ratios: Floats) -> Floats:
        """Compute c of ratios, given by their logarithms.

        >>> Correction("a", True, 3).weigh(np.log([0.5, 4]))
        array([0.5, 3. ])
        >>> Correction("b", True, 5, 0.5, masked=True).weigh(np.log([0.25, 4, 6]))
        array([0., 4., 0.])
        """
        ratios = np.exp(np.clip(log_ratios, -MOST_NATS, MOST_NATS))
        bounded = np.clip(ratios, self.low, self.high)
        return np.where(self.masked & (bounded != ratios), 0.0, bounded)


_TRL = "vllm_importance_sampling_mode"
# By the sum of -log rho_t between the logarithms of the bounds.
_MASK = "rollout_rs=seq_sum_k1 rollout_rs_threshold=0.5_2.0"
_OFF = "vllm_importance_sampling_correction=False"
_ICE_POP = "verl: rollout_is=token rollout_is_threshold=0.5_5.0"

# The first changes nothing, the second is without bias; TRL's default is the third.
CORRECTIONS = (
    Correction("none", False, 1.0, 1.0, setting=_OFF),
    Correction("exact", False),
    *(
        Correction(
            f"TRL {mode}",
            mode.startswith("token"),
            3.0,
            0.0,
            "mask" in mode,
            f"{_TRL}={mode}",
        )
        for mode in ("sequence_mask", "sequence_truncate", "token_truncate", "token_mask")
    ),
    Correction("verl token_is", True, 2.0, setting="rollout_is=token"),
    Correction("verl seq_is", False, 2.0, setting="rollout_is=sequence"),
    Correction("verl seq_is_rs", False, 2.0, 0.5, True, f"rollout_is=sequence {_MASK}"),
    Correction("IcePop", True, 5.0, 0.5, True, _ICE_POP),
)
NAMES = tuple(one.name for one in CORRECTIONS)
NONE, EXACT = NAMES.index("none"), NAMES.index("exact")


class PairMeans(NamedTuple):
    """Means over different completions, each unbiased, of the products of two h."""

    apart: Floats  # <h_ij, h_kl>, which is <h, h'>.
    linked: Floats  # <h_ij, h_ik>.
    same: Floats  # <h_ij, h_ij>.

    def second_moment(self, group_size: int) -> Floats:
        """E||g_hat||^2 of GRPO-type of a group of two or more."""
        size = group_size
        apart, linked = (size - 2) * (size - 3) * self.apart, 4 * (size - 2) * self.linked
        return np.asarray((apart + linked + 2 * self.same) / (size * (size - 1)))


def pair_means(gram_NN: Floats, rewards_N: Floats) -> PairMeans:
    """Average the products of h over the pairs of four completions or more.

    Sums over j give H_i = sum_j h_ij = sum_j M_ij U_j. In ||sum_i H_i||^2 each product of
    three completions occurs four times and each of two twice. The Gram matrix has
    <U_i, U'_j> of one correction or two, (..., N, N).
    """
    count, apart_N = len(rewards_N), rewards_N - rewards_N.mean()
    mixing_NN = (count * np.diag(apart_N) + apart_N - apart_N[:, None]) / 2
    sums_NN = mixing_NN @ gram_NN @ mixing_NN.T
    norms_N = np.diagonal(gram_NN, axis1=-2, axis2=-1)
    distances_NN = norms_N[..., None] + norms_N[..., None, :]
    distances_NN = distances_NN - gram_NN - gram_NN.swapaxes(-1, -2)
    pairs = ((apart_N - apart_N[:, None]) ** 2 * distances_NN).sum((-2, -1)) / 4
    triples = np.trace(sums_NN, axis1=-2, axis2=-1) - pairs
    quadruples = sums_NN.sum((-2, -1)) - 4 * triples - 2 * pairs
    ways = np.cumprod([count, *(count - np.arange(1, 4))])[1:]
    return PairMeans(quadruples / ways[2], triples / ways[1], pairs / ways[0])


@dataclass(frozen=True)
class CorrectedPrompt:
    """The measurements of F corrections on one prompt, by N completions."""

    apart_FF: Floats  # <h, h'>, unbiased.
    linked_F: Floats  # E<h_12, h_13>.
    same_F: Floats  # E||h_12||^2.
    mass_F: Floats  # Mean weight of a token.
    log_ratios_N: Floats  # log rho.
    divergences_N: Floats  # The sum over tokens of rho_t - 1 - log rho_t.
    lengths_N: Floats  # Number of tokens that the policy drew.
    gradients_FD: Floats  # Unbiased for h: whole vectors, or sketches.


@dataclass(frozen=True)
class CorrectionPools:
    """The same of P prompts, and products of their gradients; `corrections.npz`."""

    apart_PFF: Floats
    linked_PF: Floats
    same_PF: Floats
    mass_PF: Floats
    log_ratios_PN: Floats
    divergences_PN: Floats
    lengths_PN: Floats
    between_FPP: Floats  # <h(x), h(x')>, x and x' different.
    crossed_FPP: Floats  # <h(x), g(x')>.

    @classmethod
    def of(cls, prompts: Sequence[CorrectedPrompt]) -> "CorrectionPools":
        """Stack prompts, and form their products with one another."""
        each = {
            name_of_all(field.name): np.stack([getattr(one, field.name) for one in prompts])
            for field in fields(CorrectedPrompt)
        }
        gradients_FPD = each.pop("gradients_PFD").swapaxes(0, 1)
        return cls(
            **each,
            between_FPP=gradients_FPD @ gradients_FPD.swapaxes(1, 2),
            crossed_FPP=gradients_FPD @ gradients_FPD[EXACT].T,
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "CorrectionPools":
        """Read the arrays of `corrections.npz`."""
        given = {field.name: np.asarray(arrays[field.name]) for field in fields(cls)}
        prompts, completions = given["log_ratios_PN"].shape
        sizes = {"P": prompts, "F": len(CORRECTIONS), "N": completions}
        for name, array in given.items():
            shape = tuple(sizes[axis] for axis in name.rpartition("_")[2])
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} is not {shape} numbers")
        return cls(**given)


@dataclass(frozen=True)
class Judged:
    """A correction over random prompts, B groups of G; arrays over samples of prompts."""

    mean_norm2: Floats  # ||E h(X)||^2.
    inner: Floats  # <E h(X), g>, g the gradient over all prompts.
    gradient2: Floats  # ||g||^2.
    variance: Floats  # That of a batch: ||g_hat||^2 less `mean_norm2`.
    cosine2: Floats  # The squared cosine of E h(X) with g.

    @property
    def distance2(self) -> Floats:
        """||E h(X) - g||^2."""
        return self.mean_norm2 - 2 * self.inner + self.gradient2

    @property
    def bias2(self) -> Floats:
        """The same over ||g||^2."""
        return divide(self.distance2, self.gradient2)

    @property
    def kept(self) -> Floats:
        """The share of the gradient that is kept: <E h(X), g> / ||g||^2."""
        return divide(self.inner, self.gradient2)

    @property
    def noise(self) -> Floats:
        """The variance over ||g||^2."""
        return divide(self.variance, self.gradient2)

    @property
    def scale_free(self) -> Floats:
        """The least MSE of a multiple of g_hat, over ||g||^2."""
        signal = divide(self.mean_norm2, self.mean_norm2 + self.variance)
        return np.asarray(1 - self.cosine2 * signal)


@dataclass(frozen=True)
class CorrectionPopulation:
    """The distribution that the prompts of pools are drawn from."""

    pools: CorrectionPools

    @cached_property
    def prompt_samples(self) -> PromptSamples:
        """All prompts, and all but each."""
        return PromptSamples.without_draws(len(self.pools.apart_PFF))

    @cached_property
    def effective_prompts(self) -> float:
        """How many prompts carry the gradients, or the noise if those are fewer."""
        carried = self.pools.apart_PFF[:, EXACT, EXACT], self.pools.same_PF[:, NONE]
        return min(map(count_carriers, carried))

    def _products(self, products_PP: Floats) -> Floats:
        ones_P, apart_PP = np.ones(len(products_PP)), without_diagonal(products_PP)
        return self.prompt_samples.mean_products(apart_PP, ones_P, ones_P)

    def judge(self, index: int, group_size: int, groups: float) -> Judged:
        """Judge a correction, by its index in `CORRECTIONS`, at G >= 2 and B groups."""
        pools, samples = self.pools, self.prompt_samples
        norms2_P = pools.apart_PFF[:, index, index]
        means = PairMeans(norms2_P, pools.linked_PF[:, index], pools.same_PF[:, index])
        mean_norm2 = self._products(pools.between_FPP[index])
        gradient2 = self._products(pools.between_FPP[EXACT])
        inner = self._products(pools.crossed_FPP[index])
        between = raise_to_zero(samples.means(norms2_P) - mean_norm2)
        within = samples.means(means.second_moment(group_size) - norms2_P)
        cosine2 = samples.without_bias(divide(inner**2, mean_norm2 * gradient2))
        noise = (between + within) / groups
        return Judged(mean_norm2, inner, gradient2, noise, cosine2)

    def estimate(
        self, samples: Floats, level: float, *, positive: bool = False
    ) -> Estimate:
        """Estimate a figure, given for all samples of prompts."""
        if not np.isfinite(samples).all():
            return UNKNOWN
        return jackknife(samples, len(self.pools.apart_PFF)).interval(
            level, positive=positive, most_degrees=self.effective_prompts
        )
