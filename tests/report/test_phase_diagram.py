"""The phase diagram: what is read off runs, and the command that draws it."""

import numpy as np
import pytest

from mse_lab.mse.moments import pool_moments
from mse_lab.mse.regime import aggregate_place, gain_shares, oracle_gain
from mse_lab.report.phase_diagram import CROSSED_SIZES, compose_phase
from mse_lab.results.finished_run import read_run
from simulated import with_rewards
from written_runs import simulate, write_run


@pytest.fixture(scope="module")
def pools():
    """Prompts on both sides of the line, one of which is never right."""
    found = simulate(prompts=20, values=(0.2, 0.95))
    for rewards in (found.rewards_PN, found.reference_rewards_PN):
        rewards[0] = 0
    return found


@pytest.fixture(scope="module")
def folder(pools, tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("phase") / "one", pools, "tiny/base")


@pytest.fixture(scope="module")
def run(folder):
    return read_run(folder)


def test_areas_are_on_the_side_of_the_prompts_gains(run, pools):
    """Their sum is the run's ordering, which the legend says."""
    gains = oracle_gain(pool_moments(pools))
    np.testing.assert_array_equal(np.sign(gain_shares(run.moments)), np.sign(gains))
    assert len(set(np.sign(gains[1:]))) == 2


def test_the_legend_says_the_run_s_own_ordering(run):
    law = run.laws.set_index(["group_size", "estimator"])["law"].unstack()
    [axes] = compose_phase([run]).axes
    [label] = axes.get_legend_handles_labels()[1]
    vanilla = law["vanilla"][4] / law["oracle"][4]
    assert label == f"tiny/base: vanilla {vanilla:.2f} × oracle"


def drawn_lines(figure):
    return [line for line in figure.axes[0].lines if line.get_marker() == "None"]


def test_dots_are_prompts_and_a_cross_lies_on_the_side_of_its_run(run):
    [axes] = compose_phase([run]).axes
    value, best = axes.collections[-1].get_offsets().data.T
    np.testing.assert_array_equal(value, run.moments.value)
    rho = best[1:] / (1 - best[1:]) * (1 - value[1:]) / value[1:]
    np.testing.assert_allclose(rho, run.prompts["rho"][1:])  # Not known of the first.
    crosses = [line for line in axes.lines if line.get_marker() == "P"]
    [(value, best)] = [line.get_xydata()[0] for line in crosses]
    assert (value, best) == aggregate_place(run.moments)
    assert (best > value / 2) == (gain_shares(run.moments).sum() > 0)


def test_graded_rewards_have_the_line_of_the_oracle_alone(pools, run, tmp_path):
    folder = write_run(tmp_path, with_rewards(pools, lambda one: 2 * one - 1))
    graded = read_run(folder)
    assert (graded.pools.binary, run.pools.binary) == (False, True)
    assert len(drawn_lines(compose_phase([graded]))) == 2
    assert len(drawn_lines(compose_phase([run]))) == 2 + len(CROSSED_SIZES)


def test_the_command_draws_beside_the_first_run(folder, pools, carry_out):
    other = write_run(folder.parent / "two", pools, "tiny/base")
    said = carry_out("figure", "--phase", folder, other).splitlines()
    written = [folder / "phase.png", folder / "phase.pdf"]
    assert said[-2:] == [f"{one} written" for one in written]
    assert all(one.stat().st_size > 5000 for one in written)
