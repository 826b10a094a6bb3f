"""Epochs: every deal of a few prompts enumerated, and the ends of the law."""

from itertools import permutations
from math import log

import numpy as np
import pytest

from mse_lab.mse.epochs import best_in_epochs, charged_size

NOISES = np.array([1.0, -2.0, 0.5, 3.0, -1.5, 2.0])


def spread_after(batch, steps, q, epochs=1):
    """Variance of theta over all deals of NOISES, after whole epochs or a part of one."""
    weights = q ** np.arange(steps)[::-1]
    ends = [
        (np.reshape(dealt, (-1, batch)).mean(1)[:steps] * weights).sum()
        for dealt in permutations(NOISES)
    ]
    kept = q ** (2 * steps)
    return np.var(ends) * sum(kept**epoch for epoch in range(epochs))


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("q", [0.9, 0.4])
@pytest.mark.parametrize(("part", "epochs"), [(1, 1), (1, 3), (0.34, 1), (0.5, 1)])
def test_the_share_is_that_of_all_deals(batch, q, part, epochs):
    """G = 3 completions a prompt: N = 3 batch."""
    a_epoch, size = len(NOISES) // batch, 3
    steps = max(1, round(part * a_epoch))
    each_step = size * batch / len(NOISES)
    charged = charged_size(size, each_step, steps * epochs, -log(q))
    anew = NOISES.var(ddof=1) / batch * (q ** (2 * np.arange(steps * epochs))).sum()
    expected = size * spread_after(batch, steps, q, epochs) / anew
    assert charged == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_the_best_size_lies_between_the_ends():
    """Prompts anew, 1 + sqrt(c3/c1) = 5; each prompt gets 40 completions in all."""
    pulls = (50.0, 1.0, 0.1, 0.01, 1e-6)
    found = [best_in_epochs(5.0, 0.5, 80, pull) for pull in pulls]
    assert found[0] == pytest.approx(5, rel=2e-3)
    assert found == sorted(found)
    assert found[-1] == pytest.approx(40, rel=2e-3)
    # (G - 1) tanh(G/k) = 4 with k = 2 N/(P pull) = 10, where steps are many and short.
    assert (found[2] - 1) * np.tanh(found[2] / 10) == pytest.approx(4, rel=5e-3)


def test_ends_that_are_not_known_stay_so():
    assert best_in_epochs(np.inf, 0.5, 80, 1.0) == np.inf
    assert best_in_epochs(1.0, 0.5, 80, 1.0) == 1
    # All prompts in every step: nothing is dealt.
    assert best_in_epochs(3.0, 8.0, 10, 1.0) == pytest.approx(8, rel=2e-3)
