"""The ladder against populations of prompts whose costs are known.

Checks ask for four standard errors, read off an interval's width: false alarm about 1e-4
each. All seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers.advice_evidence import evidence_of_run
from mse_lab.answers.ladder import STEPS, Ladder
from mse_lab.config.training import DEFAULT, read_training
from mse_lab.estimators import find_estimator
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import find_aims
from populations import ExactTable
from simulated import analysed

GRPO_8 = read_training({"loss_type": "dr_grpo", "estimator": "grpo"})
VERL = {"trainer": "verl", "rollout.n": 8, "algorithm.adv_estimator": "rloo"}


def ladder_of(pools, setting=GRPO_8, completions=0):
    run = analysed(pools, [2, 4, 8, 16])
    return Ladder(evidence_of_run(run, setting, completions=completions))


@pytest.fixture(scope="module")
def rows(known):
    return {row.row: row for row in ladder_of(known[1]).rows()}


def standard_errors(estimate, truth):
    return abs(estimate.value - truth) / ((estimate.high - estimate.low) / (2 * 1.96))


def exact_ratio(design, row, completions=0, epochs=False):
    """Cost over GRPO-type at 8 in the population that the prompts are drawn from."""
    table = ExactTable.of(design)
    [aim], [base] = (
        [*find_aims(table, entry, [size]).values()]
        for entry, size in ((row.estimator, row.group_size), ("grpo", 8))
    )
    if epochs:
        aim, base = aim.in_epochs, base.in_epochs
    return (aim.cost(completions) / base.cost(completions)).item()


@pytest.mark.parametrize("completions", [0, 256])
def test_every_cost_is_that_of_the_population(known, completions):
    """Steps at N or completions, and where whole epochs cancel c1: paired over prompts."""
    for row in [*ladder_of(known[1], completions=completions).rows()][1:]:
        truth = exact_ratio(known[0], row, completions)
        assert standard_errors(row.cost, truth) < 4, row.row
        in_epochs = exact_ratio(known[0], row, completions, epochs=True)
        assert standard_errors(row.in_epochs, in_epochs) < 4, row.row
        assert abs(in_epochs - truth) > 0.01


def test_epochs_take_c1_alone_off_a_cost(known):
    """(c2 + c3/(H-1)) / (c2 + c3/(G-1)) by the constants that are printed."""
    ladder = ladder_of(known[1])
    constants = ladder.evidence.table.constants
    size = next(row for row in ladder.rows() if row.row == "size")

    def left(group):
        return (constants.c2 + constants.c3 / (group - 1)).item()

    assert size.in_epochs.value == pytest.approx(left(size.group_size) / left(8))


def test_rows_go_from_yours_to_the_best_of_all(rows):
    """Each costs no more than the one before by more than its left-out price may."""
    assert [*rows] == ["yours", "size", "trainer", "best"]
    assert (rows["yours"].cost, rows["yours"].typed) == (Estimate(1, 1, 1), None)
    assert (rows["yours"].alpha, rows["yours"].lam) == (0, 1)
    assert rows["trainer"].group_size >= 2
    costs = [row.cost.value for row in rows.values()]
    assert costs == sorted(costs, reverse=True)
    best = rows["best"]
    assert best.group_size == 1 or best.lam
    if best.group_size == 1:
        assert best.lam == 0


def test_progress_of_a_row_is_by_its_own_noise(rows):
    """N / (N + ns): where its steps over yours are r, progress is 1/r of yours."""
    for row in rows.values():
        assert [one.completions_per_step for one in row.progress] == [*STEPS]
        for one, yours in zip(row.progress, rows["yours"].progress, strict=True):
            ratio = yours.progress.value / one.progress.value
            assert one.steps.value == pytest.approx(ratio, rel=1e-6)


@pytest.mark.parametrize(
    ("setting", "trainer", "best"),
    [
        (
            GRPO_8,
            "with_baseline(GRPOTrainer, alpha={alpha}, lam={lam}, num_generations={size})",
            "with_baseline(GRPOTrainer, alpha={alpha}, num_generations=1)",
        ),
        (
            read_training({"loss_type": "grpo"}),
            "with_baseline(GRPOTrainer, alpha={alpha}, lam={lam}, num_generations={size}), "
            "loss_type=dr_grpo",
            "with_baseline(GRPOTrainer, alpha={alpha}, num_generations=1), "
            "loss_type=dr_grpo",
        ),
        (
            read_training({"trainer": "rloo", "num_generations": 8}),
            "with_baseline(RLOOTrainer, alpha={alpha}, lam={lam}, num_generations={size})",
            "with_baseline(RLOOTrainer, alpha={alpha}, num_generations=1)",
        ),
        (
            read_training({"trainer": "other", "G": 8, "estimator": "grpo"}),
            None,
            None,
        ),
    ],
    ids=["TRL", "lengths", "RLOO", "other"],
)
def test_what_is_typed(known, setting, trainer, best):
    for row in ladder_of(known[1], setting).rows():
        form = {"trainer": trainer, "best": best}.get(row.row, "num_generations={size}")
        if row.row in ("trainer", "best") and (form is None or row.group_size == 1):
            form = best
        if row.row != "yours" and (row.row != "size" or setting.trainer != "other"):
            said = {"alpha": row.alpha, "lam": row.lam, "size": row.group_size}
            assert row.typed == (form and form.format(**said))
        assert (row.why is None) == (row.typed is not None or row.row == "yours")


def test_verl_takes_a_constant_without_a_group(known):
    rows = {row.row: row for row in ladder_of(known[1], read_training(VERL)).rows()}
    assert rows["trainer"][1:] == rows["best"][1:]
    assert rows["best"].group_size == 1
    assert (
        f"rollout.n=1 algorithm.adv_estimator=rloo, each reward less {rows['best'].alpha}"
        in (rows["best"].typed)
    )


def test_what_else_the_trainer_s_settings_compute_is_priced(known):
    """At best sizes, and not your own; another trainer has none."""
    [one] = ladder_of(known[1]).prices()
    assert one.estimator == find_estimator(DEFAULT.estimator).name
    [aim], [base] = (
        find_aims(ExactTable.of(known[0]), entry, [size]).values()
        for entry, size in ((DEFAULT.estimator, one.group_size), ("grpo", 8))
    )
    assert standard_errors(one.cost, (aim.cost(0) / base.cost(0)).item()) < 4
    verl = ladder_of(known[1], read_training(VERL)).prices()
    assert {"vanilla", "batch-mean"} <= {one.estimator for one in verl}
    assert [one.cost for one in verl] == sorted(one.cost for one in verl)
    own = read_training({"trainer": "other", "G": 8, "estimator": "grpo"})
    assert not ladder_of(known[1], own).prices()


def test_a_factor_costs_nothing(known):
    """`centred` is GRPO-type times (G-1)/G; a batch's spread is one factor, too."""
    whole = ladder_of(known[1])
    for entry in ("centred", {"name": "batch-std", "eps": 1e-4, "length": "token-batch"}):
        other = ladder_of(known[1], replace(GRPO_8, weights=entry))
        np.testing.assert_array_equal(other.base.noise, whole.base.noise)
        assert all(math.isfinite(row.cost.value) for row in other.rows())
