"""One number, one answer: what several doors show of one run is the same everywhere.

What texts and files show is compared, as it is written, with what the public door gives for
the run's arrays.
"""

import contextlib
import html
import io
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import mse_lab
import run_mse
from mse_lab.answers.statements import BEST, NEAR_AT_8
from mse_lab.formatting import with_interval
from mse_lab.mse.intervals import Estimate

ESTIMATORS = ["vanilla", "grpo", "oracle", "best-constant", "grpo-std", "opo"]
ROW, RATIO = ["estimator", "group_size"], ["ratio", "ratio_low", "ratio_high"]


def plain(page):
    """Take the text off a page, without its drawings; a space between its elements."""
    page = re.sub(r"<(svg|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


@pytest.fixture(scope="module")
def doors(tmp_path_factory, five):
    """What is read at each door of a run of five prompts; and the public one's answers."""
    folder = shutil.copytree(five / "small", tmp_path_factory.mktemp("one") / "one")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for command in ("claims", "advise", "report"):
            assert run_mse.main([command, str(folder)]) == 0
    result = mse_lab.analyse(
        dict(np.load(folder / "pools.npz")),
        group_sizes=[2, 4, 8],
        estimators=ESTIMATORS,
        resamples=200,
        name="one",
    )
    claims = pd.read_csv(folder / "claims.csv").set_index(["statement", "group_size"])
    return {
        "screen": said.getvalue(),
        "page": plain((folder / "report.html").read_text(encoding="utf-8")),
        "advice.json": json.loads((folder / "advice.json").read_text(encoding="utf-8")),
        "claims.csv": claims,
        "mse.csv": pd.read_csv(folder / "mse.csv").set_index(ROW),
        "result": result,
        "advice": result.advise(),
    }


def test_c1_to_c3_and_the_best_group_size(doors):
    """Theorem 7's row of claims and the page say the same of each as the advice."""
    advice, row = doors["advice"], doors["claims.csv"].loc[BEST.name].loc[np.nan]
    assert tuple(row[["value", "low", "high"]]) == pytest.approx(advice.best, rel=1e-6)
    named = {"c1": advice.c1, "c2": advice.c2, "c3": advice.c3, "G*": advice.best}
    for name, one in named.items():
        assert f"{name} {with_interval(one)}" in row["sentence"]
    assert f"GRPO-type errs least at G* = {with_interval(advice.best)}" in doors["page"]


def test_paired_ratios(doors):
    """Of GRPO-type to the oracle: mse.csv, and at G = 8 section 5.1 by the replicates."""
    exact = doors["result"].mse.set_index(ROW).loc[("grpo", 8), RATIO].to_numpy(float)
    written = doors["mse.csv"].loc[("grpo", 8), RATIO]
    assert written.to_numpy(float) == pytest.approx(exact, rel=1e-6)
    sentence = doors["claims.csv"].loc[(NEAR_AT_8.name, 8), "sentence"]
    assert f"by replicates {with_interval(Estimate(*exact))}" in sentence


def test_what_advice_costs_and_how_far_off_it_is(doors):
    """The screen of `advise`, the page, and the advice as data."""
    advice, kept = doors["advice"], doors["advice.json"]
    assert kept["noise_scale"]["low"] == pytest.approx(advice.noise_scale.low, 1e-4)
    scale, cost = (
        with_interval(one) for one in (advice.noise_scale, advice.ladder[-1].cost)
    )
    assert f"Half of the progress possible takes {scale} " in doors["page"]
    assert re.search(rf"best: .* G = 1 +{re.escape(cost)} ", doors["screen"])
