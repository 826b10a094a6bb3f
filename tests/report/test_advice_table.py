"""Several advices: a line each, with the progress of a step."""

import json
from dataclasses import replace

import pytest

from mse_lab.report.advice_table import advice_lines, advice_list, progress


@pytest.mark.parametrize("size", [2, 8, 1])
def test_progress_is_one_over_one_and_the_error(known, size):
    """N ||g||^2 / (N ||g||^2 + c1 G + c2 + c3/(G-1)); alone a completion is vanilla's."""
    advice = known[2]
    used = replace(advice, setting=advice.setting._replace(group_size=size))
    error = advice.c1.value * size + (
        advice.c2.value + advice.c3.value / (size - 1) if size > 1 else advice.vanilla.value
    )
    error /= advice.gradient2.value
    assert progress(used, 64) == pytest.approx(64 / (64 + error))
    if size == advice.recommended:
        assert error == pytest.approx(advice.noise_scale.value)


def test_a_line_each_and_why_there_is_none(known):
    advice = known[2]
    advices = {
        "2": advice,
        "10": "rewards do not differ",
        "20": replace(advice, held=False),
    }
    heads, first, none, failed, why = advice_lines("step", advices, 64).splitlines()
    assert heads.split()[:3] == ["step", "reward", "G*"]
    assert first.endswith(f"  change to {advice.set_to}")
    assert none.split() == ["10", "\u2013", "\u2013", "\u2013", "no", "advice"]
    assert failed.endswith("a built-in check FAILED")
    assert why == "10: rewards do not differ"
    told = json.loads(advice_list("step", advices))
    assert [one["step"] for one in told] == ["2", "10", "20"]
    assert told[1]["refused"] == "rewards do not differ"
    assert told[0]["c1"]["value"] == pytest.approx(advice.c1.value, rel=1e-4)
