"""Facts of runs side by side: what a run has not is left empty."""

from types import SimpleNamespace

from mse_lab.report.run_facts import _checks, show_environment
from mse_lab.results.checks import Check


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
