"""Runs, end to end, against a policy whose every completion is enumerated."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import run_mse
from known_truth import NAMES, SIZES, enumerate_prompts, exact_mse, measure
from mse_lab.errors import InputError
from mse_lab.estimators import ESTIMATORS
from mse_lab.probe.probe_files import load_probe
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.prepare import prepare
from mse_lab.run.processes import Processes
from mse_lab.run.resume import Outcome
from mse_lab.run.run_probe import (
    execute,
    next_rounds,
    rounds_begun,
    run_until,
    widest,
    with_rounds,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, checkpoint):
    """A finished run, with its probe and the folder that both lie in."""
    folder = tmp_path_factory.mktemp("run")
    return *measure(checkpoint, folder), folder


@pytest.fixture(scope="module")
def exact(finished):
    """The run's prompts, enumerated."""
    _, probe, root = finished
    return enumerate_prompts(probe, root)


def within(found, low, high, truth, errors=4, level_width=3.92):
    """Whether the truth lies within four of the number's own standard errors."""
    return abs(found - truth) <= errors * (high - low) / level_width


# Which completion at the median gets no weight depends on the order in the group; all
# ordered groups are too many at G = 8.
POINTS = [
    (name, size) for name in NAMES for size in SIZES[:4] if (name, size) != ("median", 8)
]
NO_AGGREGATE = ["opo"]


@pytest.mark.parametrize(("name", "size"), POINTS)
def test_measured_mse_is_the_enumerated_one(finished, exact, name, size):
    """Replicates and law; a false alarm of 6e-5 each, once for the fixed seed."""
    table = pd.read_csv(finished[0] / "mse.csv").set_index(["estimator", "group_size"])
    row = table.loc[(name, size)]
    if name in NO_AGGREGATE:
        assert np.isnan(row.mse)
        return
    truth = exact_mse(exact, name, size)
    assert within(row.mse, row.mse_low, row.mse_high, truth)
    if np.isfinite(row.law):
        assert within(row.law, row.law_low, row.law_high, truth)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_prompts_own_mse_where_there_is_no_aggregate(finished, exact, size):
    """Of each prompt, within four standard errors of its replicates."""
    errors = dict(np.load(finished[0] / "errors.npz"))[f"opo/{size}"]
    standard_error = errors.std(1, ddof=1) / np.sqrt(errors.shape[1])
    truth = np.array([one.mse(ESTIMATORS["opo"], size) for one in exact])
    assert (abs(errors.mean(1) - truth) < 4 * standard_error).all()


def test_prompt_moments_are_the_enumerated_ones(finished, exact):
    table = pd.read_csv(finished[0] / "prompts.csv")
    for (_, row), one in zip(table.iterrows(), exact, strict=True):
        moments = one.moments()
        # Four binomial standard errors of 2048 rewards; the rest within 15%.
        assert abs(row.value - one.value) < 4 * np.sqrt(one.value * (1 - one.value) / 2048)
        np.testing.assert_allclose(row.score_norm2, moments.norm2[0], rtol=0.15)
        np.testing.assert_allclose(row.zeta, moments.zeta[0], rtol=0.15)
        np.testing.assert_allclose(row.trace_oracle, moments.trace_oracle[0], rtol=0.15)
        np.testing.assert_allclose(row.best_baseline, moments.best_baseline[0], atol=0.05)


def test_relative_mse_divides_by_the_aggregates_gradient(finished, exact):
    table = pd.read_csv(finished[0] / "mse.csv")
    gradient = np.mean([one.gradient for one in exact], axis=0)
    implied = (table.mse / table.relative_mse).dropna()
    np.testing.assert_allclose(implied, implied[0], rtol=1e-6)
    np.testing.assert_allclose(implied[0], gradient @ gradient, rtol=0.15)


