"""Lines of a file of completions: what is read from them, and what is refused."""

import numpy as np
import pytest

from models import random_policy
from mse_lab.errors import InputError, shown
from mse_lab.policy.completion_lines import (
    parse_line,
    read_log_prob,
    read_reward,
    read_tokens,
)
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import load_probe

LINES = {
    "not JSON": ("{", "not valid JSON"),
    "no object": ("[1]", "not a JSON object"),
    "no prompt": ('{"tokens": [1]}', "prompt is missing; give the id"),
    "no tokens": ('{"prompt": "a", "ids": [1]}', "neither tokens nor text"),
    "unknown pool": (
        '{"prompt": "a", "tokens": [1], "pool": "x"}',
        "pool = 'x': use reference or replicate",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_broken_lines(case):
    text, message = LINES[case]
    with pytest.raises(InputError, match=f"here: {message}"):
        parse_line(text.encode(), "here")


TOKENS = {
    "empty": ([], "no tokens; an empty completion is its end token alone"),
    "no numbers": (["a"], "give a list of token ids"),
    "no integers": ([1.5, 2], "give a list of token ids"),
    "nested": ([[1, 2]], "give a list of token ids"),
    "ragged": ([[1], 2], "give a list of token ids"),
    "a number": (3, "give a list of token ids"),
    "negative": ([-1, 1], "token -1 is not in the vocabulary of 11"),
    "outside": ([11, 1], "token 11 is not in the vocabulary of 11"),
    "too long": ([3] * 7, "7 tokens, and sampling.max_new_tokens = 6"),
    "cut too soon": ([3, 4], "2 tokens without an end token"),
    "end in the middle": ([3, 2, 4, 1], "end token 2 is number 2 of 4 tokens"),
    "two ends": ([3, 1, 1], "end token 1 is number 2 of 3 tokens"),
}


@pytest.mark.parametrize("case", TOKENS)
def test_tokens_that_the_policy_cannot_draw(case):
    tokens, message = TOKENS[case]
    line = {"prompt": "a", "tokens": tokens}
    with pytest.raises(InputError) as caught:
        read_tokens(line, "here", random_policy(), 6)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "tokens", [[1], [2], [3, 1], [0, 2], [3] * 6, [3] * 5 + [1]], ids=str
)
def test_tokens_that_the_policy_can_draw(tokens):
    found = read_tokens({"prompt": "a", "tokens": tokens}, "here", random_policy(), 6)
    assert found.tolist() == tokens


def test_texts_are_ended_where_they_are_short(checkpoint, write_probe, tmp_path):
    """Of at most two tokens: the end token is 0."""
    policy = load_policy(load_probe(write_probe()), tmp_path)

    def tokens_of(text):
        return read_tokens({"prompt": "a", "text": text}, "here", policy, 2).tolist()

    assert [tokens_of(text) for text in ("", "3", "3 1")] == [[0], [3, 0], [3, 1]]
    assert tokens_of("3 <end>") == [3, 0]
    with pytest.raises(InputError, match=r"3 tokens, and sampling.*give tokens"):
        tokens_of("1 2 3")


def test_texts_that_were_cut_are_not_ended(checkpoint, write_probe, tmp_path):
    """However few tokens they have, or many."""
    policy = load_policy(load_probe(write_probe()), tmp_path)

    def tokens_of(text, truncated=True):
        line = {"prompt": "a", "text": text, "truncated": truncated}
        return read_tokens(line, "here", policy, 2)

    own = [tokens_of(text) for text in ("3", "3 1", "1 2 3")]
    assert [tokens.tolist() for tokens in own] == [[3], [3, 1], [1, 2]]
    assert tokens_of("3", truncated=False).tolist() == [3, 0]
    found = Completions.of_each([*own, tokens_of("", False)], 2, [0.0] * 4, [0])
    assert found.lengths_N.tolist() == [1, 2, 2, 1]
    assert found.ended_N.tolist() == [False, False, False, True]
    assert found.unpadded[0].tolist() == [3]


@pytest.mark.parametrize(
    ("given", "total"),
    [([-0.5, -1], -1.5), (-1.5, -1.5), (None, float("nan"))],
    ids=["of each token", "sum", "none"],
)
def test_log_probabilities_are_summed(given, total):
    line = {"prompt": "a", "tokens": [3, 1], "log_probs": given}
    np.testing.assert_equal(read_log_prob(line, "here", 2), total)


@pytest.mark.parametrize(
    "given",
    [[-0.5], [-0.5, None], [-0.5, float("nan")], float("-inf"), -1e308, "low", ["a", "b"]],
    ids=str,
)
def test_log_probabilities_that_are_none(given):
    line = {"prompt": "a", "tokens": [3, 1], "log_probs": given}
    with pytest.raises(InputError, match="log_probs"):
        read_log_prob(line, "here", 2)


@pytest.mark.parametrize("given", [None, "1", float("nan"), 1e300, 10**400], ids=shown)
def test_rewards_that_are_none(given):
    with pytest.raises(InputError, match=r"reward: supplied|must be a finite number"):
        read_reward({"prompt": "a", "text": "", "reward": given}, "here")
