"""TRL's own numbers on fixed completions: its advantages, and its losses' gradients.

TRL's trainer runs as it is; only the tokens that its model would generate are replaced.
At the policy that generated every ratio is 1 and clips nothing, so each loss descends
(1/(P G)) sum_x sum_i w_xi W_xi times a constant of its own.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
import torch
from toy import make_groups
from transformers import AutoTokenizer

from mse_lab.config.probe_files import load_probe
from mse_lab.estimators.objectives import Length
from mse_lab.estimators.registry import find_estimator
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_sums
from mse_lab.policy.policy import load_policy
from trl_training import make

pytest.importorskip("trl", reason="needs TRL: pip install -e '.[bench]'")

# TRL still calls the checkpointing of activations what transformers has renamed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*gradient_checkpointing.* is deprecated:FutureWarning"
)

END = 0
# Unlike what they could be mistaken for: 1, and the longest completion.
TEMPERATURE = 0.8
MAX_COMPLETION_LENGTH = 7
# Of unlike lengths, so that TRL pads them.
PROMPTS = ("1 2 3", "3", "2 2")
# What stands after an end token is no part of a completion; the fourth has no end token.
TOKENS_PGT = np.array(
    [
        [[1, END, 3, 3, 3], [2, 3, END, 1, 1], [END, 2, 2, 2, 2], [3, 1, 2, 1, 2]],
        [[2, 2, 2, END, 1], [1, END, END, 2, 3], [3, 2, END, 1, 2], [END, 1, 1, 1, 1]],
        [[1, 2, END, 3, 3], [END, 3, 3, 3, 3], [2, 1, 1, 3, END], [1, 1, 3, 2, END]],
    ]
)
# Binary fractions are exact in TRL's float32. Spreads near 1/10 tell s + eps from
# sqrt(s^2 + eps), which agree near s = 1/2. The last group's rewards are equal.
REWARDS_PG = np.array([[0.25, 0, 0, 0.125], [0.125, 0, 0, 0], [0.25] * 4])

EPS = 1e-4
CENTRED = {"name": "centred"}
GROUP_STD = {"name": "grpo-std", "eps": EPS}
BATCH_STD = {"name": "batch-std", "eps": EPS}
CANDIDATES = [
    CENTRED,
    {"name": "grpo"},
    *(
        {"name": name, **parameters}
        for name in ("grpo-std", "grpo-loo-std", "batch-std", "reinforce++")
        for parameters in ({"eps": EPS}, {}, {"eps": EPS, "ddof": 0})
    ),
]


@dataclass(frozen=True)
class Loss:
    """A loss of TRL's, and what it should descend."""

    loss_type: str
    scale_rewards: str
    entry: dict
    constant: float = 1.0


# TRL's `bnpo` counts the tokens of a micro-batch, here the whole batch. It is a length
# normalisation and no relative of the weights that are `bnpo` here.
LOSSES = [
    Loss("dr_grpo", "none", CENTRED | {"length": "none"}, 1 / MAX_COMPLETION_LENGTH),
    Loss("grpo", "group", GROUP_STD | {"length": "sequence"}),
    Loss("dapo", "group", GROUP_STD | {"length": "token-batch"}),
    Loss("bnpo", "batch", BATCH_STD | {"length": "token-batch"}),
]


def completion_lengths():
    """Tokens up to and with the first end token, or all where there is none, (P, G)."""
    is_end = TOKENS_PGT == END
    return np.where(is_end.any(-1), is_end.argmax(-1) + 1, TOKENS_PGT.shape[-1])


def weights_of(entry):
    """Our weights of the batch, (P, G)."""
    groups = make_groups(REWARDS_PG[:, None], completion_lengths()[:, None])
    return find_estimator(entry).weights(groups)[:, 0]


