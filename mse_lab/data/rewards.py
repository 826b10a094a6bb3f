"""Rewards: the text of a completion and its prompt's record -> a number.

A reward is a pure function. The text is the completion up to its first end token, decoded
without special tokens. `REWARDS` lists the built-in rewards; a user's function comes from
`load_reward`, in one of the forms of `reward_functions.py`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.data.foreign_code import load_extra, load_function
from mse_lab.data.identity import identify_named, plain_text
from mse_lab.data.mathematics import GaveUp, are_equal
from mse_lab.data.prompts import Prompt, plain_value
from mse_lab.data.reward_functions import Ids, UserReward
from mse_lab.errors import InputError, nearest, shorten, shown

Reward = Callable[[str, Mapping[str, Any]], float]

_INTEGER = re.compile(r"[-+]?\d[\d,]*")

# A minus is a sign unless it follows an operand, as in 10-15 or x-3.
_NUMBER = re.compile(
    r"(?P<minus>(?<![\w)\]])[-\u2212])?\+?(?:\\?\$\s?)?(?P<minus_inside>(?<=\$)[-\u2212])?"
    r"(?P<digits>\d[\d,]*(?:\.\d+)?|(?<!\d)\.\d+)"
)
_MARKED = re.compile(r"####\s*(?:(?:\*\*|\$?\\boxed\{)\s*)?" + _NUMBER.pattern)


def _answers(prompt: Mapping[str, Any]) -> list[str]:
    """List the reference answers, any of which is right: one, or those of a list."""
    answer = plain_value(prompt["answer"])
    given = answer if isinstance(answer, list | tuple) else [answer]
    answers = [plain_value(one) for one in given]
    if not answers:
        raise ValueError("the answer is an empty list; fill it in")
    if any(isinstance(one, list | tuple | Mapping) for one in answers):
        kind = "a mapping" if isinstance(answer, Mapping) else "no list of texts"
        raise ValueError(
            f"the answer is {kind}; name a part of it by prompts.fields.answer, or write a "
            "reward that reads the row"
        )
    several_empty = len(answers) > 1 and not all(str(one).strip() for one in answers)
    if several_empty or any(one is None for one in answers):
        raise ValueError("one of the answers is empty; fill it in")
    for one in answers:
        if not isinstance(one, str | Number | date | time | timedelta):
            raise ValueError(f"the answer is {shown(one)}; write it as a text or number")
    return [str(one) for one in answers]


def _answer(prompt: Mapping[str, Any]) -> str:
    """Give the reference answer where only one is read."""
    answers = _answers(prompt)
    if len(answers) > 1:
        raise ValueError("the answer is a list; contains, exact and math read any of it")
    return answers[0]


def integer(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the last integer in the text equals the prompt's answer, an integer; else 0.

    >>> integer("that makes 1,024", {"answer": "1024"})
    1.0
    >>> integer("7 - 9 = -2", {"answer": -2})
    1.0
    """
    answer = _answer(prompt).replace(",", "")
    try:
        reference = int(answer)
    except ValueError:
        decimal = ", or use gsm8k, which reads decimals" if "." in answer else ""
        remedy = f"write a whole number{decimal}"
        raise ValueError(f"the answer {shown(answer)} is no integer; {remedy}") from None
    integers = _INTEGER.findall(text)
    # Not int: Python refuses texts of more than 4,300 digits, and models write them.
    return float(bool(integers) and Decimal(integers[-1].replace(",", "")) == reference)


