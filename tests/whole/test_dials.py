"""What moves rho: the committed table agrees with its line and with its page."""

from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
TABLE = pd.read_csv(ROOT / "results/dials/table.csv", dtype={"level": str})


def test_the_committed_table_agrees_with_its_line():
    assert len(TABLE) == 78
    assert TABLE["checks_held"].all()
    worse = TABLE["vanilla_to_oracle"] > 1
    assert (worse == (TABLE["share"] > 1 / 2)).all()
    assert (worse == (TABLE["rho"] > TABLE["line"])).all()
    np.testing.assert_allclose(TABLE["best_baseline"] / TABLE["value"], TABLE["share"])


def test_the_page_tells_the_pair_of_working_and_words_as_the_table_does():
    page = " ".join((ROOT / "results/README.md").read_text("utf-8").split())
    pair = TABLE[
        (TABLE["dial"] == "random words around") & TABLE["series"].str.contains("4 steps")
    ]
    ends = ["vanilla_to_oracle", "vanilla_to_oracle_low", "vanilla_to_oracle_high"]
    for level, rows in pair.groupby("level"):
        said = [
            f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in rows[ends].values
        ]
        if level != "6":
            said = [one.partition(" ")[0] for one in said]
        assert " and ".join(said) in page, level
