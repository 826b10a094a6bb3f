"""Several advices: a line each, with the progress of a step where N is known."""

import json
from dataclasses import replace

import pytest

from mse_lab.report.advice_table import advice_lines, advice_list


@pytest.mark.parametrize("completions", [None, 64])
def test_a_line_each_and_why_there_is_none(known, completions):
    advice = replace(known[2], completions_per_step=completions, verdict="change")
    advices = {
        "2": advice,
        "10": "rewards do not differ",
        "20": replace(advice, held=False),
    }
    heads, first, none, failed, why = advice_lines("step", advices).splitlines()
    assert heads.split()[:3] == ["step", "reward", "G*"]
    assert ("progress at N = 64" in heads) == (completions == 64)
    assert first.endswith(f"  change to {advice.set_to}")
    assert none.split() == ["10", *["\u2013"] * (2 + (completions == 64)), "no", "advice"]
    assert failed.endswith("a built-in check FAILED")
    assert why == "10: rewards do not differ"
    said = json.loads(advice_list("step", advices))
    assert [one["step"] for one in said] == ["2", "10", "20"]
    assert said[1]["refused"] == "rewards do not differ"
    assert said[0]["c1"]["value"] == pytest.approx(advice.c1.value, rel=1e-4)
