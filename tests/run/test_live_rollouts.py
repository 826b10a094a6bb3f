"""A live model measured by the rollouts of its own training."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from mse_lab.answers.sampled_run import SampledRun
from mse_lab.mse.one_pool import PromptSample, gradient_weights
from mse_lab.mse.samples import Samples
from mse_lab.mse.verdict import decide
from mse_lab.report.advice_files import advise_sampled_run
from mse_lab.run import live_rollouts, rollout_groups
from mse_lab.trl import MSECallback
from trl_training import BASE, SEED, advise_apart, right, train

pytest.importorskip("trl", reason="needs the extra train")

# Groups of a step, and of the first look, which ends a measurement: those of four steps, in
# which the 12 prompts come once, and four of them again.
SIZE, GROUPS, FIRST_PROMPTS, STEPS = 8, 4, 16, 4


class Steps(transformers.TrainerCallback):
    """Keeps the weights that each step begins with."""

    def __init__(self):
        self.weights = []

    def on_step_begin(self, args, state, control, model=None, **given):
        """Keep them."""
        copied = {name: one.detach().clone() for name, one in model.state_dict().items()}
        self.weights.append(copied)


class Heard:
    """A reward that keeps what it is given and gives."""

    def __init__(self):
        self.calls = []

    def __call__(self, prompts, completions, completion_ids, answer, **columns):
        """Reward right answers."""
        rewards = right(completions, answer)
        self.calls.append((list(prompts), list(completion_ids), rewards))
        return rewards


CHANGES = {
    **{"num_generations": SIZE, "per_device_train_batch_size": SIZE * GROUPS // 2},
    **{"gradient_accumulation_steps": 2, "learning_rate": 1e-4},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train with a callback: in five steps one measurement, and a part of another."""
    folder, steps, heard = tmp_path_factory.mktemp("own"), Steps(), Heard()
    callback = MSECallback(every=4, budget=SIZE * FIRST_PROMPTS, share=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_rollouts, "FIRST_PROMPTS", FIRST_PROMPTS)
        patch.setattr(rollout_groups, "FIRST_PROMPTS", FIRST_PROMPTS)
        watched = callback.watch(heard)
        trainer, screen = train(folder, [callback, steps], watched, **CHANGES)
    return SimpleNamespace(
        **{"trainer": trainer, "screen": screen, "end": torch.get_rng_state()},
        **{"weights": steps.weights, "calls": heard.calls},
        found=[line for line in trainer.state.log_history if "mse/step" in line],
    )


def test_the_training_is_the_same_bit_for_bit(trained, tmp_path):
    other, _ = train(tmp_path, [], **CHANGES)
    assert torch.equal(trained.end, torch.get_rng_state())
    weights, plain = trained.trainer.model.state_dict(), other.model.state_dict()
    assert all(torch.equal(weights[name], plain[name]) for name in plain)
    assert any((weights[name] != trained.weights[0][name]).any() for name in plain)
    rewards = [[line["reward"] for line in one.state.log_history if "reward" in line]
               for one in (trained.trainer, other)]  # fmt: skip
    assert rewards[0] == rewards[1]


def scores(model, prompt, completions):
    """Differentiate each completion's log-probability by itself, (N, D)."""
    for tokens in completions:
        ids = torch.tensor([[*prompt, *tokens]])
        laws = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        model.zero_grad()
        laws[range(len(tokens)), tokens].sum().backward()
        yield torch.cat([one.grad.flatten() for one in model.parameters()]).numpy()


def by_hand(model, tokenizer, prompt, completions, rewards):
    scores_ND = np.stack(list(scores(model, tokenizer(prompt).input_ids, completions)))
    rewards_N, scored = np.array(rewards), np.arange(len(rewards))
    gradient_D = gradient_weights(rewards_N, scored) @ scores_ND
    lengths_N = np.array([len(tokens) for tokens in completions])
    gram_NN = scores_ND @ scores_ND.T
    return PromptSample(rewards_N, scored, gram_NN, gradient_D, lengths_N, 0.0)


@pytest.fixture(scope="module")
def advised(trained):
    """Advise by the same rollouts, differentiated one by one in float64."""
    model = transformers.AutoModelForCausalLM.from_pretrained(BASE).double()
    tokenizer = transformers.AutoTokenizer.from_pretrained(BASE)
    blocks = {}
    for weights, call in list(zip(trained.weights, trained.calls, strict=True))[:STEPS]:
        model.load_state_dict({name: one.double() for name, one in weights.items()})
        for at in range(0, len(call[0]), SIZE):
            prompts, *rest = (column[at : at + SIZE] for column in call)
            assert len(set(prompts)) == 1
            found = by_hand(model, tokenizer, prompts[0], *rest)
            blocks.setdefault(prompts[0], []).append(found)
    decision = decide([tuple(each) for each in blocks.values()])
    run = SampledRun("by hand", Samples.of(blocks.values()), "budget", seed=SEED)
    return advise_sampled_run(run, decision, (SIZE,)), run


def test_its_numbers_are_those_of_the_rollouts_differentiated_one_by_one(trained, advised):
    (found,), (advice, run) = trained.found, advised
    numbers = {
        "best_group_size": advice.best.value,
        "best_group_size_low": advice.best.low,
        "noise_scale": advice.noise_scale.value * advice.row(SIZE).cost.value,
        "rho": advice.regime.rho.value,
        "value": np.mean([rewards.mean() for rewards in run.rewards]),
    }
    for name, value in numbers.items():
        assert found[f"mse/{name}"] == pytest.approx(value, rel=1e-5), name


def test_it_is_marked_as_of_the_policies_that_drew_them(trained):
    (found,) = trained.found
    assert (found["mse/step"], found["mse/steps"], found["step"]) == (3, 4, 4)
    verdict = "mse_lab: steps 0 to 3: (Keep|Set|Cannot tell whether) num_generations"
    assert re.search(verdict, trained.screen)
    assert "Of 128 rollouts, 8 a prompt, at the policies that drew them." in trained.screen
    assert "mse_lab: 1 measurements took " in trained.screen


def test_a_measurement_that_the_training_ends_before_is_counted(trained):
    assert (
        "mse_lab: 32 rollouts were differentiated, too few for an answer" in trained.screen
    )
    assert "; 1 were skipped" in trained.screen


def test_no_completion_is_drawn_and_no_reward_asked_for_it(trained):
    assert [len(rewards) for _, _, rewards in trained.calls] == [SIZE * GROUPS] * 5


def test_the_trainer_names_the_reward_as_without_it(trained):
    assert "rewards/Heard/mean" in trained.trainer.state.log_history[0]


def test_it_agrees_with_completions_of_its_own(trained):
    """At steps this short the policies are nearly the first one."""
    advice = advise_apart(192)
    (found,) = trained.found
    low, high = (found[f"mse/best_group_size{end}"] for end in ("_low", "_high"))
    assert low < advice.best_group_size < high
    assert advice.low < found["mse/best_group_size"] < advice.high


def test_one_of_two_reward_functions_is_refused(tmp_path):
    callback = MSECallback(every=1, budget=SIZE * 48, share=1.0)
    rewards = [callback.watch(right), lambda completions, **_: [1.0] * len(completions)]
    _, screen = train(tmp_path, [callback], rewards, **CHANGES | {"max_steps": 1})
    assert "2 reward functions, of which one is watched" in screen
    assert (callback.measured, callback.skipped) == (0, 1)
