"""The two log-probabilities: KL, effective sample size, and what TRL would mask."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from log_makers import read, summarise
from mse_lab.errors import InputError
from mse_lab.trainer_logs.log_ratios import log_ratios


def line(drawn, given, **more):
    return {"prompt": "a", "reward": 0, "tokens": [1] * len(drawn), "log_probs": drawn,
            "trainer_log_probs": given, **more}  # fmt: skip


def test_by_hand(tmp_path):
    """Log ratios log 4, 0, -log 2 and 0 in one token each."""
    ratios = np.array([4.0, 1.0, 0.5, 1.0])
    lines = [line([-3.0], [-3.0 + float(np.log(one))]) for one in ratios]
    found = summarise(tmp_path, lines).log_ratios
    assert found.completions == 4
    assert found.kl_per_token == pytest.approx(np.mean(ratios - 1 - np.log(ratios)))
    assert found.sd == pytest.approx(np.log(ratios).std())
    assert found.effective == pytest.approx(ratios.sum() ** 2 / (ratios @ ratios) / 4)
    assert found.masked == 0.25
    assert found.kept == pytest.approx(2.5 / 4)


def test_a_long_completion_loses_most_of_the_gradient_to_a_mask():
    """16,000 tokens, KL 1e-4 a token: sd sqrt(2 T k), ESS exp(-2 T k), mass Phi(...).

    Tokens of 40 contexts with 30 words each, whose logits the engine has with some noise;
    20,000 completions, whose counts of words are multinomial. Seed fixed.
    """
    rng, tokens, completions = np.random.default_rng(0), 400, 20_000
    log_ratio_N, nats = np.zeros(completions), 0.0
    for _ in range(40):
        logits = rng.normal(size=30)
        engine = logits + 0.0145 * rng.normal(size=30)
        own, drawn = (np.exp(one) / np.exp(one).sum() for one in (logits, engine))
        log_ratio_N += rng.multinomial(tokens, drawn, completions) @ np.log(own / drawn)
        nats += tokens * drawn @ np.log(drawn / own)
    found = log_ratios(
        SimpleNamespace(
            tokens_N=np.full(completions, 40 * tokens),
            log_ratio_N=log_ratio_N,
            kl_N=np.full(completions, nats),
        )
    )
    assert found.kl_per_token == pytest.approx(1e-4, rel=0.1)
    spread = np.sqrt(2 * nats)
    assert found.sd == pytest.approx(spread, rel=0.02)
    # Large weights are rare, so that of a sample is too large.
    assert found.effective == pytest.approx(np.exp(-(spread**2)), abs=0.05)
    mass = stats.norm.cdf((np.log(3) - spread**2 / 2) / spread)
    assert found.kept == pytest.approx(mass, abs=0.02)
    assert 0.3 < mass < 0.5
    assert found.masked < 0.15


def test_tools_tokens_are_left_out(tmp_path):
    columns = read(tmp_path, [line([-1, -9, -1], [-1, -1, -1], mask=[1, 0, 1])]).columns
    assert columns.tokens_N.tolist() == [2]
    assert columns.log_ratio_N.tolist() == [0.0]


def test_tokens_without_one_are_left_out(tmp_path):
    columns = read(tmp_path, [line([-1.0, None], [-1.5, -1.0])]).columns
    assert columns.tokens_N.tolist() == [1]
    assert columns.log_ratio_N.tolist() == [-0.5]


def test_lists_of_unlike_lengths_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"line 1: 2 log-prob.* 1 of the trainer"):
        read(tmp_path, [line([-1.0, -1.0], [-1.0])])


@pytest.mark.parametrize("drawn", [True, False])
def test_a_probability_above_one_is_refused(tmp_path, drawn):
    """Also without the trainer's; what a tool wrote may have any number."""
    lines = [{"prompt": "a", "reward": 0, "tokens": [1, 2], "log_probs": [-1.0, 5.0]}]
    if not drawn:
        read(tmp_path, [{**lines[0], "mask": [1, 0]}])
        return
    with pytest.raises(InputError, match="line 1: 5 is no log-probability"):
        read(tmp_path, lines)


def test_with_one_of_them_nothing_is_said(tmp_path):
    lines = [{"prompt": "a", "reward": 0, "tokens": [1], "log_probs": [-1.0]}]
    assert summarise(tmp_path, lines).log_ratios is None
