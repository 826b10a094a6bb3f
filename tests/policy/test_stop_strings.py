"""Stop strings: the end is a function of the tokens, and the law is the stopped one."""

from dataclasses import replace

import numpy as np
import pytest

from enumerated import as_completions, ends, enumerate_policy
from mse_lab.errors import InputError
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.sampling import draw, draw_together
from mse_lab.policy.stop_strings import StopStrings
from mse_lab.policy.supplied_completions import parse_line
from mse_lab.probe.streams import uniforms
from mse_lab.scores.score_block import score_block
from stopped_policies import stopped_policy

PROMPT, POSITIONS = [5, 2, 4], 4
NUMBERS = uniforms(0, "a", "replicate", range(400), POSITIONS)
STOPS = [("##",), ("##", "cc"), ("#",), ("b",)]


@pytest.fixture(params=STOPS, ids="|".join)
def policy(request):
    return stopped_policy(*request.param)


def first_end(policy, tokens):
    """Count the tokens up to the first that ends a completion; None if none does."""
    lengths = range(1, len(tokens) + 1)
    return next((n for n in lengths if ends(policy, tokens[:n])), None)


@pytest.mark.parametrize("options", [{}, {"max_batch": 7}], ids=["whole", "batches"])
def test_a_completion_is_the_beginning_of_the_one_that_nothing_stops(policy, options):
    """With the same uniforms; the token that completes the string belongs to it, once."""
    drawn = draw(policy, PROMPT, NUMBERS, "a", **options)
    free = draw(replace(policy, stops=None, end_tokens=()), PROMPT, NUMBERS, "a")
    assert set(free.lengths_N) == {POSITIONS}
    wanted = [first_end(policy, tokens.tolist()) for tokens in free.tokens_NT]
    assert 0.2 < np.mean([n is not None for n in wanted]) < 1
    assert drawn.ended_N.tolist() == [n is not None for n in wanted]
    assert drawn.lengths_N.tolist() == [n or POSITIONS for n in wanted]
    for tokens, whole in zip(drawn.unpadded, free.tokens_NT, strict=True):
        np.testing.assert_array_equal(tokens, whole[: len(tokens)])
    again = sequence_log_probs(policy, PROMPT, drawn)
    np.testing.assert_allclose(drawn.log_probs_N, again.numpy(), rtol=1e-9)


def test_several_prompts_together_draw_what_each_draws_alone(policy):
    prompts = [PROMPT, [3, 3, 2]]
    each = draw_together(policy, prompts, np.stack([NUMBERS, NUMBERS]))
    for prompt, drawn in zip(prompts, each, strict=True):
        alone = draw(policy, prompt, NUMBERS, "a")
        np.testing.assert_array_equal(drawn.lengths_N, alone.lengths_N)
        np.testing.assert_array_equal(drawn.ended_N, alone.ended_N)


def test_the_stopped_law_is_whole_and_its_mean_score_is_zero(policy):
    """Both fail if the token that completes the string is left out or counted twice."""
    known = enumerate_policy(policy, PROMPT, 6, POSITIONS, lambda tokens: tokens[0] == 2)
    p, drawn = known.probabilities, as_completions(known.completions)
    log_probs = sequence_log_probs(policy, PROMPT, drawn).detach().numpy()
    np.testing.assert_allclose(np.exp(log_probs), p, rtol=1e-8)
    gram = score_block(policy, PROMPT, drawn, None).gram_NN
    mean2 = p @ gram @ p
    assert abs(mean2) < 1e-12 * (p @ np.diag(gram))
    # A draw of the stopped policy never goes on behind its end.
    types = {
        tuple(tokens.tolist()) for tokens in draw(policy, PROMPT, NUMBERS, "a").unpadded
    }
    assert types <= set(known.completions)


def test_the_text_for_the_reward_stops_before_the_string():
    policy = stopped_policy("##", "c")
    texts = {
        (2, 3): "a",
        (3,): "",
        (4, 4): "",
        (2, 2, 4): "a#a",
        (2, 5): "a#",
        (2, 1): "a#",
    }
    assert as_completions(list(texts)).texts(policy) == list(texts.values())


def test_a_special_token_between_its_parts_does_not_hide_a_string():
    """Decoding leaves special tokens out, however many of them were drawn."""
    stops = stopped_policy("##").stops
    assert stops.end([2, *[0] * 50, 4])
    assert not stops.end([2, *[0] * 50, 5])


@pytest.mark.parametrize(
    ("tokens", "fault"),
    [
        ([2, 4, 5], "token 2 of 3 completes a string of sampling.stop"),
        ([2, 5], "2 tokens without an end token (1) or stop string"),
        ([3, 1], "token 1 of 2 completes a string"),
    ],
)
def test_supplied_completions_end_where_the_policy_ends(tokens, fault):
    policy = stopped_policy("##")
    line = parse_line(f'{{"prompt": "a", "tokens": {tokens}}}'.encode(), "line 1")
    with pytest.raises(InputError) as error:
        line.read_tokens(policy, POSITIONS)
    assert fault in str(error.value)
    ended = parse_line(b'{"prompt": "a", "tokens": [2, 4]}', "line 1")
    assert ended.read_tokens(policy, POSITIONS).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"prompt": "a", "text": "a"}', "a text does not tell which token"),
        (b'{"prompt": "a", "tokens": [2, 4], "mask": [1, 1]}', "leave out sampling.stop"),
    ],
)
def test_texts_and_masks_are_refused_beside_stop_strings(line, fault):
    with pytest.raises(InputError, match=fault):
        parse_line(line, "line 1").read_tokens(stopped_policy("##"), POSITIONS)


def test_strings_that_no_text_contains_and_those_of_the_chat_template_are_refused():
    policy = stopped_policy("##")
    with pytest.raises(InputError, match="a special token"):
        StopStrings.of(["<end>"], policy.tokenizer)
    with pytest.raises(InputError, match="the chat template ends with it"):
        policy.stops.refuse_in("[What? ] ## Answer:", " What? ")
    policy.stops.refuse_in("## What?", "What?")
    assert StopStrings.of([], policy.tokenizer) is None
