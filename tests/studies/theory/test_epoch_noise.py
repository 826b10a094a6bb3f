"""Epochs: every deal of a few prompts enumerated, and the ends of the law."""

from itertools import permutations
from math import log

import numpy as np
import pytest

from mse_lab.studies.theory.epoch_noise import charged_size

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


def test_long_steps_charge_nearly_all_and_short_ones_nothing():
    """G = 5 where each prompt gets 40 completions in all, half a completion a step."""
    pulls = (50.0, 1.0, 0.1, 0.01, 1e-6)
    found = [float(charged_size(5.0, 0.5, 80, pull)) for pull in pulls]
    assert found[0] == pytest.approx(5 - 0.5, rel=2e-3)
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(0, abs=1e-5)
    # About G - k tanh(G/k) with k = 2 N/(P pull) = 10, where steps are many and short.
    assert found[2] == pytest.approx(5 - 10 * np.tanh(5 / 10), abs=5e-3)
