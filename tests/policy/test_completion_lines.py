"""Lines of a file of completions: what is read from them, and what is refused."""

import json

import numpy as np
import pytest

from models import random_policy
from mse_lab.errors import InputError, shown
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import load_policy
from mse_lab.policy.supplied_completions import parse_line
from mse_lab.probe.probe_files import load_probe

LINES = {
    "not JSON": ("{", "Invalid JSON"),
    "no object": ("[1]", "Input should be an object"),
    "no prompt": ('{"tokens": [1]}', "prompt: Field required"),
    "no tokens": ('{"prompt": "a", "ids": [1]}', "neither tokens nor text"),
    "unknown pool": (
        '{"prompt": "a", "tokens": [1], "pool": "x"}',
        "pool: Input should be 'reference' or 'replicate'",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_broken_lines(case):
    text, message = LINES[case]
    with pytest.raises(InputError, match=f"here: {message}"):
        parse_line(text.encode(), "here")


def line_of(**keys):
    return parse_line(json.dumps({"prompt": "a", **keys}).encode(), "here")


TOKENS = {
    "empty": ([], "no tokens; an empty completion is its end token alone"),
    "no numbers": (["a"], "tokens: Input should be a valid integer"),
    "no integers": ([1.5, 2], "tokens: Input should be a valid integer"),
    "nested": ([[1, 2]], "tokens: Input should be a valid integer"),
    "a number": (3, "tokens: Input should be a valid array"),
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
    with pytest.raises(InputError) as caught:
        line_of(tokens=tokens).read_tokens(random_policy(), 6)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "tokens", [[1], [2], [3, 1], [0, 2], [3] * 6, [3] * 5 + [1]], ids=str
)
def test_tokens_that_the_policy_can_draw(tokens):
    found = line_of(tokens=tokens).read_tokens(random_policy(), 6)
    assert found.tolist() == tokens


def test_texts_are_ended_where_they_are_short(checkpoint, write_probe, tmp_path):
    """Of at most two tokens: the end token is 0."""
    policy = load_policy(load_probe(write_probe()), tmp_path)

    def tokens_of(text):
        return line_of(text=text).read_tokens(policy, 2).tolist()

    assert [tokens_of(text) for text in ("", "3", "3 1")] == [[0], [3, 0], [3, 1]]
    assert tokens_of("3 <end>") == [3, 0]
    with pytest.raises(InputError, match=r"3 tokens, and sampling.*give tokens"):
        tokens_of("1 2 3")


def test_texts_that_were_cut_are_not_ended(checkpoint, write_probe, tmp_path):
    """However few tokens they have, or many."""
    policy = load_policy(load_probe(write_probe()), tmp_path)

    def tokens_of(text, truncated=True):
        return line_of(text=text, truncated=truncated).read_tokens(policy, 2)

    own = [tokens_of(text) for text in ("3", "3 1", "1 2 3")]
    assert [tokens.tolist() for tokens in own] == [[3], [3, 1], [1, 2]]
    assert tokens_of("3", truncated=False).tolist() == [3, 0]
    found = Completions.of_each(
        [*own, tokens_of("", False)], 2, [0.0] * 4, lambda tokens: tokens[-1] == 0
    )
    assert found.lengths_N.tolist() == [1, 2, 2, 1]
    assert found.ended_N.tolist() == [False, False, False, True]
    assert found.unpadded[0].tolist() == [3]


MASKS = {
    "no list": ([3, 1], 1, "mask: Input should be a valid array"),
    "no numbers": ([3, 1], ["a", 1], "mask: Input should be a valid integer"),
    "shares": ([3, 1], [0.5, 1], "mask: Input should be a valid integer"),
    "other numbers": ([3, 1], [1, 2], "mask: Input should be less than or equal to 1"),
    "too short": ([3, 4, 1], [1, 1], "mask: 2 entries for 3 tokens; give one for each"),
    "nothing left": ([3, 1], [0, 0], "mask: 0 for every token; leave out what the policy"),
    "end in a turn": ([3, 1, 4, 2], [1, 1, 1, 1], "end token 1 is number 2 of 4 tokens"),
    "no end": ([3, 1, 4, 5], [1, 1, 0, 1], "4 tokens without an end token"),
}


@pytest.mark.parametrize("case", MASKS)
def test_masks_that_are_none(case):
    tokens, mask, message = MASKS[case]
    with pytest.raises(InputError) as caught:
        line_of(tokens=tokens, mask=mask).read_tokens(random_policy(), 6)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mask_needs_tokens():
    with pytest.raises(InputError, match="mask: given with a text; give tokens, too"):
        line_of(text="3", mask=[1]).read_mask(1)


@pytest.mark.parametrize("mask", [[1, 0, 0, 1], [True, False, False, True]], ids=str)
def test_an_environment_goes_on_after_an_end_token(mask):
    """Its own end tokens say nothing, and it may have the last word."""
    line = line_of(tokens=[1, 2, 1, 2], mask=mask)
    assert line.read_tokens(random_policy(), 6).tolist() == [1, 2, 1, 2]
    assert line.read_mask(4).tolist() == [True, False, False, True]
    line = line_of(tokens=[3, 4], mask=[1, 0])
    assert line.read_tokens(random_policy(), 6).tolist() == [3, 4]


def test_log_probabilities_of_masked_tokens_do_not_count():
    mask = np.array([True, False, True])
    line = line_of(tokens=[3, 4, 1], log_probs=[-0.5, 7.0, -1.0])
    assert line.read_log_prob(3, mask) == -1.5
    with pytest.raises(InputError, match="log_probs: 2 entries for 3 tokens"):
        line_of(tokens=[3, 4, 1], log_probs=[-0.5, -1.0]).read_log_prob(3, mask)


@pytest.mark.parametrize(
    ("given", "total"),
    [([-0.5, -1], -1.5), (-1.5, -1.5), (None, float("nan"))],
    ids=["of each token", "sum", "none"],
)
def test_log_probabilities_are_summed(given, total):
    line = line_of(tokens=[3, 1], log_probs=given)
    np.testing.assert_equal(line.read_log_prob(2), total)


@pytest.mark.parametrize(
    "given",
    [[-0.5], [-0.5, None], [-0.5, float("nan")], float("-inf"), -1e308, "low", True],
    ids=str,
)
def test_log_probabilities_that_are_none(given):
    with pytest.raises(InputError, match="log_probs"):
        line_of(tokens=[3, 1], log_probs=given).read_log_prob(2)


@pytest.mark.parametrize("given", [None, "1", float("nan"), 1e300, 10**400], ids=shown)
def test_rewards_that_are_none(given):
    with pytest.raises(InputError, match=r"here: (reward: Input|no reward)"):
        line_of(text="", reward=given).read_reward()


def test_an_engines_log_probabilities_are_of_each_token():
    line = line_of(tokens=[3, 1], engine_log_probs=[-0.5, -1])
    assert line.form.engine_log_probs
    np.testing.assert_array_equal(line.read_engine_log_probs(4), [-0.5, -1, 0, 0])


ENGINE = {
    "too few": (
        {"tokens": [3, 1], "engine_log_probs": [-1]},
        "engine_log_probs: 1 entries for 2",
    ),
    "of a text": (
        {"text": "1", "engine_log_probs": [-1]},
        "given with a text; give tokens",
    ),
}


@pytest.mark.parametrize("case", ENGINE)
def test_others_of_an_engine_are_refused(case):
    keys, message = ENGINE[case]
    with pytest.raises(InputError, match=message):
        line_of(**keys).read_engine_log_probs(4)


def test_their_sum_is_refused():
    with pytest.raises(InputError, match="engine_log_probs: Input should be a valid"):
        line_of(tokens=[3, 1], engine_log_probs=-1.5)
