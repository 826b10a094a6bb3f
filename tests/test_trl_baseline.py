"""A baseline of one's own in TRL's trainers: its numbers, and what it refuses."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from toy import make_groups
from trl import GRPOTrainer, RLOOTrainer

from mse_lab.config.training import read_training
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.trl import MSECallback, with_baseline
from trl_training import BASE, ROWS, make, right, spread, train

# Of the libraries about each other.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

OWN = {"loss_type": "dr_grpo", "scale_rewards": "none"}
RLOO = {"beta": 0.0}
ONE = {"alpha": 0, "num_generations": 1}
BY_LOGITS = with_baseline(GRPOTrainer, weights="logits", num_generations=1)


def partly(completions, **columns):
    """The same, where not all are known."""
    return [None if one > 0.7 else one for one in spread(completions)]


def drawn(trainer, size):
    """A batch of a trainer, of its first prompts."""
    trainer.model.train()
    rows = [row for row in trainer.train_dataset for _ in range(size)]
    return trainer._generate_and_score_completions(rows[: trainer._train_batch_size])


def flat(trainer):
    return torch.cat([one.detach().flatten() for one in trainer.model.parameters()])


# Its numbers.


def logit_norms2(trainer, batch):
    """The squared gradient of each completion's log-probability in the logits, (N,)."""
    norms2, scaled = [], trainer.temperature
    rows = zip(*(batch[f"{one}_ids"] for one in ("prompt", "completion")), strict=True)
    masks = zip(*(batch[f"{one}_mask"] for one in ("prompt", "completion")), strict=True)
    for (prompt, completion), (seen, kept) in zip(rows, masks, strict=True):
        prompt, completion = prompt[seen.bool()], completion[kept.bool()]
        logits = trainer.model(torch.cat([prompt, completion])[None]).logits[0]
        logits = (logits[len(prompt) - 1 : -1] / scaled).detach().requires_grad_()
        chosen = logits.log_softmax(-1).gather(-1, completion[:, None])
        norms2.append(torch.autograd.grad(chosen.sum(), logits)[0].square().sum().item())
    return np.array(norms2)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({"alpha": 0.3}, 1),
        ({"alpha": -0.2, "lam": 0.6}, 4),
        ({"weights": "equal", "over": "batch"}, 1),
        ({"weights": "length", "over": "group"}, 4),
        ({"weights": "logits"}, 1),
        ({"weights": "logits", "over": "batch"}, 4),
        ({"weights": "logits", "over": "group"}, 2),
    ],
    ids=str,
)
def test_advantages_are_the_weights_of_the_named_estimator(tmp_path, given, size):
    made = with_baseline(GRPOTrainer, **given, num_generations=size)
    hot = {"temperature": 0.7, "per_device_train_batch_size": 8}
    trainer = make(tmp_path, (), spread, made, **OWN, **hot)
    batch = drawn(trainer, size)
    rewards = trainer._rewards[:, 0].double().numpy().reshape(-1, 1, size)
    assert len({*rewards.flat}) > 2
    lengths = batch["completion_mask"].sum(1).numpy().reshape(rewards.shape)
    norms2 = logit_norms2(trainer, batch).reshape(rewards.shape)
    groups = make_groups(rewards, lengths, np.nan, np.nan, np.nan, norms2)
    expected = find_estimator(made.baseline.entry).weights(groups)
    found = batch["advantages"].double().numpy()
    np.testing.assert_allclose(found, expected.flatten(), rtol=1e-4, atol=1e-6)
    assert [*trainer._logs["advantages"]] == pytest.approx(found.tolist())


