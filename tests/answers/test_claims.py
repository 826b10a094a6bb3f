"""Claims of whole runs: degenerate ones, the files, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from claimed_runs import (
    DESIGNS,
    PROMPTS,
    evidence_of,
    verdicts,
    write_run,
)
from mse_lab.answers.arguments import ARGUMENTS
from mse_lab.answers.claims import judge_run, judge_runs
from mse_lab.answers.measured_run import read_run
from mse_lab.errors import InputError
from mse_lab.report.claims_report import claims_screen
from simulated import Design


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
    assert len(verdicts(claims)) == 20
    assert claims_screen(claims)


def test_never_right_proves_nothing():
    """Every error is zero: identities hold, everything else is undecided."""
    found = verdicts(judge_run(degenerate(0.0)))
    assert found.pop("Lemma 1") == "holds"
    for argument in ARGUMENTS:
        found.pop(argument.name)
    assert set(found.values()) == {"undecided"}


def test_runs_of_one_name_are_refused(tmp_path):
    folders = [write_run(tmp_path / one / "quiet", "quiet", 1) for one in "ab"]
    with pytest.raises(InputError, match="two runs are named quiet"):
        judge_runs([read_run(folder) for folder in folders])


def test_a_folder_of_tables_only_is_refused(tmp_path):
    folder = write_run(tmp_path / "quiet", "quiet", 1)
    (folder / "pools.npz").unlink()
    with pytest.raises(InputError, match=r"tables only; .* mse-lab run quiet$"):
        judge_runs([read_run(folder)])
    (folder / "mse.csv").unlink()
    with pytest.raises(InputError, match=r"no finished run; make it with"):
        judge_runs([read_run(folder)])
