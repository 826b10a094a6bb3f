"""The claims as written: files of a run, one screen, a table that no cell breaks."""

import pandas as pd

from claimed_runs import draw
from mse_lab.answers.statements import (
    LARGE_GROUPS,
    LAW,
    LEMMA,
    ON_AVERAGE,
    ORDER,
    judge_runs,
)
from mse_lab.report.claims_report import claims_screen
from written_runs import write_run


def test_the_file_of_a_run(tmp_path, carry_out):
    kinds = ("quiet", "small")
    pools = [draw(kind, sizes=(4, 8)).pools for kind in kinds]
    folders = [
        write_run(tmp_path / kind, one, kind, [4, 8])
        for kind, one in zip(kinds, pools, strict=True)
    ]
    carry_out("claims", *map(str, folders))
    table = pd.read_csv(folders[0] / "claims.csv")
    assert set(table["run"]) == {"quiet", "quiet, small"}
    assert set(table["verdict"]) == {
        *("holds", "fails", "does not carry over", "outside", "undecided", "not tested")
    }
    assert table["group_size"].isna().sum() == 14
    identities = table[table["kind"] == "identity"]["statement"]
    assert {*identities} == {LEMMA.name, LAW.name}
    # Both are of the model that `written_runs` names.
    order = table.set_index("statement").loc[ORDER.name]
    assert "of one model" in order["sentence"]
    assert table[["says", "sentence"]].notna().all(axis=None)


def test_several_runs_on_one_screen():
    """One verdict of all, or each with its runs."""
    claims = judge_runs([draw(kind, sizes=(4, 8)) for kind in ("quiet", "fair")])
    lines = claims_screen(claims).splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("quiet-1, fair-1: ")
    assert f"{ON_AVERAGE.short}: FAILS (quiet-1), holds (fair-1)" in text
    said = f"{LARGE_GROUPS.short}: does not carry over (quiet-1), holds (fair-1)"
    assert said in text
    assert any(line.endswith(f"{LAW.short}: holds") for line in lines)
    assert text.count(f"{ORDER.short} (quiet-1, fair-1)") == 1
