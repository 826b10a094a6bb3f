"""The study: every statement once."""

import pytest

from mse_lab.studies.theory import epochs, lemma_6, step_sizes
from mse_lab.studies.theory.effort import Effort
from mse_lab.studies.theory.study import study


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(lemma_6, "LENGTH", 20)
    monkeypatch.setattr(epochs, "SETTLE", 0.1)
    monkeypatch.setattr(step_sizes, "LENGTHS", (20, 50))
    monkeypatch.setattr(step_sizes, "CONSTANTS", (2.0, 4.0, 6.0, 8.0))


def test_every_statement_once():
    told = []
    found = study(Effort(0, 20, (5, 10)), told.append)
    names = [one.statement for one in found.findings]
    assert len(set(names)) == len(names) == 54
    parts = (
        "Lemma 6(a)",
        "Lemma 6(b)",
        "Corollary 9",
        "Corollary 10",
        "Lemma 11",
        "Theorem 12",
    )
    for part in parts:
        assert any(name.startswith(part) for name in names), part
    first = {"theorem_8", "corollary_9", "best_size", "lemma_6"}
    assert set(found.tables) == first | {"standardised", "theorem_12", "clip", "kl"}
    assert told == ["Theorem 8", "best group size", "Lemma 6", "Appendix A", "step sizes"]