@pytest.mark.parametrize(
    ("reward", "changes"),
    [
        (spread, {"reward_clip_range": (0.1, 0.8)}),
        (partly, {}),
        ([right, spread], {"reward_weights": [1.0, 0.3]}),
    ],
    ids=["clipped", "some", "two functions"],
)
def test_nothing_and_all_of_the_groups_mean_is_rloo_to_the_bit(tmp_path, reward, changes):
    given = {"num_generations": 4, "max_steps": 3, **RLOO, **changes}
    ours = with_baseline(RLOOTrainer, alpha=0, lam=1)
    first, second = (
        train(tmp_path, [], reward, made=made, **given)[0] for made in (ours, RLOOTrainer)
    )
    assert torch.equal(flat(first), flat(second))
    assert not torch.equal(flat(first), flat(make(tmp_path)))


# Trainings.


def test_groups_of_one_train_and_no_plain_trainer_sees_their_size(tmp_path):
    counted = []

    def reward(completions, prompts, **columns):
        counted.append(len({*prompts}))
        return spread(completions)

    trainer, _ = train(tmp_path, [], reward, made=BY_LOGITS, max_steps=2, **OWN)
    assert counted == [8] * 2
    assert not torch.equal(flat(trainer), flat(make(tmp_path)))
    given = make(tmp_path, made=GRPOTrainer, **OWN).args
    again = BY_LOGITS(str(BASE), [reward], given, Dataset.from_list(ROWS))
    assert (given.num_generations, again.args.num_generations) == (2, 1)


def test_a_training_that_goes_on_ends_where_it_would_have(tmp_path):
    given = OWN | {"save_strategy": "steps", "save_steps": 2, "max_steps": 4}
    given["rows"] = ROWS * 3  # In a later epoch TRL's own sampler starts anew.
    whole, _ = train(tmp_path, [], spread, made=BY_LOGITS, **given)
    resumed, _ = train(
        tmp_path, [], spread, str(tmp_path / "checkpoint-2"), made=BY_LOGITS, **given
    )
    assert torch.equal(flat(whole), flat(resumed))


def test_an_evaluation_keeps_the_trainers_own_advantages(tmp_path):
    made = with_baseline(GRPOTrainer, alpha=0.25, num_generations=1)
    rows = Dataset.from_list(ROWS)
    given = {"num_generations_eval": 2, "per_device_eval_batch_size": 4, "max_steps": 2}
    given |= {"eval_strategy": "steps", "eval_steps": 1, "eval_dataset": rows}
    trainer, _ = train(tmp_path, [], spread, made=made, **OWN, **given)
    assert sum("eval_reward" in line for line in trainer.state.log_history) == 2
    trainer.model.eval()
    rows = [row for row in trainer.eval_dataset for _ in range(2)]
    own = trainer._generate_and_score_completions(rows[:4])["advantages"]
    assert own.view(2, 2).sum(1).abs().max() < 1e-6


def test_adapters_are_trained_alone(tmp_path):
    peft = pytest.importorskip("peft", reason="needs peft")
    adapter = peft.LoraConfig(target_modules="all-linear")
    given = OWN | {"max_steps": 2, "peft_config": adapter}
    trainer, _ = train(tmp_path, [], spread, made=BY_LOGITS, **given)
    trained = {
        name: one for name, one in trainer.model.named_parameters() if one.requires_grad
    }
    assert all("lora" in name for name in trained)
    assert any(one.abs().sum() > 0 for name, one in trained.items() if "lora_B" in name)


def beside(folder, how, size):
    """What a callback beside a baseline logs at the first step, and says."""
    callback = MSECallback(ROWS, right, budget=144)
    made = with_baseline(GRPOTrainer, **how, num_generations=size)
    trainer, screen = train(folder, [callback], made=made, max_steps=1, **OWN)
    assert (callback.measured, callback.skipped) == (1, 0)
    return trainer.state.log_history[0], screen


def test_a_callback_beside_it_judges_that_baseline(tmp_path):
    """At what it logs as the best nothing is left to gain; far from it much is."""
    far, screen = beside(tmp_path, {"alpha": 0.9}, 1)
    assert "num_generations = 1" in screen
    best, _ = beside(tmp_path, {"alpha": far["mse/alpha"]}, 1)
    assert best["mse/alpha"] == far["mse/alpha"]
    assert best["mse/lam"] == 0
    assert 0.9 < best["mse/cost_over_best"] < 1.1 < far["mse/cost_over_best"]


