"""Samples: few completions of each of P prompts, and no reference.

A prompt has one block of completions, or as many as it was given a round. Its moments are
the blocks' averages, by completions; its squared gradient gains by the products between
blocks, which are independent: with g_hat = sum_r w_r g_hat_r,

    ||g||^2 = sum_r w_r^2 (that of the block) + sum_{r != s} w_r w_s <g_hat_r, g_hat_s>.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.estimators.groups import is_binary
from mse_lab.mse.kernels import Stack, gradient_noise2, gradient_terms, sample_moments
from mse_lab.mse.moments import OnePoolMoments
from mse_lab.mse.one_pool import PromptSample
from mse_lab.mse.pools import inner_products

Blocks = tuple[PromptSample, ...]

# The moments, with the power of a block's share that they are summed with: what falls with
# the completions, and their number, are of all blocks and not of one.
_POWERS = {
    **dict.fromkeys(("norm2", "reward_norm2", "reward2_norm2", "value", "variance"), 1),
    **dict.fromkeys(("value_by_reward_norm2", "value2_by_norm2", "variance_by_norm2"), 1),
    **dict.fromkeys(("gradient2", "learning", "value_variance"), 2),
    "value_trials": 0,
}


class _Figures(NamedTuple):
    """What is known of every block by itself, (Q,)."""

    moments: OnePoolMoments
    noise2: Floats


def _figures(samples: Sequence[PromptSample]) -> _Figures:
    """Work out all blocks, those of one shape together."""
    shapes = defaultdict(list)
    for place, one in enumerate(samples):
        shapes[one.completions, one.differentiated].append(place)
    found = {name: np.zeros(len(samples)) for name in _POWERS}
    noise2 = np.zeros(len(samples))
    for places in shapes.values():
        stack = Stack.of([samples[place] for place in places])
        moments = sample_moments(stack)
        for name, values in found.items():
            values[places] = getattr(moments, name)
        noise2[places] = gradient_noise2(gradient_terms(stack))
    return _Figures(OnePoolMoments(**found), noise2)


@dataclass(frozen=True)
class Samples:
    """The samples of P prompts, blocks of completions of each."""

    blocks: tuple[Blocks, ...]

    @classmethod
    def of(cls, prompts: Iterable[PromptSample | Sequence[PromptSample]]) -> Self:
        """Take a sample of each prompt, or several that are its blocks."""
        return cls(
            tuple(
                (one,) if isinstance(one, PromptSample) else tuple(one) for one in prompts
            )
        )

    @property
    def prompts(self) -> int:
        """P."""
        return len(self.blocks)

    @property
    def completions(self) -> int:
        """How many were drawn."""
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
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return all(map(is_binary, self.rewards))

    @property
    def reward_variance_P(self) -> Floats:
        """Var(Z), unbiased."""
        return self.moments.variance

    @cached_property
    def _flat(self) -> list[PromptSample]:
        return [one for blocks in self.blocks for one in blocks]

    @cached_property
    def _places_Q(self) -> NDArray[np.intp]:
        """The prompt of each block."""
        return np.repeat(np.arange(self.prompts), [len(each) for each in self.blocks])

    @cached_property
    def _shares_Q(self) -> Floats:
        """Each block's share of its prompt's completions."""
        counts_Q = np.array([one.completions for one in self._flat])
        return np.asarray(counts_Q / np.bincount(self._places_Q, counts_Q)[self._places_Q])

    def _over_blocks(self, values_Q: Floats, power: int = 1) -> Floats:
        """Sum over a prompt's blocks, times a power of their shares, (P,)."""
        return np.asarray(
            np.bincount(self._places_Q, self._shares_Q**power * values_Q), float
        )

    @cached_property
    def _figures(self) -> _Figures:
        return _figures(self._flat)

    @cached_property
    def moments(self) -> OnePoolMoments:
        """Moments of each prompt, (P,)."""
        found = {
            name: self._over_blocks(getattr(self._figures.moments, name), power)
            for name, power in _POWERS.items()
        }
        found["gradient2"] += self._between_blocks_P
        return OnePoolMoments(**found)

    @property
    def _between_blocks_P(self) -> Floats:
        """sum_{r != s} w_r w_s <g_hat_r, g_hat_s>."""
        found, gradients = np.zeros(self.prompts), self._gradients
        for place in (x for x, each in enumerate(self.blocks) if len(each) > 1):
            of_one = self._places_Q == place
            shares = self._shares_Q[of_one]
            weighted = [
                share * one.gradient_D
                for share, one in zip(shares, self.blocks[place], strict=True)
            ]
            own = sum(inner_products([one], [one]).item() for one in weighted)
            whole = inner_products([gradients[place]], [gradients[place]])
            found[place] = whole.item() - own
        return found

    @cached_property
    def _gradients(self) -> list[NDArray[np.floating]]:
        """The gradient of each prompt: its blocks' average."""
        return [
            each[0].gradient_D
            if len(each) == 1
            else np.average(
                [one.gradient_D for one in each],
                axis=0,
                weights=[one.completions for one in each],
            )
            for each in self.blocks
        ]

    @cached_property
    def gradient_products_PP(self) -> Floats:
        """<g(x), g(x')>, unbiased everywhere."""
        products_PP = inner_products(self._gradients, self._gradients)
        np.fill_diagonal(products_PP, self.moments.gradient2)
        return products_PP

    @cached_property
    def gradient_noise_P(self) -> Floats:
        """Standard error of each ||g||^2 where scores know nothing of rewards."""
        # Of R blocks alike, and of the products between them: a block's over R^2.
        return np.sqrt(self._over_blocks(self._figures.noise2, 3))
