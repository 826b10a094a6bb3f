"""The ranking on the page: names, places, and who leads."""

from types import SimpleNamespace

from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report.ranking_section import _leaders, _marked, _rank_cell


def row(name, ratio, *rank):
    return SimpleNamespace(
        estimator=ESTIMATORS[name], ratio=Estimate(*ratio), rank=Estimate(*rank)
    )


def test_marks_and_rank_cells():
    assert _marked(ESTIMATORS["oracle"]) == "oracle*"
    assert _marked(ESTIMATORS["grpo"]) == "grpo"
    assert _rank_cell(Estimate(2, 1.5, 2.5)) == "2<small>(1 to 3)</small>"
    assert _rank_cell(UNKNOWN) == "–"


def test_leaders():
    """The oracle is not to be had; a rank that reaches the best's is not told apart."""
    ranked = [
        row("oracle", (1, 1, 1), 1, 1, 1),
        row("grpo", (1.2, 1.1, 1.3), 2, 2, 3),
        row("vanilla", (1.5, 1.0, 2.0), 3, 2, 4),
        row("centred", (2.0, 1.9, 2.1), 4, 4, 4),
    ]
    said = _leaders(ranked)
    assert "grpo comes first at 1.20 (1.10 to 1.30)" in said
    assert said.endswith("scale-free MSE, not significantly different from vanilla.")
    assert _leaders(ranked[:1]) == ""
