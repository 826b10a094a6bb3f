"""Prompts on the page: what is told of the dots, against what they are drawn from."""

import re

import pytest

from mse_lab.answers.measured_run import read_run
from mse_lab.report import prompt_scatter
from written_runs import simulate, write_run


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    pools = simulate(prompts=20, values=(0.2, 0.95))
    return read_run(write_run(tmp_path_factory.mktemp("page") / "one", pools))


def test_both_pictures_count_the_same_prompts(source):
    """Where the best baseline is nearer to 0, vanilla is below the oracle."""
    (ratios, _), (phase, _) = (
        prompt_scatter._ratios(source, 8),
        prompt_scatter._phase(source),
    )
    below, known = map(int, re.search(r"oracle at (\d+) of (\d+)", ratios).groups())
    above, unequal = map(int, re.search(r"than to 0 at (\d+) of (\d+)", phase).groups())
    assert (known, unequal) == (20, 20)
    assert 0 < below == 20 - above < 20
    best, value = source.moments.best_baseline, source.moments.value
    assert above == (abs(best - value) < best).sum()
