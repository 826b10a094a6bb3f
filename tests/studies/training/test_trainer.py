"""TRL's trainer, set by us, makes the steps of Algorithm 1.

A run of one step is carried out as it is; what it changed the parameters by, over eta, is
compared with (1/N) sum_x sum_i w_xi W_xi of the completions that it drew, differentiated
by autograd through the tool's own log-probabilities, and with the tool's own scores.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.sampling import next_log_probabilities
from mse_lab.scores.score_block import score_block
from mse_lab.studies.training.settings import Arm, Evaluation, Run, Training

trl = pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")

from mse_lab.studies.training import trainer as trainers  # noqa: E402
from mse_lab.studies.training.task import load_task  # noqa: E402

ETA = 0.5
# Unlike what they could be mistaken for.
SAMPLING = {"max_new_tokens": 3, "temperature": 0.8}


@pytest.fixture
def task(write_probe, tmp_path, checkpoint):
    """A task in float64 whose rewards differ often, and are not all 0 or 1."""
    path = write_probe(
        model={"path": str(checkpoint), "device": "cpu", "dtype": "float64"},
        sampling=SAMPLING,
    )
    return replace(load_task(str(path), tmp_path), reward=graded)


def graded(text, _):
    return sum(map(ord, text)) % 5 / 4


def run_of(group_size, **settings):
    given = {"probe": "x", "budget": 8, "steps": 1, "eta": ETA} | settings
    training = Training(**given, group_sizes=[group_size])
    return Run(Arm("main", training, Evaluation()), group_size, seed=3)


def test_a_training_that_diverges_is_one_line(task, monkeypatch):
    def diverge(_):
        torch.multinomial(torch.full((2,), torch.nan), 1)

    monkeypatch.setattr(trl.GRPOTrainer, "train", diverge)
    with pytest.raises(InputError, match=r"main-G2-seed3: eta = 100000: .*lower eta"):
        trainers.train(run_of(2, eta=1e5), task, [], lambda step, model: None)


class Watched:
    """Carries out a run; keeps its first batch and the parameters after each step."""

    def __init__(self, run, task, monkeypatch):
        self.batch, self.parameters = None, []
        original = trl.GRPOTrainer._calculate_rewards

        def calculate(trainer, inputs, prompts, completions, tokens):
            rewards = original(trainer, inputs, prompts, completions, tokens)
            if self.batch is None:
                self.batch = [row["index"] for row in inputs], tokens, rewards[:, 0]
            return rewards

        monkeypatch.setattr(trl.GRPOTrainer, "_calculate_rewards", calculate)
        trainers.train(run, task, list(range(run.arm.training.steps + 1)), self.look)

    def look(self, _, model):
        flat = [one.detach().flatten() for one in model.parameters()]
        self.parameters.append(torch.cat(flat).clone())

    def step(self, number=1):
        return self.parameters[number] - self.parameters[number - 1]


def padded(tokens):
    longest = max(map(len, tokens))
    rows = np.array([one + [0] * (longest - len(one)) for one in tokens])
    unused, lengths = np.zeros(len(tokens)), np.array([len(one) for one in tokens])
    return Completions(rows, lengths, unused, unused > 0)


def weights_of(estimator, watched, task, size):
    index, tokens, rewards = watched.batch
    norms2 = torch.zeros(len(rewards))
    if estimator == "best-constant-loo":
        norms2 = torch.tensor(
            [norm2_of(task, *pair) for pair in zip(index, tokens, strict=True)]
        )
    lengths = torch.tensor([len(one) for one in tokens])
    shaped = [one.reshape(-1, size) for one in (rewards, lengths, norms2)]
    return trainers.group_weights(find_estimator(estimator), *shaped)


def gradient_of(task, log_prob):
    found = torch.autograd.grad(log_prob, list(task.policy.parameters.values()))
    return torch.cat([one.flatten() for one in found])


def norm2_of(task, prompt, tokens):
    with task.policy.differentiable():
        log_prob = sequence_log_probs(task.policy, task.tokens[prompt], padded([tokens]))
        return float(gradient_of(task, log_prob.sum()).square().sum())


def estimate_of(watched, weights, task):
    """(1/N) sum w_i W_i, every completion by itself."""
    index, tokens, _ = watched.batch
    with task.policy.differentiable():
        log_probs = [
            sequence_log_probs(task.policy, task.tokens[prompt], padded([own]))
            for prompt, own in zip(index, tokens, strict=True)
        ]
        return gradient_of(task, (weights * torch.cat(log_probs)).mean())


def assert_close(found, expected):
    assert expected.norm() > 1e-3
    assert (found - expected).norm() < 1e-6 * expected.norm()


@pytest.mark.parametrize(
    ("estimator", "size", "micro"),
    [("grpo", 2, None), ("grpo", 4, None), ("grpo", 4, 4), ("vanilla", 1, None),
     ("best-constant-loo", 4, None), ("best-constant-loo", 4, 8)],
)  # fmt: skip
def test_a_step_is_algorithm_1s(task, monkeypatch, estimator, size, micro):
    run = run_of(size, estimator=estimator, micro_batch=micro, budget=2 * (micro or 4))
    watched = Watched(run, task, monkeypatch)
    weights = weights_of(estimator, watched, task, size)
    assert_close(watched.step() / ETA, estimate_of(watched, weights, task))


def test_a_step_has_the_norm_and_direction_of_the_tools_scores(task, monkeypatch):
    """||s||^2 = w'Kw/G^2 = <s, g_hat>: then the difference has norm zero."""
    watched = Watched(run_of(8), task, monkeypatch)
    weights = weights_of("grpo", watched, task, 8).numpy()
    index, tokens, _ = watched.batch
    step, names, at = watched.step() / ETA, task.policy.parameters, 0
    reference = {}
    for name, one in names.items():
        reference[name] = step[at : at + one.numel()].view_as(one)
        at += one.numel()
    scores = score_block(task.policy, task.tokens[index[0]], padded(tokens), reference)
    norm2 = float(step.square().sum())
    assert norm2 > 1e-6
    assert weights @ scores.gram_NN @ weights / 64 == pytest.approx(norm2, rel=1e-6)
    assert weights @ scores.products_N / 8 == pytest.approx(norm2, rel=1e-6)


