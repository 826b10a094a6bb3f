"""The phase diagram: what is read off runs, and the command that draws it."""

import math

import numpy as np
import pytest

import run_mse
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.regime import aggregate_place, gain_shares, measured_baselines, oracle_gain
from mse_lab.report.phase_diagram import CROSSED_SIZES, compose_phase
from mse_lab.results.analysis import RHO
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import ResultsFolder
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


def test_areas_add_up_to_the_difference_of_the_laws(folder, pools):
    run = read_run(folder)
    law = read_run(folder).mse.set_index(["estimator", "group_size"])["law"]
    vanilla, oracle = law["vanilla", 4], law["oracle", 4]
    expected = (vanilla - oracle) / (vanilla + oracle)
    assert gain_shares(run.moments).sum() == pytest.approx(expected, rel=1e-8)
    gains = oracle_gain(pool_moments(pools))
    np.testing.assert_array_equal(np.sign(gain_shares(run.moments)), np.sign(gains))
    assert len(set(np.sign(gains[1:]))) == 2


def test_the_legend_says_the_run_s_own_ordering(folder):
    run = read_run(folder)
    law = read_run(folder).laws.set_index(["group_size", "estimator"])["law"].unstack()
    [axes] = compose_phase([run]).axes
    [label] = axes.get_legend_handles_labels()[1]
    vanilla = law["vanilla"][4] / law["oracle"][4]
    assert label == f"tiny/base: vanilla {vanilla:.2f} × oracle"


def test_baselines_follow_from_rho_where_it_is_known(folder):
    run, table = read_run(folder), ResultsFolder(folder).read("prompts.csv")
    baselines = measured_baselines(run.moments, table[[*RHO]].to_numpy())
    value, (best, low, high) = table["value"], baselines.T
    rho = best / (1 - best) * (1 - value) / value
    np.testing.assert_allclose(rho[1:], table["rho"][1:])
    assert (low[1:] < best[1:]).all()
    assert (best[1:] < high[1:]).all()
    assert best[0] == 0
    assert math.isnan(low[0])


def drawn_lines(figure):
    return [line for line in figure.axes[0].lines if line.get_marker() == "None"]


def test_a_cross_lies_on_the_side_of_its_run(folder):
    run = read_run(folder)
    [axes] = compose_phase([run]).axes
    crosses = [line for line in axes.lines if line.get_marker() == "P"]
    [(value, best)] = [line.get_xydata()[0] for line in crosses]
    assert (value, best) == aggregate_place(run.moments)
    assert (best > value / 2) == (gain_shares(run.moments).sum() > 0)


def test_graded_rewards_have_the_line_of_the_oracle_alone(pools, folder, tmp_path):
    graded = with_rewards(pools, lambda one: 2 * one - 1)
    run = read_run(write_run(tmp_path / "graded", graded))
    binary = read_run(folder)
    assert (run.pools.binary, binary.pools.binary) == (False, True)
    assert len(drawn_lines(compose_phase([run]))) == 2
    assert len(drawn_lines(compose_phase([binary]))) == 2 + len(CROSSED_SIZES)
    baselines = measured_baselines(run.moments, np.full((20, 3), math.nan))
    np.testing.assert_array_equal(baselines[:, 0], run.moments.best_baseline)


def test_the_command_draws_beside_the_first_run(folder, pools, capsys):
    other = write_run(folder.parent / "two", pools, "tiny/base")
    assert run_mse.main(["figure", "--phase", str(folder), str(other)]) == 0
    written = [folder / "phase.png", folder / "phase.pdf"]
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == [f"{one} written" for one in written]
    assert all(one.stat().st_size > 5000 for one in written)
