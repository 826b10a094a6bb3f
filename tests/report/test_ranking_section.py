"""The ranking on the page: names, and who leads."""

from types import SimpleNamespace

from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.intervals import Estimate
from mse_lab.report.ranking_section import _leader, _marked


def row(name, *ratio):
    return SimpleNamespace(estimator=ESTIMATORS[name], ratio=Estimate(*ratio))


def test_marks():
    assert _marked(ESTIMATORS["oracle"]) == "oracle*"
    assert _marked(ESTIMATORS["grpo"]) == "grpo"


def test_the_oracle_does_not_lead():
    ranked = [row("oracle", 1, 1, 1), row("grpo", 1.2, 1.1, 1.3), row("centred", 2, 1, 3)]
    assert "grpo comes first at 1.20 (1.10 to 1.30)" in _leader(ranked)
    assert _leader(ranked[:1]) == ""


def test_what_has_another_objective_does_not_lead():
    ranked = [row("pass-at-k", 0.5, 0.4, 0.6), row("grpo", 1.2, 1.1, 1.3)]
    assert "that training could use, grpo comes first" in _leader(ranked)