def first_integer(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the first integer in the text equals the prompt's answer, an integer; else 0.

    For a model that answers at once and goes on: what follows does not count.

    >>> first_integer("7. Then 3 + 5 = 8", {"answer": "7"})
    1.0
    """
    return integer("".join(_INTEGER.findall(text)[:1]), prompt)


def contains(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the answer stands in the text as whole words, in any case of letters; else 0.

    A reference of several answers, a list or joined by `|`, is met by any of them.

    >>> contains("The capital is Paris.", {"answer": "paris"})
    1.0
    >>> contains("Parisian", {"answer": "Paris"})
    0.0
    >>> contains("in the U.S.", {"answer": "USA|U.S."})
    1.0
    >>> contains("Austen wrote it", {"answer": ["Jane Austen", "Austen"]})
    1.0
    """
    answers = [part.strip() for one in _answers(prompt) for part in one.split("|")]
    if not all(answers):
        raise ValueError("the answer is empty, or one of its parts between | is")
    any_of = "|".join(map(re.escape, answers))
    return float(bool(re.search(rf"(?<!\w)(?:{any_of})(?!\w)", text, re.IGNORECASE)))


def exact(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if the text, without white space at its ends, is an answer, else 0.

    >>> exact(" 42\n", {"answer": 42})
    1.0
    """
    return float(text.strip() in [answer.strip() for answer in _answers(prompt)])


def _read_number(match: re.Match[str]) -> Decimal:
    size = Decimal(match["digits"].replace(",", ""))
    # Not -size, which rounds to 28 digits.
    return size.copy_negate() if match["minus"] or match["minus_inside"] else size


def _stated_number(text: str) -> Decimal | None:
    """Read the number after the first `####` of a text, or else its last number."""
    if marked := _MARKED.search(text):
        return _read_number(marked)
    numbers = list(_NUMBER.finditer(text))
    return _read_number(numbers[-1]) if numbers else None


def _reference_number(answer: str) -> Decimal:
    """Read a reference: the number after `####`, or a number alone."""
    match = _MARKED.search(answer) or _NUMBER.fullmatch(answer.strip().rstrip("."))
    if match is None:
        raise ValueError("the answer is not a number and has none after ####")
    return _read_number(match)


def gsm8k(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if the text states the number that the reference states, else 0.

    A completion states the number after its first `####`, or else its last number: the
    first `####` because a model that does not stop continues with other problems. Decimals,
    signs, a dollar sign, thousands separators and a final full stop are understood, and
    numbers are compared exactly: 18.00 is 18. The reference is a number, alone or after
    `####`.

    >>> gsm8k("9 eggs at $2 make $18.00.", {"answer": "9 * 2 = 18\n#### 18"})
    1.0
    >>> gsm8k("#### 17, not 18", {"answer": 18})
    0.0
    """
    return float(_stated_number(text) == _reference_number(_answer(prompt)))


def mathematics(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if math-verify finds the text's final answer equal to the reference, else 0.

    math-verify extracts the final answer: the content of `\boxed{}` (several boxes are a
    set), or else LaTeX or a number after words such as "the answer is", or else the last
    LaTeX or number. Equality is mathematical: `\frac{1}{2}` is 0.5.

    The reference is LaTeX, bare or in `$...$`; a solution with its answer in `\boxed{}`;
    or a number after `####`; of a list any will do. A comparison that takes 5 seconds of
    processor time is given up (`GaveUp`) and counts as unequal, and only in this way can a
    reward depend on the machine.
    """
    equal = [are_equal(text, answer) for answer in _answers(prompt)]
    if None in equal:
        raise ValueError("math-verify finds no mathematics in the answer")
    return float(any(equal))


def supplied(text: str, prompt: Mapping[str, Any]) -> float:
    """Stand for rewards in the file of `completions`; never called."""
    raise ValueError("the reward `supplied` is read from the file of completions")


REWARDS: dict[str, Reward] = {
    "integer": integer,
    "first-integer": first_integer,
    "contains": contains,
    "gsm8k": gsm8k,
    "math": mathematics,
    "exact": exact,
    "supplied": supplied,
}


def reads_answer(name: str) -> bool:
    """Whether a reward needs the reference answer: a user's reads the row as it is."""
    return name in REWARDS and name != "supplied"


def load_reward(name: str, *, chat: bool = False) -> Reward:
    """Look up a reward by name, or import `module:function`; `chat` as in `as_reward`."""
    if ":" in name:
        return UserReward(*load_function(name, "reward"), chat=chat)
    if name not in REWARDS:
        raise InputError(f"reward = {name}: no such reward; {nearest(name, list(REWARDS))}")
    if name == "math":
        load_extra("math_verify", "math", "reward = math")
    return REWARDS[name]


def identify_reward(reward: Reward, name: str) -> dict[str, str]:
    """Identify the code of a user's reward; nothing for a built-in one."""
    function = getattr(reward, "__wrapped__", None)
    return {} if function is None else {"reward": identify_named(function, name)}


def reward_kind(prompt: Prompt, reward: Reward) -> str:
    """Write what a prompt's completions and their rewards depend on, its id aside.

    A built-in reward reads the answer alone, a user's function the whole row.
    """
    known = {key: value for key, value in prompt.record.items() if key != "id"}
    if reward in REWARDS.values():
        known = {"answer": str(known.get("answer"))}
    return plain_text(prompt, [prompt.turns, known])


def _reward_one(reward: Reward, text: str, prompt: Prompt) -> float:
    try:
        return reward(text, prompt.record)
    except InputError:
        raise
    except ValueError as error:
        # A built-in reward cannot read the reference answer.
        where = f"reward failed on prompt {shorten(prompt.id)}"
        raise InputError(f"{where}: ValueError: {error}") from None


class Rewards(NamedTuple):
    """Rewards (N,), and the number of comparisons that were given up: their reward is 0."""

    values_N: Floats
    given_up: int


def reward_completions(
    reward: Reward, texts: Sequence[str], prompt: Prompt, ids: Ids = None
) -> Rewards:
    """Compute the rewards of a prompt's completions, whose token ids may be known."""
    if isinstance(reward, UserReward):
        return Rewards(np.array(reward.together(texts, prompt, ids)), 0)
    rewards: dict[str, float] = {}
    for text in dict.fromkeys(texts):
        # A text whose comparison is given up has no entry.
        with suppress(GaveUp):
            rewards[text] = _reward_one(reward, text, prompt)
    values_N = np.array([rewards.get(text, 0.0) for text in texts])
    return Rewards(values_N, sum(text not in rewards for text in texts))


def try_reward(reward: Reward, prompts: Sequence[Prompt]) -> None:
    """Try a built-in reward on every prompt, before anything is measured.

    A reference answer that it cannot read is refused now, not hours later. A user's
    function is not tried: it may be slow.
    """
    if reward is supplied or reward not in REWARDS.values():
        return
    for prompt in prompts:
        try:
            # math-verify evaluates the answer only if it is compared with something.
            _reward_one(reward, "0", prompt)
        except GaveUp:
            raise InputError(
                f"reward failed on prompt {shorten(prompt.id)}: math-verify takes too long "
                "for the answer; give its value"
            ) from None
