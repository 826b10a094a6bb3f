"""One number, one answer: what several doors show of one run is the same everywhere.

Every number is read off the texts and files as a reader would, and compared, to the digits
shown, with the one that the public door gives for the run's arrays.
"""

import contextlib
import html
import io
import json
import re
import shutil
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import mse_lab
import run_mse
from mse_lab.answers.statements import NEAR_AT_8

SIZES = [2, 4, 8]
ESTIMATORS = ["vanilla", "grpo", "oracle", "best-constant", "grpo-std", "opo"]
POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
NUMBER = r"(-?[\d,]+(?:\.\d+)?(?:e[-+]\d+| × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?)"
WORDS = rf"{NUMBER} \({NUMBER} to {NUMBER}\)"


def numbers(found):
    """Turn the groups of `WORDS` into decimals; a power of ten is that of all three."""
    plain = (one.replace(",", "").replace(" × 10", "e").translate(POWERS) for one in found)
    return [Decimal(one) for one in plain]


def read(text, lead):
    """Read a number with its interval that stands behind these words."""
    found = re.search(re.escape(lead) + r"\s*" + WORDS, text)
    assert found, lead
    return numbers(found.groups())


def agrees(shown, exact):
    """Whether a number as shown is this one, rounded to the digits shown."""
    if not np.isfinite(exact):
        return not shown.is_finite()
    unit = 10.0 ** shown.as_tuple().exponent
    return abs(float(shown) - exact) <= 0.5000001 * unit


def apart(places, exact):
    """Name the places that show another number."""
    return [
        place
        for place, shown in places.items()
        if not all(agrees(one, of) for one, of in zip(shown, exact, strict=True))
    ]


def plain(page):
    """Take the text off a page, without its drawings; a space between its elements."""
    page = re.sub(r"<(svg|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


@pytest.fixture(scope="module")
def run(tmp_path_factory, five):
    """A run of five prompts: its folder, and what the commands put on the screen."""
    folder = shutil.copytree(five / "small", tmp_path_factory.mktemp("one") / "one")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for command in ("claims", "advise", "report"):
            assert run_mse.main([command, str(folder)]) == 0
    return folder, said.getvalue()


@pytest.fixture(scope="module")
def doors(run):
    """What is read at each door: texts, tables, and the answers of the public one."""
    folder, screen = run
    result = mse_lab.analyse(
        dict(np.load(folder / "pools.npz")),
        group_sizes=SIZES,
        estimators=ESTIMATORS,
        resamples=200,
        name="one",
    )
    return {
        "screen": screen,
        "page": plain((folder / "report.html").read_text(encoding="utf-8")),
        "advice.json": (folder / "advice.json").read_text(encoding="utf-8"),
        "claims.csv": pd.read_csv(folder / "claims.csv"),
        "mse.csv": pd.read_csv(folder / "mse.csv").set_index(["estimator", "group_size"]),
        "result": result,
        "advice": result.advise(),
    }


def theorem_7(table):
    whole = table["group_size"].isna()
    [row] = table[whole & table["statement"].str.startswith("Theorem 7")].to_dict("records")
    return row


def test_c1_to_c3_and_the_best_group_size(doors):
    """Theorem 7's row of claims and the page say the same of each as the advice."""
    advice, row = doors["advice"], theorem_7(doors["claims.csv"])
    assert (row["value"], row["low"], row["high"]) == (
        pytest.approx(tuple(advice.best), rel=1e-6)
    )
    for name in ("c1", "c2", "c3", "G*"):
        exact = advice.best if name == "G*" else getattr(advice, name)
        assert not apart({"claims.csv": read(row["sentence"], name)}, exact), name
    assert not apart({"page": read(doors["page"], "Least error at G* =")}, advice.best)


def test_paired_ratios(doors):
    """Of GRPO-type to the oracle: mse.csv, and at G = 8 section 5.1 by the replicates."""
    size, columns = 8, ["ratio", "ratio_low", "ratio_high"]
    row = doors["result"].mse.set_index(["estimator", "group_size"]).loc["grpo", size]
    exact = row[columns].to_numpy(float)
    written = doors["mse.csv"].loc["grpo", size]
    assert written[columns].to_numpy(float) == pytest.approx(exact, rel=1e-6)
    table = doors["claims.csv"].set_index(["statement", "group_size"])
    sentence = table.loc[(NEAR_AT_8.name, size), "sentence"]
    assert not apart({"5.1": read(sentence, "by replicates")}, exact)


def test_the_two_squared_gradients_are_named_apart(doors):
    """That of the fixed prompts, of the aggregate; and that of the population."""
    fixed, population = (doors["result"].pools.aggregate_norm2, doors["advice"].gradient2)
    assert fixed != pytest.approx(population.value, rel=0.1)
    known = doors["mse.csv"].dropna(subset="mse")
    relative = known["mse"] / known["relative_mse"]
    assert relative.to_numpy() == pytest.approx(fixed, rel=1e-6)


def test_what_advice_costs_and_how_far_off_it_is(doors):
    """The screen of `advise`, the page, and the advice as data."""
    advice, screen = doors["advice"], doors["screen"]
    kept = json.loads(doors["advice.json"])
    assert kept["noise_scale"]["low"] == pytest.approx(advice.noise_scale.low, 1e-4)
    label = "Half of the progress possible takes"
    if np.isfinite(advice.noise_scale.high):
        assert not apart({"page": read(doors["page"], label)}, advice.noise_scale)
    best = advice.ladder[-1]
    shown = re.search(rf"best: .* G = 1 +{NUMBER} \({NUMBER} to", screen)
    found = [Decimal(one) for one in shown.groups()]
    assert all(agrees(one, of) for one, of in zip(found, best.cost, strict=False))


def test_an_interval_of_another_kind_is_seen(doors):
    """Negative control: c2 with the interval of a number that may be negative."""
    signed = doors["result"].table.estimate(lambda one: one.c2, 0.95)
    places = {"claims": read(theorem_7(doors["claims.csv"])["sentence"], "c2 ")}
    assert signed.value == pytest.approx(doors["advice"].c2.value)
    assert apart(places, signed) == ["claims"]
