"""More rounds of replicates until the curves are narrow."""

import pandas as pd
import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.probe.probe_files import load_probe
from mse_lab.run.prepare import prepare
from mse_lab.run.resume import Outcome
from mse_lab.run.run_probe import execute
from mse_lab.run.until import next_rounds, rounds_begun, run_until, widest, with_rounds

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
    monkeypatch.setattr("mse_lab.run.until.execute", lambda run, fresh: none)
    monkeypatch.setattr("mse_lab.run.until.widest", lambda folder: 0.5)
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

    monkeypatch.setattr("mse_lab.run.until.execute", execute)
    monkeypatch.setattr("mse_lab.run.until.widest", lambda folder: 0.09 + 0.11 / rounds[-1])
    until(0.1)
    # A round at a time it took 1, 4, 6, 7, 8, 9, 10, 11: 33% more completions.
    assert rounds == [1, 4, 6, 8, 10, 13]


def test_a_pool_too_large_is_refused(probe):
    with pytest.raises(InputError, match="ask for wider intervals"):
        with_rounds(probe, 10**6)


def test_where_no_error_is_measured_no_round_is_added(probe, until, tmp_path, monkeypatch):
    monkeypatch.setattr("mse_lab.run.until.widest", lambda folder: float("nan"))
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
