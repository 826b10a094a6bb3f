"""Facts of runs side by side: what a run has not is left empty, units are written."""

from types import SimpleNamespace

from mse_lab.report.run_facts import line_up, show_environment
from mse_lab.results.checks import Check


def run(environment, *checks):
    probe = SimpleNamespace(model_dump=lambda mode: {"pool": {"reference": 4}})
    return SimpleNamespace(environment=environment, probe=probe, checks=checks)


def test_places_and_settings():
    here = {"seconds": 200, "peak_memory_bytes": 71.4e9, "versions": {"numpy": "2"}}
    here["memory"] = {"budget_bytes": 763363328}
    shown = show_environment([run(here), run({"device": None, "cards": ["a", "b"]})])
    assert shown["places"] == {
        "time": ["3 min 20 s", ""],
        "peak memory": ["71 GB", ""],
        "versions.numpy": ["2", ""],
        "memory.budget": ["763 MB", ""],
        "device": ["", "–"],
        "cards": ["", "a, b"],
    }
    assert shown["settings"] == {"pool.reference": ["4", "4"]}


def test_a_check_that_one_run_has_not():
    both, alone = Check("a", 0.5, 1.0, True, "x"), Check("b", 2.0, 1.0, False, "y")
    found = line_up([run({}, both), run({}, both, alone)])
    assert found == {("a", "x"): [both, both], ("b", "y"): [None, alone]}
