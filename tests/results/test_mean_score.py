"""`mean score zero`: a block's own scores must not decide how much it counts."""

import numpy as np

from mse_lab.results.checks import check_mean_score
from results.test_checks import blocks_of


def test_a_rare_completion_drawn_too_often_is_seen():
    """One of 50 that is drawn thrice as often, 1,000 prompts with two blocks of 16.

    The figure is about 8.6 with a spread of 1, its bound 5.5. Were a block weighed by its
    own scores, those with the rare completion would count for less: 4.3 on average.
    """
    rng, rare, drawn = np.random.default_rng(0), 0.02, 0.06
    for _ in range(10):
        kinds = rng.choice(2, size=(1000, 2, 16), p=[1 - drawn, drawn])
        scores = np.eye(2)[kinds] - np.array([1 - rare, rare])
        assert not check_mean_score(blocks_of(scores)).ok