def test_the_inverse_schedule(task, monkeypatch):
    """Step i has eta / (i + offset): the first of them a third, the next a fourth."""
    run = run_of(4, schedule="inverse", offset=2)
    watched = Watched(run, task, monkeypatch)
    weights = weights_of("grpo", watched, task, 4)
    assert_close(watched.step() / ETA * 3, estimate_of(watched, weights, task))
    optimiser, schedule = trainers._inverse(run, trainers._trained_copy(task.policy), 12.0)
    rates = []
    for _ in range(3):
        rates += schedule.get_last_lr()
        optimiser.step()
        schedule.step()
    assert rates == pytest.approx([4, 3, 2.4])


def test_adamw_takes_eta_as_it_is(task, monkeypatch):
    """Its first step is eta in every coordinate that has a gradient."""
    moved = Watched(run_of(4, optimiser="adamw", eta=0.01), task, monkeypatch).step().abs()
    assert moved.max() == pytest.approx(0.01, rel=1e-3)


def test_prompts_are_drawn_as_said(task):
    iid = task.draw_prompts(run_of(4, steps=2000))
    assert len(iid) == 2000 * 8 // 4
    counts = np.bincount(iid, minlength=5)
    # 4,000 of 5: each count within five standard deviations, sqrt(4000 0.2 0.8) = 25.3.
    assert (abs(counts - 800) < 127).all()
    assert counts.std() > 0
    epochs = task.draw_prompts(run_of(4, steps=5, prompts="epochs"))
    assert sorted(epochs[:5]) == sorted(epochs[5:]) == list(range(5))


def test_the_prompts_of_a_step_are_those_that_were_drawn(task, monkeypatch):
    run = run_of(2, budget=32)
    index, _, _ = Watched(run, task, monkeypatch).batch
    assert index == list(np.repeat(task.draw_prompts(run), 2))


def test_completions_are_drawn_from_the_policy(task, monkeypatch):
    """First tokens of 4,096 completions of a prompt against its law at the temperature.

    Each share is within 5 standard errors: false alarm below 1e-5.
    """
    # What a checkpoint says of its own generation counts for nothing.
    settings = task.policy.model.generation_config
    settings.do_sample, settings.top_k, settings.top_p = True, 2, 0.5
    index, tokens, _ = Watched(run_of(4096, budget=4096), task, monkeypatch).batch
    prompt = torch.tensor([task.tokens[index[0]]])
    law = next_log_probabilities(task.policy, prompt, None)[0].exp().detach().numpy()
    shares = np.bincount([one[0] for one in tokens], minlength=len(law)) / len(tokens)
    assert (abs(shares - law) < 5 * np.sqrt(law * (1 - law) / len(tokens))).all()
