"""What is judged by a measurement: the same by both kinds of evidence."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers.sampled_run import SampledRun
from mse_lab.mse.samples import Samples
from mse_lab.mse.verdict import Question
from mse_lab.probe.training import DEFAULT
from populations import choose, population
from simulated import analysed


def draw(prompts):
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return Samples.of(choose(design, index).sample(rng, 16))


def trained(size):
    return DEFAULT._replace(group_size=size)


@pytest.mark.parametrize(("size", "verdict"), [(4, "keep"), (64, "change")])
def test_a_finished_run_and_samples_say_the_same(known, size, verdict):
    finished = replace(analysed(known[1], [4]), setting=trained(size))
    sampled = SampledRun("few", draw(200), "regret", setting=trained(size))
    for run in (finished, sampled):
        assert run.question == Question(DEFAULT.estimator, size)
        assert (run.ruling.verdict, run.ruling.set_to) == (verdict, 4)
        assert run.needed is None


def test_what_hardly_tells_is_no_less_than_what_was_spent(known):
    """In proportion to the prompts."""
    finished = replace(analysed(known[1], [4]), setting=trained(8))
    sampled = SampledRun("few", draw(20), "budget", setting=trained(8))
    assert sampled.ruling.verdict == "cannot tell"
    needed = sampled.needed
    assert needed.prompts > 20
    assert needed.completions == needed.prompts * 16
    assert needed.seconds == 0
    assert finished.spent == (60 * (256 + 256), 0.0)
