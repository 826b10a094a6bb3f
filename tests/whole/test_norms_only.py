"""Runs whose products between completions are not known: laws, and no replicates."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer

import run_mse
from mse_lab.mse.pools import Pools
from mse_lab.report.advice_report import advice_text
from mse_lab.report.figure_4 import compose
from mse_lab.results.finished_run import read_tables
from mse_lab.results.folder import ResultsFolder
from simulated import analysed, make_pools, norms_only

UNTESTED = {
    "Theorem 2, Proposition 3, Corollary 4",
    "Theorem 7 (best group size)",
}


def forget_products(folder, prompts):
    """Forget the products between completions of some prompts; make the tables again."""
    with np.load(folder / "pools.npz") as arrays:
        pools = norms_only(Pools(**arrays), prompts)
    np.savez(folder / "pools.npz", **vars(pools))
    ResultsFolder(folder).seal(["pools.npz"])
    for name in ("mse.csv", "laws.csv", "errors.npz"):
        (folder / name).unlink()


# Of which prompts the products are forgotten.
KINDS = {"whole": None, "none": slice(None), "last": slice(4, None)}
WITHOUT = ["none", "last"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, five):
    """One run whole, without products, and without the last prompt's."""
    root = tmp_path_factory.mktemp("norms")
    for kind, prompts in KINDS.items():
        folder = shutil.copytree(five / "small", root / kind / "small")
        if prompts is not None:
            forget_products(folder, prompts)
            words = ["run", str(five / "small.yaml"), "--out", str(root / kind)]
            assert run_mse.main(words) == 0
    return {kind: root / kind / "small" for kind in KINDS}


def read(folder, name):
    return pd.read_csv(folder / name).set_index(["estimator", "group_size"])


@pytest.mark.parametrize("kind", WITHOUT)
def test_the_law_is_that_of_the_whole_run(folders, kind):
    whole, found = (read(folders[one], "mse.csv") for one in ("whole", kind))
    assert list(found.columns) == list(whole.columns)
    assert whole["law"].notna().sum() == 15
    np.testing.assert_allclose(found["law"], whole["law"], rtol=1e-9)
    columns = found.columns.drop(["probe", "replicates", "law", "law_low", "law_high"])
    assert found[columns].isna().all(axis=None)
    assert (found["replicates"] == 0).all()
    assert (whole["replicates"] > 0).all()
    width, before = (one["law_high"] - one["law_low"] for one in (found, whole))
    assert (width[before.notna()] / before.dropna()).between(0.95, 1.2).all()
    before, after = (read(folders[one], "laws.csv") for one in ("whole", kind))
    for name in ("law", "slope", "bias2", "cosine"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12)
    tables = (pd.read_csv(folders[one] / "prompts.csv") for one in ("whole", kind))
    pd.testing.assert_frame_equal(*tables, rtol=1e-9)


def test_answers_by_the_law(folders, carry_out):
    """Claims and advice answer, and say in a line what they cannot; no NaN anywhere."""
    folder = folders["none"]
    printed = carry_out("claims", folder) + carry_out("advise", folder)
    assert "nothing can tell the law from the truth" in " ".join(printed.split())
    claims = pd.read_csv(folder / "claims.csv", keep_default_na=False)
    whole = claims[(claims["group_size"] == "") & (claims["verdict"] == "not tested")]
    untested = whole[whole["sentence"].str.contains("Without replicates")]
    assert set(untested["statement"]) >= UNTESTED
    assert not re.search(r"\b(nan|NaN|None)\b", printed)


def test_laws_are_drawn_as_lines_with_bands(folders):
    """Points where there are replicates; each estimator once in the legend of both."""
    above, below = compose([read_tables(folders["none"])]).axes
    curves = 3
    assert "law only" in above.get_title()
    assert (len(above.collections), len(below.collections)) == (curves, 0)
    # Below the oracle's is the line at one.
    for panel, count in ((above, curves), (below, curves - 1)):
        assert not [one for one in panel.containers if isinstance(one, ErrorbarContainer)]
        lines = [one for one in panel.lines if len(one.get_xdata()) == 3]
        assert len(lines) == count
        assert all(line.get_marker() == "None" for line in lines)
    above, below = compose([read_tables(folders["whole"])]).axes
    assert "law only" not in above.get_title()
    assert (len(above.containers), len(below.containers)) == (3, 2)
    [legend] = compose([read_tables(folders[kind]) for kind in ("none", "whole")]).legends
    names = ["Vanilla", "GRPO-type", "Oracle", "exact law"]
    assert [text.get_text() for text in legend.get_texts()] == names


def test_advice_needs_no_products():
    """It loses what the replicates say of ||g||^2, nearly nothing here, and no row."""
    pools = make_pools(60, 256, 4, 16)
    whole, found = (analysed(one, [4]).advise() for one in (pools, norms_only(pools)))
    assert (found.verdict, found.set_to) == (whole.verdict, whole.set_to)
    for name in ("c1", "c2", "c3", "best", "saves"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=0.01)
    sizes = [[row.group_size for row in one.ladder] for one in (found, whole)]
    assert sizes[0] == sizes[1]
    assert "warning: norms only" in advice_text(found)
    assert "warning: norms only" not in advice_text(whole)
