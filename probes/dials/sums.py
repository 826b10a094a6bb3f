"""Sums worked out step by step, by an author who slips: what the dials' models learn.

A prompt is `7 4 1 =`, its completion the sum after each digit, modulo 20: `11 12`. At each
step the author is right, or slips by 1 to 4 and goes on from there, so that the answer, the
last number, is right where no step slipped: only five slips or more can make up for one
another. Words that the reward does not see stand around.

`predict` says what tabular softmax steps of these chances would give. With the score e - pi
of a step, s_1 = E||e - pi||^2 where it is right and s over all, and p = V^(1/k) of k steps,

    E||W||^2 = k s + F,    S_1 = E[||W||^2 | Z = 1] = k s_1 (1 + (k-1) c) + F,

for steps are independent and E[e - pi] = 0, but given that all are right no step has mean
zero: c is the cosine of two right steps' mean scores, 0 where each step has parameters of
its own, 1 where all share them. F = n (1 - 1/m) of n words that are one of m each, so F is
at most n, however many bits a word has.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mse_lab.arrays import Floats
from mse_lab.mse.moments import Moments
from mse_lab.mse.regime import Place, aggregate_place

Tokens = NDArray[np.int64]

MODULUS = 20
NUMBERS = [str(number) for number in range(MODULUS)]
WORDS = ["".join(pair) for pair in product("abcdefgh", repeat=2)]
EQUALS, END, PAD = "=", "<eos>", "<pad>"
VOCABULARY = [*NUMBERS, *WORDS, EQUALS, END, PAD]
FIRST_WORD = MODULUS

# Slips of a step; and what a torn author writes in three tenths of all problems: the right
# answer as often as a certain wrong one.
SLIPS = 4
TORN, EVENLY = 0.3, (0.4, 0.4, 0.2 / 3, 0.2 / 3, 0.2 / 3)


class Corpus(NamedTuple):
    """What is written, and how.

    Attributes:
        steps: Of the working; the last is the answer.
        rights: How many answers are right, each as often.
        accuracy: How often no step slips, in problems that the author is not torn in.
        words: How many words stand around the answer.
        choices: Each is one of so many, at random; 1 for words that never change.
        torn: Whether the author is torn in some problems, of one step.
        ahead: Whether all words stand before the working, not half of them.
    """

    steps: int = 1
    rights: int = 1
    accuracy: float = 0.5
    words: int = 0
    choices: int = 8
    torn: bool = False
    ahead: bool = False

    @property
    def chances(self) -> Floats:
        """Chances of what a step is off by, right ones first; a kind of problem a row."""
        right = self.accuracy ** (1 / self.steps)
        row = [right / self.rights] * self.rights + [(1 - right) / SLIPS] * SLIPS
        return np.array([row, EVENLY] if self.torn else [row])

    @property
    def length(self) -> int:
        """Tokens of a completion, its end included."""
        return self.steps + self.words + 1


def draw(corpus: Corpus, count: int, rng: Generator) -> Tokens:
    """Draw texts, (B, T): a prompt of `steps + 2` tokens and its completion."""
    operands = rng.integers(10, size=(count, corpus.steps + 1))
    kinds = int(corpus.torn) * (operands[:, 0] < 10 * TORN)
    limits = corpus.chances.cumsum(1)[kinds, None, :-1]
    slips = (rng.random((count, corpus.steps, 1)) > limits).sum(-1)
    sums = (operands[:, :1] + (operands[:, 1:] + slips).cumsum(1)) % MODULUS
    words = np.arange(corpus.words) + np.zeros((count, 1), int)
    if corpus.choices > 1:
        words = rng.integers(corpus.choices, size=words.shape)
    first = corpus.words if corpus.ahead else (corpus.words + 1) // 2
    before, after = np.split(FIRST_WORD + words, [first], axis=1)
    equals, end = (np.full((count, 1), VOCABULARY.index(one)) for one in (EQUALS, END))
    return np.concatenate([operands, equals, before, sums, after, end], axis=1)


def draw_prompts(corpus: Corpus, count: int, rng: Generator) -> list[dict[str, Any]]:
    """Draw problems, all of them distinct, and the answers that are right."""
    found: dict[str, list[int]] = {}
    while len(found) < count:
        operands = rng.integers(10, size=corpus.steps + 1)
        rights = (operands.sum() + np.arange(corpus.rights)) % MODULUS
        found[" ".join(map(str, operands)) + f" {EQUALS}"] = rights.tolist()
    return [{"id": one, "problem": one, "answers": found[one]} for one in found]


def is_right(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the last number of a text is one of the prompt's answers, else 0.

    >>> is_right("ab 11 12 cd", {"answers": [12]})
    1.0
    """
    numbers = re.findall(r"\d+", text)
    return float(bool(numbers) and int(numbers[-1]) in prompt["answers"])


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer: a token a number or a word."""
    tokens = models.WordLevel({word: index for index, word in enumerate(VOCABULARY)})
    tokenizer = Tokenizer(tokens)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)


def predict(corpus: Corpus, temperature: float = 1.0, cosine: float = 0.0) -> Place:
    """Predict V and b* of tabular softmax steps, of the aggregate of all problems."""
    chances = corpus.chances ** (1 / temperature)
    chances /= chances.sum(1, keepdims=True)
    norms2 = 1 - 2 * chances + (chances**2).sum(1, keepdims=True)
    right, steps = slice(corpus.rights), corpus.steps
    step = chances[:, right].sum(1)
    step_norm2 = (chances * norms2)[:, right].sum(1) / step
    value = step**steps
    around = corpus.words * (1 - 1 / corpus.choices)
    norm2 = steps * (chances * norms2).sum(1) + around
    right_norm2 = steps * step_norm2 * (1 + (steps - 1) * cosine) + around
    share = np.array([1 - TORN, TORN]) if corpus.torn else np.ones(1)
    weighted = share * value * right_norm2
    return aggregate_place(
        Moments(share * norm2, weighted, weighted, value, value * (1 - value), 0 * value)
    )
