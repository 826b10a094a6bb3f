"""The ladder: its rows, what is typed for them, and other losses beside it.

Its numbers are held against their truth in `whole/test_unbiased_numbers.py`.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.answers import ladder
from mse_lab.answers.advice_evidence import allowed_sizes
from mse_lab.answers.ladder import Ladder
from mse_lab.config.training import DEFAULT, read_training
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.prompt_table import PromptTable
from simulated import evidence_of_pools

GRPO_8 = read_training({"loss_type": "dr_grpo", "estimator": "grpo"})
VERL = {"trainer": "verl", "rollout.n": 8, "algorithm.adv_estimator": "rloo"}


def ladder_of(pools, setting=GRPO_8):
    return Ladder(evidence_of_pools(pools, setting))


@pytest.fixture(scope="module")
def rows(known):
    return {row.row: row for row in ladder_of(known[1]).rows()}


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


def test_grpo_type_stands_for_a_biased_loss_over_whole_epochs(known, rows):
    """Its own costs are others, but those of the baselines are as over GRPO-type at 8."""
    biased = {row.row: row for row in ladder_of(known[1], DEFAULT).rows()}
    for name in ("trainer", "best"):
        assert biased[name].cost.value != pytest.approx(rows[name].cost.value, rel=1e-3)
        assert biased[name].in_epochs == pytest.approx(rows[name].in_epochs, rel=1e-9)


@pytest.mark.parametrize(
    ("estimator", "knows", "priced"),
    [
        ("best-constant-loo", False, "best-constant-loo"),
        ("grpo-std", False, "grpo"),
        ("grpo-std", True, "grpo-std"),
    ],
)
def test_a_biased_loss_has_a_direction_where_the_gradient_is_known(
    known, monkeypatch, estimator, knows, priced
):
    monkeypatch.setattr(PromptTable, "knows_gradient", lambda *_: knows)
    monkeypatch.setattr(ladder, "find_aims", lambda *_: {8: "an aim"})
    setting = read_training({"trainer": "other", "G": 8, "estimator": estimator})
    assert ladder_of(known[1], setting).entry == priced


@pytest.mark.parametrize(
    ("settings", "name", "trainer"),
    [
        ({"loss_type": "dr_grpo", "estimator": "grpo"}, "num_generations", "GRPOTrainer"),
        ({"loss_type": "grpo"}, "num_generations", "GRPOTrainer"),
        ({"trainer": "rloo", "num_generations": 8}, "num_generations", "RLOOTrainer"),
        ({"trainer": "other", "G": 8, "estimator": "grpo"}, "G", None),
    ],
    ids=["TRL", "lengths", "RLOO", "other"],
)
def test_what_is_typed(known, settings, name, trainer):
    """Groups of one take a constant alone; of a trainer without baselines it says why."""
    for row in ladder_of(known[1], read_training(settings)).rows():
        size = f"{name}={row.group_size}"
        lam = "" if row.group_size == 1 else f"lam={row.lam}, "
        fitted = trainer and f"with_baseline({trainer}, alpha={row.alpha}, {lam}{size})"
        assert row.typed == {"yours": None, "size": size}.get(row.row, fitted)
        assert (row.why is None) == (row.typed is not None or row.row == "yours")


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({}, "loss_type=dr_grpo, scale_rewards=none"),
        ({"loss_type": "dr_grpo", "scale_rewards": False}, ""),
        ({"loss_type": "dr_grpo", "scale_rewards": "none"}, ""),
        ({"trainer": "rloo"}, "beta=0.0"),
        ({"trainer": "rloo", "beta": 0}, ""),
        (VERL, ""),
        (
            VERL | {"loss_agg_mode": "seq-mean-token-mean"},
            "actor_rollout_ref.actor.loss_agg_mode=token-sum",
        ),
    ],
)
def test_what_is_set_beside_a_baseline(known, settings, needs):
    """Only that which it does not have already."""
    rows = {row.row: row for row in ladder_of(known[1], read_training(settings)).rows()}
    for name in ("trainer", "best"):
        assert (rows[name].needs or "") == needs
    assert rows["size"].needs is None


def test_what_is_allowed_divides_the_batch():
    """Of 32 completions a step. G = 1 has no leave-one-out baseline."""
    batch = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}
    assert allowed_sizes(read_training(batch)) == (2, 4, 8, 16, 32)


def test_verl_takes_a_constant_without_a_group(known):
    rows = {row.row: row for row in ladder_of(known[1], read_training(VERL)).rows()}
    assert rows["trainer"][1:] == rows["best"][1:]
    assert rows["best"].group_size == 1
    assert (
        f"rollout.n=1 algorithm.adv_estimator=rloo, each reward less {rows['best'].alpha}"
        in (rows["best"].typed)
    )


def test_a_factor_costs_nothing(known):
    """`centred` is GRPO-type times (G-1)/G; a batch's spread is one factor, too."""
    whole = ladder_of(known[1])
    for entry in ("centred", {"name": "batch-std", "eps": 1e-4, "length": "token-batch"}):
        other = ladder_of(known[1], replace(GRPO_8, weights=entry))
        np.testing.assert_array_equal(other.base.noise, whole.base.noise)
        assert all(math.isfinite(row.cost.value) for row in other.rows())
