"""Sections of the page: tables of the advice, who leads the ranking, facts side by side."""

from types import SimpleNamespace

import numpy as np
import pytest

from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.intervals import Estimate
from mse_lab.report.layout import estimate_cell
from mse_lab.report.sections import (
    _checks,
    _leader,
    _marked,
    _price_table,
    show_environment,
)
from mse_lab.results.checks import Check
from populations import advise_on, population, sample


@pytest.fixture(scope="module")
def advice():
    rng = np.random.default_rng(0)
    return advise_on(sample(population(rng), rng, reference=64, blocks=2, largest=16))


def test_prices_of_the_users_own_and_of_other_estimators(advice):
    priced = _price_table(advice).rows
    assert priced[0][1] == estimate_cell(advice.prices[0].cost)
    assert len(priced) == len(advice.alternatives) + 1 + (advice.set_to != 8)


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


def run(environment, *checks):
    probe = SimpleNamespace(model_dump=lambda mode: {"pool": {"reference": 4}})
    return SimpleNamespace(name="a", environment=environment, probe=probe, checks=checks)


def test_places_and_settings():
    here = {"seconds": 200, "versions": {"numpy": "2"}}
    shown = show_environment([run(here), run({"device": None, "cards": ["a", "b"]})])
    assert shown["environments"].rows == [
        ["seconds", "200", ""],
        ["versions.numpy", "2", ""],
        ["device", "", "–"],
        ["cards", "", "['a', 'b']"],
    ]
    assert shown["settings"].rows == [["pool.reference", "4", "4"]]


def test_a_check_is_written_with_its_bound():
    checks = [Check("a", 0.5, 1.0, True, "x"), Check("b", 2.0, 1.0, False, "<y>")]
    shown = _checks(run({}, *checks))
    assert list(shown) == ["a<small>x</small>", "b<small>&lt;y&gt;</small>"]
    holds, fails = shown.values()
    assert holds.endswith("✓ holds</span><small>0.500 ≤ 1</small>")
    assert fails.endswith("✗ FAILED</span><small>2 &gt; 1</small>")