@pytest.fixture
def make_trainer(checkpoint, tmp_path, monkeypatch):
    """Return a function that makes a trainer whose model generates our tokens."""
    # TRL reports the making of a trainer to the Hub.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def generate(input_ids, **_):
        tokens = torch.from_numpy(TOKENS_PGT)
        return torch.cat([input_ids, tokens.flatten(0, 1)], dim=1)

    def make_ours(**options):
        trainer = make(
            tmp_path,
            reward=lambda completions, **_: REWARDS_PG.flatten().tolist(),
            rows=[{"prompt": text} for text in PROMPTS],
            model=checkpoint,
            # Qwen's own padding token is not one of the model's four tokens.
            processing_class=AutoTokenizer.from_pretrained(checkpoint, pad_token="<end>"),
            bf16=False,
            beta=0.0,
            temperature=TEMPERATURE,
            max_completion_length=MAX_COMPLETION_LENGTH,
            num_generations=REWARDS_PG.shape[1],
            per_device_train_batch_size=REWARDS_PG.size,
            **options,
        )
        monkeypatch.setattr(trainer.model, "generate", generate)
        trainer.model.train()
        return trainer

    return make_ours


@pytest.fixture
def policy(checkpoint, write_probe, tmp_path):
    """The checkpoint as a policy in float64, to be differentiated."""
    path = write_probe(
        model={"path": str(checkpoint), "device": "cpu", "dtype": "float64"},
        sampling={"max_new_tokens": 2, "temperature": TEMPERATURE},
    )
    loaded = load_policy(load_probe(path), tmp_path)
    with loaded.differentiable():
        yield loaded


def scored_batch(trainer):
    """TRL's batch of our completions: masks, advantages and the rest."""
    rows = [{"prompt": text} for text in PROMPTS for _ in range(trainer.num_generations)]
    return trainer._generate_and_score_completions(rows)


def their_weights(trainer):
    """TRL's advantages, (P, G)."""
    advantages = scored_batch(trainer)["advantages"]
    return advantages.double().numpy().reshape(len(PROMPTS), -1)


def their_gradient(trainer):
    """What TRL ascends: minus its loss's gradient, by parameter."""
    # The training loop sets it, and does not run here.
    trainer.current_gradient_accumulation_steps = 1
    trainer._compute_loss(trainer.model, scored_batch(trainer)).backward()
    return {name: -one.grad for name, one in trainer.model.named_parameters()}


def prompt_log_probs(policy, text, tokens_GT, lengths_G):
    """Differentiable log pi(Y_i | x) of a prompt's completions, (G,)."""
    unused = np.zeros(len(lengths_G))
    completions = Completions(tokens_GT, lengths_G, unused, unused > 0)
    return sequence_sums(policy, policy.tokenizer(text).input_ids, completions).log_probs_N


def our_gradient(policy, entry):
    """(1/(P G)) sum_x sum_i w_xi W_xi, by parameter."""
    batch = zip(PROMPTS, TOKENS_PGT, completion_lengths(), strict=True)
    log_probs_PG = torch.stack([prompt_log_probs(policy, *one) for one in batch])
    estimate = (torch.from_numpy(weights_of(entry)) * log_probs_PG).mean()
    gradients = torch.autograd.grad(estimate, list(policy.parameters.values()))
    return dict(zip(policy.parameters, gradients, strict=True))


def agree(theirs, ours, constant):
    """Whether gradients differ by 1e-5 of their norm at most."""
    assert theirs.keys() == ours.keys()
    expected = torch.cat([constant * ours[name].flatten() for name in ours])
    found = torch.cat([theirs[name].flatten() for name in ours])
    return bool((found - expected).norm() <= 1e-5 * expected.norm())


@pytest.mark.parametrize(
    ("scale_rewards", "expected"),
    [("group", GROUP_STD), ("batch", BATCH_STD), ("none", CENTRED)],
)
def test_advantages_are_the_weights_of_one_estimator(make_trainer, scale_rewards, expected):
    theirs = their_weights(make_trainer(scale_rewards=scale_rewards))
    agreeing = [
        entry
        for entry in CANDIDATES
        if np.allclose(theirs, weights_of(entry), rtol=1e-6, atol=0)
    ]
    assert agreeing == [expected]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.loss_type)
def test_loss_descends_the_estimate_of_one_estimator(make_trainer, policy, loss):
    trainer = make_trainer(loss_type=loss.loss_type, scale_rewards=loss.scale_rewards)
    theirs = their_gradient(trainer)
    agreeing = [
        entry | {"length": length}
        for entry in CANDIDATES
        for length in get_args(Length)
        if agree(theirs, our_gradient(policy, entry | {"length": length}), loss.constant)
    ]
    assert agreeing == [loss.entry]
