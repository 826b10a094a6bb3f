"""Corrections on a tiny policy in float64, against autograd of single tokens.

The engine has the policy's logits and some noise, and all completions are enumerated.
"""

import json
import shutil
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from enumerated import as_completions, enumerate_policy
from models import random_model
from mse_lab.measurement.corrections import Block, correct, score_corrections
from mse_lab.mse.corrections import CORRECTIONS, EXACT, NAMES, pair_means
from mse_lab.probe.probe_files import load_probe
from mse_lab.run.prepare import load, prepare

POOL = {"reference": 24, "replicate": 16}
NOISE = torch.tensor(np.random.default_rng(5).normal(size=(2, 4)))


@dataclass
class Token:
    """A token's log-probability by policy and engine, and the former's gradient."""

    own: float
    engine: float
    gradient: np.ndarray


def token_of(policy, prompt, tokens, place):
    inputs = torch.tensor([[*prompt, *tokens]])
    with torch.enable_grad(), policy.differentiable():
        logits = policy.model(input_ids=inputs).logits[0, len(prompt) - 1 + place]
        own = logits.log_softmax(-1)[tokens[place]]
        parts = torch.autograd.grad(own, [*policy.parameters.values()])
    engine = (logits.detach() + NOISE[place]).log_softmax(-1)[tokens[place]]
    gradient = torch.cat([part.flatten() for part in parts]).numpy()
    return Token(float(own.detach()), float(engine), gradient)


def right(tokens):
    return 2.0 * (tokens[0] == 2) + len(tokens) / 2


class Listed:
    """All completions of a prompt: what the engine and the policy make of each."""

    def __init__(self, policy, prompt):
        exact = enumerate_policy(policy, prompt, 4, 2, right)
        self.tokens, self.rewards = exact.completions, exact.rewards
        self.each = [[token_of(policy, prompt, one, place) for place in range(len(one))]
                     for one in self.tokens]  # fmt: skip
        self.drawn = np.exp([sum(token.engine for token in one) for one in self.each])
        self.own = exact.probabilities
        self.gradient = exact.gradient

    def log_ratios(self):
        rows = [[token.own - token.engine for token in one] for one in self.each]
        return np.array([row + [0.0] * (2 - len(row)) for row in rows])

    def corrected(self, correction):
        """U of every completion, by the definition."""
        scores = []
        for tokens in self.each:
            ratios = np.array([token.own - token.engine for token in tokens])
            used = ratios if correction.per_token else ratios.sum(keepdims=True)
            weights = correction.weigh(used) * np.ones(len(tokens))
            scores.append(weights @ np.stack([token.gradient for token in tokens]))
        return np.stack(scores)


@pytest.fixture(scope="module")
def made(tmp_path_factory, checkpoint):
    """A subject whose completions the engine drew, and the list of its first prompt's."""
    folder = tmp_path_factory.mktemp("engine")
    # Unlike Qwen2 it has no norms in float32.
    random_model("gpt2", vocabulary=4, eos_token_id=0).save_pretrained(folder)
    for path in checkpoint.glob("tokenizer*"):
        shutil.copy(path, folder)
    rows = [
        {"id": "a", "problem": "1 2", "answer": 1},
        {"id": "b", "problem": "3", "answer": 1},
    ]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model": {"path": str(folder), "device": "cpu", "dtype": "float64"},
        "prompts": {"source": str(folder / "prompts.jsonl"), "template": "none"},
        "sampling": {"max_new_tokens": 2},
        "pool": POOL,
        "group_sizes": [2, 4],
    }
    (folder / "plain.yaml").write_text(json.dumps(values))
    plain = prepare("plain", load_probe(folder / "plain.yaml"), folder / "out", folder)
    subject = load(plain).subject
    listed = [Listed(subject.policy, tokens) for tokens in subject.tokens]
    rng, lines = np.random.default_rng(0), []
    for row, one in zip(rows, listed, strict=True):
        for kind in rng.choice(len(one.drawn), sum(POOL.values()), p=one.drawn):
            engine = [token.engine for token in one.each[kind]]
            line = {"tokens": list(one.tokens[kind]), "reward": one.rewards[kind]}
            lines.append({"prompt": row["id"], "engine_log_probs": engine, **line})
    (folder / "drawn.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    more = {"completions": str(folder / "drawn.jsonl"), "reward": "supplied"}
    (folder / "engine.yaml").write_text(json.dumps(values | more))
    engine = prepare("engine", load_probe(folder / "engine.yaml"), folder / "out", folder)
    return load(engine).subject, listed[0], lines


@pytest.mark.parametrize("place", range(len(CORRECTIONS)), ids=NAMES)
def test_the_bias_is_that_of_autograd_over_all_completions(made, place):
    """||E g_hat - g||^2, the means by single tokens' autograd, to 1e-10."""
    subject, listed, _ = made
    assert listed.drawn.sum() == pytest.approx(1, abs=1e-12)
    apart = listed.drawn * (listed.rewards - listed.drawn @ listed.rewards)
    bias = apart @ listed.corrected(CORRECTIONS[place]) - listed.gradient
    block = Block(as_completions(listed.tokens), listed.rewards, listed.log_ratios())
    gram, _ = score_corrections(subject, 0, block)
    own, crossed, exact = (gram[pair] for pair in
                           ((place, place), (place, EXACT), (EXACT, EXACT)))  # fmt: skip
    found = apart @ (own - crossed - crossed.T + exact) @ apart
    assert found == pytest.approx(bias @ bias, rel=1e-10, abs=1e-10)
    assert (found < 1e-10) == (place == EXACT)


def test_a_prompts_completions_are_measured_as_the_definition_says(made):
    subject, listed, lines = made
    kinds = [listed.tokens.index(tuple(one["tokens"])) for one in lines[:40]]
    found, rewards = correct(subject, 0), listed.rewards[kinds]
    np.testing.assert_allclose(found.log_ratios_N, listed.log_ratios()[kinds].sum(1))
    np.testing.assert_allclose(found.lengths_N, [len(one["tokens"]) for one in lines[:40]])
    parts = np.array_split(np.arange(40), 3)
    for place, correction in enumerate(CORRECTIONS):
        used = listed.corrected(correction)[kinds]
        gradients = [(rewards[part] - rewards[part].mean()) @ used[part] / (len(part) - 1)
                     for part in parts]  # fmt: skip
        mean = np.mean(gradients, axis=0)
        assert abs(found.gradients_FD[place] - mean).max() < 1e-5 * abs(mean).max()
        means = [pair_means(used[part] @ used[part].T, rewards[part]) for part in parts]
        pairs = sum(
            one @ other for one in gradients for other in gradients if one is not other
        )
        apart = (sum(one.apart for one in means) + pairs) / 9
        assert found.apart_FF[place, place] == pytest.approx(apart, rel=1e-4, abs=1e-7)
        for name in ("linked", "same"):
            expected = np.mean([getattr(one, name) for one in means])
            assert getattr(found, f"{name}_F")[place] == pytest.approx(expected, rel=1e-8)


def test_a_mean_weight_is_over_tokens(made):
    subject, listed, lines = made
    kinds = [listed.tokens.index(tuple(one["tokens"])) for one in lines[:40]]
    place = NAMES.index("TRL token_mask")
    ratios = np.exp(
        [token.own - token.engine for kind in kinds for token in listed.each[kind]]
    )
    expected = (ratios * (ratios <= 3)).mean()
    assert correct(subject, 0).mass_F[place] == pytest.approx(expected)