# Refusals.


class Derived(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        return super()._generate_and_score_completions(inputs)


@pytest.mark.parametrize(
    ("trainer", "given", "said"),
    [
        (Derived, {"alpha": 0.1}, "derive from what is returned"),
        (dict, {"alpha": 0.1}, "give GRPOTrainer or RLOOTrainer"),
        (GRPOTrainer, {}, "give alpha, or alpha and lam, or weights alone"),
        (GRPOTrainer, {"lam": 1}, "give alpha, or alpha and lam, or weights alone"),
        (GRPOTrainer, {"alpha": 0.1, "weights": "logits"}, "or weights alone"),
        (GRPOTrainer, {"weights": "logits", "lam": 1}, "or weights alone"),
        (GRPOTrainer, {"alpha": "much"}, "alpha = 'much'"),
        (GRPOTrainer, {"alpha": 0.1, "lam": float("nan")}, "lam = nan: give a number"),
        (GRPOTrainer, {"alpha": True}, "alpha = True: give a number"),
        (GRPOTrainer, {"alpha": 10**400}, "alpha = 1000"),
        ("GRPOTrainer", {"alpha": 0.1}, "is not TRL's own; give GRPOTrainer or RLOOTr"),
        (GRPOTrainer, {"weights": "score"}, "give equal or logits or length"),
        (GRPOTrainer, {"weights": "logits", "over": "all"}, "give batch or group"),
        (GRPOTrainer, {"alpha": 0.1, "num_generations": 0}, "a whole number from 1"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_makes_no_baseline_is_refused(trainer, given, said):
    with pytest.raises(InputError, match=said):
        with_baseline(trainer, **given)


@pytest.mark.parametrize(
    ("trainer", "given", "changes", "said"),
    [
        (GRPOTrainer, {"alpha": 0.1}, {}, "set loss_type='dr_grpo'"),
        (GRPOTrainer, {"alpha": 0.1}, OWN | {"scale_rewards": "batch"}, "scale_rewards"),
        (GRPOTrainer, {"alpha": 0.1},
         OWN | {"multi_objective_aggregation": "normalize_then_sum"},
         "multi_objective_aggregation"),
        (RLOOTrainer, {"alpha": 0.1}, {}, "beta = 0.05"),
        (RLOOTrainer, {"alpha": 0.1}, RLOO | {"normalize_advantages": True}, "normalize"),
        (GRPOTrainer, ONE | {"lam": 1}, OWN, "leave lam out"),
        (GRPOTrainer, {"weights": "length", "over": "group", "num_generations": 1}, OWN,
         "take weights over the batch"),
        (GRPOTrainer, {"alpha": 0, "num_generations": 3}, OWN, "does not divide the 8"),
        (GRPOTrainer, ONE, OWN | {"rows": ROWS[:7]}, "7 prompts"),
        (GRPOTrainer, {"alpha": 0}, OWN | {"rows": ROWS[:3]}, "a batch takes 4"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)  # fmt: skip
def test_settings_that_undo_it_are_refused(tmp_path, trainer, given, changes, said):
    with pytest.raises(InputError, match=said):
        make(tmp_path, made=with_baseline(trainer, **given), **changes)


@pytest.mark.parametrize(("trainer", "name"), [(GRPOTrainer, "trl"), (RLOOTrainer, "rloo")])
def test_what_an_advice_sets_beside_it_is_taken(tmp_path, trainer, name):
    """With the trainer's defaults and no more than what is typed."""
    typed = read_training({"trainer": name}).needs.split(", ")
    changes = dict(one.split("=") for one in typed)
    changes |= {one: float(changes[one]) for one in {"beta"} & {*changes}}
    make(tmp_path, made=with_baseline(trainer, alpha=0.1), **changes)
