"""Claims of whole runs: degenerate ones, the files, what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from claimed_runs import (
    DESIGNS,
    LEVEL,
    PROMPTS,
    draw,
    evidence_of,
    verdicts,
)
from mse_lab.answers.claim import Claim
from mse_lab.answers.claims import judge_run, judge_runs
from mse_lab.answers.measured_run import read_run
from mse_lab.errors import InputError
from mse_lab.mse.intervals import UNKNOWN
from mse_lab.probe.probe_files import dump_probe, parse_probe
from mse_lab.report.claims_report import claims_markdown, write_claims
from mse_lab.results.records import Record
from simulated import Design, write_tables


def degenerate(rewards, prompts=PROMPTS, sizes=(4, 8)):
    """Make a run whose rewards are all equal, or that has a few prompts."""
    design = DESIGNS["fair"]
    cut = Design(*(getattr(design, name)[:prompts] for name in design.__annotations__))
    if rewards is not None:
        cut = replace(cut, reward_PC=np.full_like(cut.reward_PC, rewards))
    pools = cut.draw(np.random.default_rng(3), 64, 2, max(sizes))
    return evidence_of("degenerate", pools, sizes, draws=200)


@pytest.mark.parametrize(
    "evidence",
    [degenerate(0.0), degenerate(1.0), degenerate(None, 1), degenerate(None, 3, (8,))],
    ids=["never right", "always right", "one prompt", "one size"],
)
def test_degenerate_runs_are_judged_without_a_warning(evidence):
    claims = judge_run(evidence)
    assert len(verdicts(claims)) == 15
    assert claims_markdown(claims)


def test_never_right_proves_nothing():
    """Every error is zero: identities hold, everything else is undecided."""
    found = verdicts(judge_run(degenerate(0.0)))
    assert found.pop("Lemma 1") == "holds"
    assert set(found.values()) == {"undecided"}


def write_run(folder, kind, seed):
    record = Record(folder)
    evidence = draw(kind, seed, (4, 8))
    values = {"model": {"path": "x"}, "prompts": {"source": "x"}, "group_sizes": [4, 8],
              "pool": {"reference": 1024, "replicate": 32}, "estimators": ["grpo"],
              "interval": {"level": LEVEL}}  # fmt: skip
    record.path(".").mkdir(parents=True)
    record.path("config.yaml").write_text(dump_probe(parse_probe(values, "test")))
    record.write_pools(evidence.pools)
    write_tables(record, kind, PROMPTS)
    return folder


def test_written_claims(tmp_path):
    folders = [write_run(tmp_path / kind, kind, 1) for kind in ("quiet", "small")]
    claims = judge_runs([read_run(folder) for folder in folders])
    for folder in folders:
        write_claims(folder, claims)
    table, page = (folders[0] / name for name in ("claims.csv", "claims.md"))
    written = pd.read_csv(table)
    assert set(written["run"]) == {"quiet", "quiet, small"}
    assert set(written["verdict"]) == {"holds", "fails", "premise fails", "undecided"}
    assert written["group_size"].isna().sum() == 16
    assert (written["would_fail"].notna() == (written["kind"] == "identity")).all()
    assert written["says"].notna().all()
    assert "| Assumption 2 | evidence | **FAILS** |" in page.read_text()
    first = table.read_bytes()
    write_claims(folders[0], judge_runs([read_run(folder) for folder in folders]))
    assert table.read_bytes() == first


def test_bars_do_not_break_the_page():
    claim = Claim("S", ("a",), "||W||", "||W||^2 is 1", "holds", "why", 4, UNKNOWN)
    row = next(line for line in claims_markdown([claim]).splitlines() if "is 1" in line)
    assert row.replace(r"\|", "").count("|") == 6


def test_a_folder_of_tables_only_is_refused(tmp_path):
    folder = write_run(tmp_path / "quiet", "quiet", 1)
    (folder / "pools.npz").unlink()
    with pytest.raises(InputError, match=r"tables only; .* run_mse.py run quiet$"):
        judge_runs([read_run(folder)])
    (folder / "mse.csv").unlink()
    with pytest.raises(InputError, match=r"no finished run; make it with"):
        judge_runs([read_run(folder)])


def test_runs_of_one_name_are_refused(tmp_path):
    folders = [write_run(tmp_path / one / "quiet", "quiet", 1) for one in "ab"]
    with pytest.raises(InputError, match="two runs are named quiet"):
        judge_runs([read_run(folder) for folder in folders])