def test_files_of_a_result(finished):
    folder, probe, _ = finished
    results = ResultsFolder(folder)
    assert results.is_complete()
    assert load_probe(folder / "config.yaml") == probe
    errors = dict(np.load(folder / "errors.npz"))
    assert errors["grpo/4"].shape == (3, 1200 // 4)
    table = pd.read_csv(folder / "mse.csv").set_index(["estimator", "group_size"])
    np.testing.assert_allclose(
        errors["oracle/8"].mean(1).sum() / 9, table.loc[("oracle", 8)].mse, rtol=1e-9
    )
    text = (folder / "completions.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 3 * (2048 + 1200)
    keys = {"prompt", "pool", "text", "reward", "length", "truncated", "log_prob"}
    assert set(lines[0]) == keys
    environment = json.loads((folder / "environment.json").read_text())
    assert {"versions", "device_model", "commit", "seconds", "peak_memory_bytes"} <= set(
        environment
    )
    checks = json.loads((folder / "checks.json").read_text())
    assert checks["ok"]
    assert {"name", "figure", "bound", "ok"} <= set(checks["checks"][0])
    assert not (folder / "shards").exists()


def test_plain_error_is_larger_by_the_same_amount_everywhere(finished):
    table = pd.read_csv(finished[0] / "mse.csv")
    # The median's weights of 1000 make an MSE of 1e5; the table has ten digits of it.
    table = table[table.mse < 100]
    excess = table.mse_plain - table.mse
    np.testing.assert_allclose(excess, excess.iloc[0], atol=2e-8, rtol=0)
    assert excess.iloc[0] > 1e-4


def test_a_restart_by_torchrun_is_not_fresh(write_probe, tmp_path):
    probe, out = load_probe(write_probe()), tmp_path / "out"
    spec = prepare("small", probe, out, tmp_path)
    assert not execute(spec).finished_before
    restarted = Processes()
    restarted.restarted = True
    assert execute(replace(spec, processes=restarted), fresh=True).finished_before
    assert not execute(spec, fresh=True).finished_before


WIDTH = 0.8


@pytest.fixture
def probe(write_probe):
    return load_probe(write_probe())


@pytest.fixture
def until(probe, tmp_path):
    def run(width=WIDTH, *, fresh=False):
        told = []
        spec = prepare("small", probe, tmp_path / "out", tmp_path)
        run_until(spec, width=width, fresh=fresh, tell=told.append)
        return told

    return run


def test_rounds_are_added_until_every_curve_is_narrow(probe, until, tmp_path):
    told = until()
    folder = tmp_path / "out"
    table = pd.read_csv(folder / "mse.csv")
    widths = (table["mse_high"] - table["mse_low"]) / 2 / table["mse"]
    assert told
    assert widths.max() == pytest.approx(widest(folder))
    assert widths.max() <= WIDTH
    rounds = rounds_begun(probe, folder)
    assert rounds > 1
    # The same bytes as a run whose pool was that large from the first.
    larger = with_rounds(probe, rounds)
    execute(prepare("small", larger, tmp_path / "whole", tmp_path))
    assert (folder / "mse.csv").read_bytes() == (tmp_path / "whole/mse.csv").read_bytes()
    assert until() == []  # It is left as it is.


def test_a_round_that_was_begun_goes_on(probe, until, tmp_path, monkeypatch):
    from mse_lab.run import resume

    measured, plain = [], resume.measure_prompt

    def measure(subject, index):
        if len(measured) == len(subject.prompts) + 2:
            raise KeyboardInterrupt
        measured.append(subject.probe.pool.replicate)
        return plain(subject, index)

    monkeypatch.setattr(resume, "measure_prompt", measure)
    with pytest.raises(KeyboardInterrupt):
        until()
    begun = measured[-1]
    assert begun > probe.pool.replicate
    measured.clear()
    monkeypatch.setattr(
        resume, "measure_prompt",
        lambda subject, index: (measured.append(subject.probe.pool.replicate),
                                plain(subject, index))[1],
    )  # fmt: skip
    until()
    assert measured[0] == begun
    assert probe.pool.replicate not in measured


@pytest.mark.parametrize(("width", "more"), [(0.1, 128), (0.5 / 2**0.5, 64)])
def test_what_twice_the_replicates_do_not_narrow_is_said(until, monkeypatch, width, more):
    none = Outcome([], [], False, None)
    monkeypatch.setattr("mse_lab.run.run_probe.execute", lambda run, fresh: none)
    monkeypatch.setattr("mse_lab.run.run_probe.widest", lambda folder: 0.5)
    first, last = until(width)
    assert f"next {more}" in first
    assert "raise pool.reference" in last


def test_next_rounds_follow_the_square_of_the_width_and_grow_by_a_quarter():
    assert next_rounds(3, 0.2, 0.15) == 6
    assert [next_rounds(rounds, 0.1001, 0.1) for rounds in (1, 3, 16)] == [2, 4, 20]


def test_near_the_goal_few_measurements_are_thrown_away(probe, until, monkeypatch):
    """The reference's noise stays, so each estimate of the rounds needed is too low."""
    rounds = []

    def execute(run, *, fresh):
        rounds.append(run.probe.pool.replicate // probe.pool.replicate)
        return Outcome([], [], False, None)

    monkeypatch.setattr("mse_lab.run.run_probe.execute", execute)
    monkeypatch.setattr(
        "mse_lab.run.run_probe.widest", lambda folder: 0.09 + 0.11 / rounds[-1]
    )
    until(0.1)
    # A round at a time it took 1, 4, 6, 7, 8, 9, 10, 11: 33% more completions.
    assert rounds == [1, 4, 6, 8, 10, 13]


def test_a_pool_too_large_is_refused(probe):
    with pytest.raises(InputError, match="ask for wider intervals"):
        with_rounds(probe, 10**6)


def test_where_no_error_is_measured_no_round_is_added(probe, until, tmp_path, monkeypatch):
    monkeypatch.setattr("mse_lab.run.run_probe.widest", lambda folder: float("nan"))
    assert until() == []
    assert rounds_begun(probe, tmp_path / "out") == 1


def test_several_processes_are_refused(monkeypatch, capsys):
    monkeypatch.setattr("mse_lab.commands.run.started_by_torchrun", lambda: True)
    assert run_mse.main(["run", "tiny/base", "--until", "10%"]) == 2
    assert "--until takes one process" in capsys.readouterr().err


@pytest.mark.parametrize("width", ["0", "120%", "wide", "nan"])
def test_a_width_that_is_none(width, capsys):
    assert run_mse.main(["run", "tiny/base", "--until", width]) == 2
    assert "is no share from 0 to 1" in capsys.readouterr().err
