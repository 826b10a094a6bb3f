"""An engine's mismatch in words: the correction to use, and when none."""

import pytest

from mse_lab.answers.mismatch import Corrected, Mismatch
from mse_lab.mse.corrections import NAMES
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.report.mismatch_report import mismatch_sentences, mismatch_table

ONE = Estimate(0.9, 0.8, 1.0)


def mismatch_of(**changes):
    rows = tuple(Corrected(name, "", 1.0, ONE, ONE, ONE, ONE, ONE) for name in NAMES)
    values = {"group_size": 4, "budget": 1024, "kl_per_token": 1e-4, "sd": 1.79,
              "effective": 0.041, "needed": True, "best": None, "rows": rows}  # fmt: skip
    return Mismatch(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"best": "TRL token_truncate"}, "vllm_importance_sampling_mode=token_truncate"),
        ({"best": "IcePop"}, "rollout_is_threshold=0.5_5.0) brings the gradient closer"),
        ({"best": "exact"}, "The correction exact brings the gradient closer than none"),
        ({"needed": False}, "It needs no correction"),
        ({}, "No correction is shown to bring the gradient closer than none"),
    ],
)
def test_it_says_what_to_do(changes, words):
    far, advice = mismatch_sentences(mismatch_of(**changes))
    assert "sd 1.8, and uncut ratios an effective sample size of 4.1%" in far
    assert words in advice


def test_each_correction_has_a_row():
    lines = mismatch_table(mismatch_of(), 0.95).splitlines()
    assert [line.split("  ")[1].strip() for line in lines[-len(NAMES) :]] == [*NAMES]
    assert "90% (80 to 100)" in lines[-1]
    assert max(map(len, lines)) <= 84


def test_what_is_unknown_is_said():
    row = Corrected("none", "", 1.0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    assert "unknown" in mismatch_table(mismatch_of(rows=(row,)), 0.95)
