"""Samples: few completions of each of P prompts, and no reference.

A prompt has a block of completions for each round in which it was measured. Its moments are
the blocks' averages, weighted by completions. Blocks are independent, so the products
between them count for its squared gradient: with g_hat = sum_r w_r g_hat_r,

    ||g||^2 = sum_r w_r^2 (that of the block) + sum_{r != s} w_r w_s <g_hat_r, g_hat_s>.

What a loss makes of graded rewards in groups of G is said by blocks of more than G
completions alone (`subgroups.py`); likewise for its mean h and <h, g>.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.mse.moments import OnePoolMoments
from mse_lab.mse.one_pool import (
    PromptSample,
    Stack,
    fold,
    gradient_noise2,
    gradient_terms,
    sample_moments,
)
from mse_lab.mse.pools import inner_products, without_diagonal
from mse_lab.mse.subgroups import LossFigures, figures_of_prompt

Blocks = tuple[PromptSample, ...]

# A prompt's moments are sums of its blocks' times a power of the block's share: the first,
# but for squares of the estimate, and for numbers of completions, which add up.
_POWERS = {one.name: 1 for one in fields(OnePoolMoments) if one.name != "given_baseline"}
_POWERS |= {"gradient2": 2, "value_variance": 2, "learning": 2, "value_trials": 0}


def _products_with_others(
    vectors: Sequence[NDArray[np.floating]], all_of: Sequence[NDArray[np.floating]]
) -> Floats:
    """Sum the products of each of P vectors with those of the other prompts, (P,)."""
    total_D = np.sum(all_of, axis=0, dtype=np.float64)
    pairs = zip(vectors, all_of, strict=True)
    return np.array([one_D @ (total_D - left_D) for one_D, left_D in pairs])


@dataclass(frozen=True)
class Samples:
    """The samples of P prompts, blocks of completions of each."""

    blocks: tuple[Blocks, ...]

    @classmethod
    def of(cls, prompts: Iterable[PromptSample | Sequence[PromptSample]]) -> Self:
        """Take a sample of each prompt, or several, which are its blocks."""
        blocks = (
            (one,) if isinstance(one, PromptSample) else tuple(one) for one in prompts
        )
        return cls(tuple(blocks))

    @property
    def prompts(self) -> int:
        """P."""
        return len(self.blocks)

    @property
    def completions(self) -> int:
        """How many completions were drawn."""
        return sum(one.completions for blocks in self.blocks for one in blocks)

    @property
    def differentiated(self) -> int:
        """How many of them were differentiated."""
        return sum(one.differentiated for blocks in self.blocks for one in blocks)

    @cached_property
    def rewards(self) -> list[Floats]:
        """Rewards of each prompt's completions."""
        return [np.concatenate([one.rewards_N for one in each]) for each in self.blocks]

    @cached_property
    def _flat(self) -> list[PromptSample]:
        return [one for blocks in self.blocks for one in blocks]

    @cached_property
    def _prompt_Q(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(self.prompts), [len(each) for each in self.blocks])

    @cached_property
    def _shares_Q(self) -> Floats:
        """Each block's share of its prompt's completions."""
        counts_Q = np.array([one.completions for one in self._flat])
        return np.asarray(counts_Q / np.bincount(self._prompt_Q, counts_Q)[self._prompt_Q])

    def _over_blocks(self, values_Q: Floats, power: int) -> Floats:
        """Sum values times a power of shares over each prompt's blocks, (P,)."""
        return np.asarray(
            np.bincount(self._prompt_Q, self._shares_Q**power * values_Q), float
        )

    @cached_property
    def _figures(self) -> tuple[OnePoolMoments, Floats]:
        """The moments of each block, and the variance of its estimate of ||g||^2."""
        shapes = defaultdict(list)
        for index, block in enumerate(self._flat):
            shapes[block.completions, block.differentiated].append(index)
        moments = {name: np.zeros(len(self._flat)) for name in _POWERS}
        noise2 = np.zeros(len(self._flat))
        for indices in shapes.values():
            stack = Stack.of([self._flat[index] for index in indices])
            moments_of_shape = sample_moments(stack)
            for name, values in moments.items():
                values[indices] = getattr(moments_of_shape, name)
            noise2[indices] = gradient_noise2(gradient_terms(stack))
        return OnePoolMoments(**moments), noise2

    @cached_property
    def moments(self) -> OnePoolMoments:
        """Moments of each prompt, (P,)."""
        moments = {
            name: self._over_blocks(getattr(self._figures[0], name), power)
            for name, power in _POWERS.items()
        }
        moments["gradient2"] += self._between_blocks_P
        return OnePoolMoments(**moments)

    @cached_property
    def _shares(self) -> list[Floats]:
        """The shares of each prompt's blocks."""
        return np.split(self._shares_Q, np.cumsum([len(each) for each in self.blocks])[:-1])

    @property
    def _between_blocks_P(self) -> Floats:
        """sum_{r != s} w_r w_s <g_hat_r, g_hat_s>."""
        products = []
        for blocks, shares in zip(self.blocks, self._shares, strict=True):
            gradients_RD = np.stack([one.gradient_D for one in blocks]).astype(np.float64)
            apart_RR = without_diagonal(gradients_RD @ gradients_RD.T)
            products.append(shares @ apart_RR @ shares)
        return np.array(products)

    @cached_property
    def _gradients(self) -> list[NDArray[np.floating]]:
        return [
            each[0].gradient_D
            if len(each) == 1
            else shares @ np.stack([one.gradient_D for one in each])
            for each, shares in zip(self.blocks, self._shares, strict=True)
        ]

    @cached_property
    def gradient_products_PP(self) -> Floats:
        """<g(x), g(x')>, unbiased everywhere."""
        products_PP = inner_products(self._gradients, self._gradients)
        np.fill_diagonal(products_PP, self.moments.gradient2)
        return products_PP

    def products_with_others(self, half: Self) -> Floats:
        """Sum <g(x), g(x')> over the other prompts x', g(x) by half its blocks, (P,)."""
        return _products_with_others(half._gradients, self._gradients)

    def figures_of_loss(self, estimator: Estimator, size: int) -> LossFigures | None:
        """Evaluate an estimator of the rewards in groups of a size, by sub-groups.

        None where a prompt has no block of more completions.
        """
        gradients = [fold(gradient_D) for gradient_D in self._gradients]
        of_prompts = zip(self.blocks, self._shares, gradients, strict=True)
        tried = [figures_of_prompt(*one, estimator, size) for one in of_prompts]
        known = [one for one in tried if one is not None]
        if len(known) < len(tried):
            return None
        second_P, inner_P, norm2_P = np.array([one[:3] for one in known]).T
        means = [one.mean_F for one in known]
        return LossFigures(
            second_P,
            inner_P,
            norm2_P,
            products_P=_products_with_others(means, means),
            with_gradients_P=_products_with_others(means, gradients),
            of_gradients_P=_products_with_others(gradients, means),
        )

    @cached_property
    def gradient_noise_P(self) -> Floats:
        """Standard error of each ||g||^2 where scores are independent of rewards."""
        # With R equal blocks, the products between them included: a block's over R^2.
        return np.sqrt(self._over_blocks(self._figures[1], 3))
