"""Completions are drawn from exactly the policy, whatever is drawn together."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from enumerated import as_completions, ends, enumerate_policy
from models import draw, random_policy, stopped_policy
from mse_lab.data.streams import uniforms
from mse_lab.errors import InputError
from mse_lab.policy import sampling as drawing
from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.log_probabilities import SharedPrefix, sequence_sums, sum_over_tokens
from mse_lab.policy.policy import StopStrings
from mse_lab.policy.sampling import draw_together, invert
from mse_lab.scores.score_block import score_block

PROMPT, POSITIONS, VOCABULARY = [3, 4, 2], 3, 6
COUNT = 2000
NUMBERS = uniforms(0, "a", "replicate", range(COUNT), POSITIONS)
# So many positions that completions end at many of them, and some are cut.
LONG = uniforms(0, "a", "replicate", range(24), 12)

POLICIES = {
    "one end, hot": lambda: replace(plain_policy(ends=(1,)), temperature=2.0),
    "two ends, cold": lambda: replace(plain_policy(ends=(1, 2)), temperature=0.5),
    "## or cc": lambda: stopped_policy("##", "cc"),
    "b": lambda: stopped_policy("b"),
    "no cache": lambda: random_policy("openai-gpt", vocabulary=VOCABULARY, ends=(3,)),
}


def plain_policy(ends):
    return random_policy(vocabulary=VOCABULARY, ends=ends)


@pytest.fixture(scope="module", params=POLICIES)
def policy(request):
    return POLICIES[request.param]()


def tokens_of(drawn):
    return [tuple(row.tolist()) for row in drawn.unpadded]


def test_the_drawn_law_is_the_differentiated_one(policy):
    """By enumeration: chi-square of what is drawn, log pi, and E[W] = 0.

    It fails if a token that ends a completion is left out or counted twice. False alarm of
    chi-square 1e-6 for each policy.
    """
    positions = 3 if policy.stops else 2  # A string may span tokens.
    kept, known = enumerate_policy(policy, PROMPT, VOCABULARY, positions, lambda tokens: 0)
    all_types, p = as_completions(kept), known.probability_PC[0]
    log_probs = sequence_sums(policy, PROMPT, all_types).log_probs_N.detach().numpy()
    np.testing.assert_allclose(np.exp(log_probs), p, rtol=1e-6)
    gram = score_block(policy, PROMPT, all_types, None).gram_NN
    assert abs(p @ gram @ p) < 1e-12 * (p @ np.diag(gram))
    drawn = draw(policy, PROMPT, NUMBERS[:, :positions], "a")
    assert drawn.ended_N.tolist() == [ends(policy, own) for own in tokens_of(drawn)]
    found = Counter(tokens_of(drawn))
    assert set(found) <= set(kept)
    observed = np.array([found[tokens] for tokens in kept])
    frequent = COUNT * p >= 5
    observed = np.append(observed[frequent], observed[~frequent].sum())
    expected = COUNT * np.append(p[frequent], p[~frequent].sum() + 1e-12)
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, len(expected) - 1) > 1e-6


def in_small_buffers(policy, prompt, numbers):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(drawing, "BUFFER_TOKENS", 1)
        return draw(policy, prompt, numbers, "a")


def in_batches(policy, prompt, numbers):
    return draw(policy, prompt, numbers, "a", max_batch=7)


def in_another_order(policy, prompt, numbers):
    found = draw(policy, prompt, numbers[::-1].copy(), "a")
    return found[np.arange(len(numbers))[::-1]]


def in_two_calls(policy, prompt, numbers):
    return concatenate([draw(policy, prompt, part, "a") for part in np.split(numbers, [9])])


def beside_others(policy, prompt, numbers, most=None):
    """Of other prompts of the length, one of which draws the same numbers."""
    prompts = [[5, 3, 3][: len(prompt)], prompt, [4, 2, 4][: len(prompt)]]
    given = np.stack([1 - numbers, numbers, numbers])
    return draw_together(policy, prompts, given, "xyz", max_batch=most)[1]


def beside_others_in_parts(policy, prompt, numbers):
    """Passes have parts of one prompt's completions and of two prompts'."""
    return beside_others(policy, prompt, numbers, len(numbers) * 2 // 3)


HOW = (
    in_batches,
    in_another_order,
    in_two_calls,
    in_small_buffers,
    beside_others,
    beside_others_in_parts,
)


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1]], ids=["prompt", "one token"])
@pytest.mark.parametrize("how", HOW, ids=lambda how: how.__name__)
def test_a_completion_is_a_function_of_its_numbers(policy, how, prompt):
    """And its log-probability is that of the whole sequence."""
    whole, found = draw(policy, prompt, LONG, "a"), how(policy, prompt, LONG)
    assert len(set(whole.lengths_N.tolist())) > 3
    assert tokens_of(found) == tokens_of(whole)
    assert found.ended_N.tolist() == whole.ended_N.tolist()
    again = sequence_sums(policy, prompt, found).log_probs_N.numpy()
    np.testing.assert_allclose(found.log_probs_N, again, rtol=1e-9)


@pytest.mark.parametrize(("at", "most"), [(0, None), (1, None), (2, 6), (2, 1)])
def test_a_nan_is_of_the_prompt_and_the_completion_that_meet_it(at, most):
    """Whatever is drawn beside it."""
    policy = random_policy()
    prompts = [[3, 4], [4, 3], [5, 3]]
    honest = policy.log_probabilities

    class Spoilt(type(policy)):
        def log_probabilities(self, logits):
            found = honest(logits)
            same = (found - honest_first).abs().amax(-1) < 1e-9
            return torch.where(same[..., None], torch.nan, found)

    with torch.no_grad():
        honest_first = honest(policy.logits(torch.tensor([prompts[at]]), kept=1))[0, 0]
    spoilt = Spoilt(**vars(policy))
    with pytest.raises(InputError, match=f"^prompt {'xyz'[at]}, completion 0: the model's"):
        draw_together(spoilt, prompts, np.stack([LONG[:4]] * 3), "xyz", max_batch=most)


def test_those_that_begin_alike_are_one_row_until_they_part(monkeypatch):
    """Every step reads as many rows as there are distinct beginnings still unfinished."""
    policy, honest, rows = random_policy(), drawing.next_log_probabilities, []

    def counted(policy, tokens_N1, cache):
        rows.append(len(tokens_N1))
        return honest(policy, tokens_N1, cache)

    monkeypatch.setattr(drawing, "next_log_probabilities", counted)
    drawn = tokens_of(draw(policy, PROMPT, NUMBERS[:200], "a"))
    assert rows == [
        len({own[:step] for own in drawn if len(own) > step}) for step in range(POSITIONS)
    ]


def test_invert_gives_the_first_token_whose_sum_exceeds_u():
    log_probs = torch.tensor([[0.25, 0.0, 0.5, 0.25], [0.0, 1.0, 0.0, 0.0]]).log()
    # Sums 1/4, 1/4, 3/4, 1; token 1 has probability 0 and is never given.
    u = torch.tensor([0.0, 0.9, 0.2499, 0.25, 0.7499, 0.0, 0.9999], dtype=torch.float64)
    row = torch.tensor([0, 1, 0, 0, 0, 1, 0])
    assert invert(log_probs, u, row).tolist() == [0, 1, 0, 2, 2, 1, 3]
    # A sum that rounding has moved from 1 does not move the last token out of range.
    short = torch.tensor([[0.5, 0.4, 0.0]]).log()
    near = torch.tensor([0.5, 0.95], dtype=torch.float64)
    assert invert(short, near, torch.zeros(2, dtype=torch.long)).tolist() == [0, 1]


def test_a_sum_ends_with_its_completion():
    """What follows the end token counts nothing, NaN neither."""
    log_probs = torch.tensor([[-1.0, -2.0, torch.nan], [-1.0, -2.0, -4.0]])
    some = as_completions([(4, 1), (5, 6, 7)])
    assert sum_over_tokens(log_probs, some).tolist() == [-3.0, -7.0]


CACHES = {
    **{"qwen2": True, "gemma3_text": True},
    **{"openai-gpt": False, "mamba": False, "bamba": False, "lfm2": False},
}


@pytest.mark.parametrize("architecture", CACHES)
def test_a_prompt_is_read_once_where_keys_and_values_are_all_there_is(architecture):
    prefix = SharedPrefix(random_policy(architecture), PROMPT)
    assert (prefix.cache is not None) is CACHES[architecture]


def test_a_cache_that_the_model_leaves_empty_is_not_used():
    policy = random_policy()
    forward = policy.model.forward

    def forgetful(tokens, past_key_values=None, **options):
        return forward(tokens, **options | {"use_cache": False})

    policy.model.forward = forgetful
    assert SharedPrefix(policy, PROMPT).cache is None


def test_completions_are_told_apart_by_their_own_tokens():
    """Whatever stands behind them; and their parts, joined, are the whole."""
    tokens = np.array([[5, 1, 7], [5, 1, 8], [5, 3, 1], [5, 1, 1], [5, 3, 1]])
    drawn = Completions(tokens, np.array([2, 2, 3, 3, 3]), np.zeros(5), np.ones(5, bool))
    distinct, place = drawn.distinct()
    assert tokens_of(distinct) == [(5, 1), (5, 3, 1), (5, 1, 1)]
    assert place.tolist() == [0, 0, 1, 2, 1]
    for name, array in vars(concatenate([drawn[:1], drawn[1:]])).items():
        np.testing.assert_array_equal(array, vars(drawn)[name])


def test_the_text_for_the_reward_stops_before_the_string():
    texts = {
        (2, 3): "a",
        (3,): "",
        (4, 4): "",
        (2, 2, 4): "a#a",
        (2, 5): "a#",
        (2, 1): "a#",
    }
    drawn = as_completions(list(texts))
    assert drawn.texts(stopped_policy("##", "c")) == list(texts.values())


def test_a_special_token_between_its_parts_does_not_hide_a_string():
    """Decoding leaves special tokens out, however many of them were drawn."""
    stops = stopped_policy("##").stops
    assert stops.end([2, *[0] * 50, 4])
    assert not stops.end([2, *[0] * 50, 5])


def test_a_string_that_no_text_contains_is_refused():
    with pytest.raises(InputError, match="a special token"):
        StopStrings.of(["<end>"], stopped_policy("##").tokenizer)
