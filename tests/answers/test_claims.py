"""Claims of whole runs: degenerate ones, the files, what is refused."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from claimed_runs import DESIGNS, PROMPTS, evidence_of, verdicts, write_run
from mse_lab import answers
from mse_lab.answers import claims, statement
from mse_lab.answers.arguments import ARGUMENTS
from mse_lab.answers.claims import judge_run, judge_runs
from mse_lab.answers.measured_run import read_run
from mse_lab.errors import InputError
from mse_lab.report.claims_report import claims_screen
from simulated import Design


def degenerate(rewards, prompts=PROMPTS, sizes=(4, 8)):
    """Make a run whose rewards are all equal, or that has a few prompts."""
    design = DESIGNS["fair"]
    cut = Design(*(getattr(design, name)[:prompts] for name in design.__annotations__))
    if rewards is not None:
        cut = replace(cut, reward_PC=np.full_like(cut.reward_PC, rewards))
    pools = cut.draw(np.random.default_rng(3), 64, 2, max(sizes))
    return evidence_of("degenerate", pools, sizes, draws=200)


@pytest.mark.parametrize(
    "evidence",
    [degenerate(0.0), degenerate(1.0), degenerate(None, 1), degenerate(None, 3, (8,))],
    ids=["never right", "always right", "one prompt", "one size"],
)
def test_degenerate_runs_are_judged_without_a_warning(evidence):
    found = judge_run(evidence)
    assert len(verdicts(found)) == 21
    assert claims_screen(found)


def test_never_right_proves_nothing():
    """Every error is zero: identities hold, everything else is undecided."""
    found = verdicts(judge_run(degenerate(0.0)))
    assert found.pop("Lemma 1") == "holds"
    for argument in ARGUMENTS:
        found.pop(argument.name)
    assert set(found.values()) == {"undecided"}


def test_runs_of_one_name_are_refused(tmp_path):
    folders = [write_run(tmp_path / one / "quiet", "quiet", 1) for one in "ab"]
    with pytest.raises(InputError, match="two runs are named quiet"):
        judge_runs([read_run(folder) for folder in folders])


def test_a_folder_of_tables_only_is_refused(tmp_path):
    folder = write_run(tmp_path / "quiet", "quiet", 1)
    (folder / "pools.npz").unlink()
    with pytest.raises(InputError, match=r"tables only; .* mse-lab run quiet$"):
        judge_runs([read_run(folder)])
    (folder / "mse.csv").unlink()
    with pytest.raises(InputError, match=r"no finished run; make it with"):
        judge_runs([read_run(folder)])


NEW = """
from mse_lab.answers.statement import Statement, judges
OURS = Statement("Remark 99", "Says nothing.", short="a remark of ours", number="none")
@judges(order=35)
def judge_remark(run):
    return OURS.about(run).undecided("nothing", "It was never meant to be measured.")
"""


def test_a_statement_is_one_file(tmp_path, monkeypatch):
    """A new file is judged in its place, and shown; two of one order are refused."""
    monkeypatch.setattr(statement, "JUDGES", dict(statement.JUDGES))
    monkeypatch.setattr(claims, "JUDGES", statement.JUDGES)
    monkeypatch.setattr(answers, "__path__", [*answers.__path__, str(tmp_path)])
    (tmp_path / "remark_99.py").write_text(NEW)
    found = judge_run(degenerate(0.0))
    names = list(dict.fromkeys(one.statement.partition(" (")[0] for one in found))
    place = names.index("Remark 99")
    assert names[place - 1 : place + 2] == ["Proposition 3", "Remark 99", "Corollary 4"]
    assert "a remark of ours" in claims_screen(found)
    (tmp_path / "remark_100.py").write_text(NEW)
    with pytest.raises(ValueError, match="two statements have the order 35"):
        judge_run(degenerate(0.0))
    for name in ("remark_99", "remark_100"):
        sys.modules.pop(f"mse_lab.answers.{name}", None)
