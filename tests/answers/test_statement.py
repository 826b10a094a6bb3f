"""Statements of the paper, put to runs: how they are judged, claims, their table."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from claimed_runs import DESIGNS, PROMPTS, evidence_of, take, verdicts, write_run
from mse_lab import answers
from mse_lab.answers import statement
from mse_lab.answers.arguments import ARGUMENTS
from mse_lab.answers.assumption_2 import judge_norm_ratio
from mse_lab.answers.corollary_10_learned_policy import judge_learned_policy
from mse_lab.answers.judgement import Pair
from mse_lab.answers.measured_run import read_run
from mse_lab.answers.proposition_3_prompts import judge_random_prompts
from mse_lab.answers.statement import (
    FEW_PROMPTS,
    Case,
    Statement,
    judge_run,
    judge_runs,
    largest_ratio,
)
from mse_lab.answers.theorem_7_group_size import judge_best_group_size
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.report.claims_report import claims_screen
from simulated import Design, analysed

CASE = Case(Statement("S", "says"), ("run",), 0.95)


def number(value, error=0.001):
    """A number that varies by so much."""
    noise = np.random.default_rng(0).standard_normal((1, 1000))
    return Statistic(value, {"run": error * np.sqrt(noise.size) * noise}, {})


def pair(size, value, error=0.001, label="a / b"):
    return Pair(size, number(value, error), Statistic(1.0, {}, {}), label)


def told(claims):
    return [(claim.group_size, claim.verdict) for claim in claims]


def test_equality_fails_as_a_whole_where_one_size_fails():
    claims = CASE.equal([pair(2, 1.0), pair(4, 1.2), pair(8, 1.1, 1.0)], lambda _: "told")
    assert told(claims) == [(None, "fails"), (2, "holds"), (4, "fails"), (8, "undecided")]
    assert claims[0].estimate == claims[2].estimate
    assert "furthest off at G = 4: 1.200 (" in claims[0].measured
    assert "outside the interval" in claims[0].reason
    assert "more than 50%" in claims[3].reason


def test_a_size_holds_where_all_its_pairs_do_and_shows_the_worst():
    pairs = [pair(2, 0.5), pair(2, 0.9), pair(4, 0.5), pair(4, 1.5, label="c / d")]
    claims = CASE.smaller(pairs, "why")
    assert told(claims) == [(2, "holds"), (4, "fails")]
    assert [claim.estimate.value for claim in claims] == pytest.approx([0.9, 1.5])
    assert "a / b 0.500 (" in claims[1].measured
    assert "c / d 1.500 (" in claims[1].measured


def test_other_pairs_are_shown_than_those_judged():
    [claim] = CASE.not_larger([pair(4, 0.9)], [pair(4, 1.3)], "why")
    assert claim.verdict == "holds"
    assert claim.estimate.value == pytest.approx(1.3)


def test_evidence_is_what_nothing_makes_fail():
    identity = Case(Statement("S", "says", "other weights"), ("run",), 0.95)
    assert CASE.claim("m", "holds", "why").about.kind == "evidence"
    assert identity.claim("m", "holds", "why").about.kind == "identity"
    argued = replace(CASE, statement=replace(CASE.statement, argued=True))
    assert argued.claim("m", "fails", "why").about.kind == "argument"


def test_runs_are_judged_together_at_the_stricter_of_their_levels():
    runs = [SimpleNamespace(name="a", level=one, law_only=False) for one in (0.9, 0.99)]
    assert CASE.statement.about(*runs).level == 0.99


def test_without_replicates_all_is_undecided_and_with_them_nothing_is_said():
    untested = Case(Statement("S", "says"), ("run",), 0.95, untested="none")
    assert told(untested.without_replicates()) == [(None, "undecided")]
    assert CASE.without_replicates() == []


def test_the_worst_of_a_size_is_told_by_its_value_and_not_by_its_interval():
    pairs = [pair(4, 1.5, 0.2, "known well"), pair(4, 1.6, 0.3, "known badly")]
    [claim, *_] = CASE.smaller(pairs, "reason")
    assert claim.estimate.value == pytest.approx(1.6)
    low = [one.first.ratio_to(one.second, CASE.level).low for one in pairs]
    assert low[0] > low[1]


def test_an_unknown_ratio_is_not_the_largest():
    """Also where it comes first: nothing is larger than what is not a number."""
    rows = [
        CASE.claim("told", "holds", "", Estimate(value, value, value), 1.0, size)
        for size, value in ((2, np.nan), (4, 1.2), (8, 1.1))
    ]
    assert largest_ratio(rows).group_size == 4


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


@pytest.mark.parametrize(
    "judge",
    [judge_norm_ratio, judge_learned_policy, judge_random_prompts, judge_best_group_size],
)
def test_of_random_prompts_two_are_too_few_and_three_are_enough(judge):
    for prompts, few in ((2, True), (3, False)):
        pools = take(DESIGNS["fair"], prompts).draw(np.random.default_rng(0), 64, 4, 8)
        measured = [claim.measured for claim in judge(analysed(pools, (4, 8)))]
        assert all((one == FEW_PROMPTS[0]) == few for one in measured), prompts
