"""Rewards: the text of a completion and its prompt's record -> a number.

A reward is a pure function. The text is the completion up to its first end token,
decoded with special tokens skipped.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.config import InputError, nearest
from mse_lab.extras import load_extra
from mse_lab.plugins import load_function
from mse_lab.prompts import Prompt

Reward = Callable[[str, Mapping[str, Any]], float]

_INTEGER = re.compile(r"[-+]?\d[\d,]*")

# A minus belongs to the number unless it stands between two things, as in 10-15 or x-3.
_NUMBER = re.compile(
    r"(?P<minus>(?<![\w)\]])[-\u2212])?\+?(?:\\?\$\s?)?(?P<minus_inside>(?<=\$)[-\u2212])?"
    r"(?P<digits>\d[\d,]*(?:\.\d+)?|(?<!\d)\.\d+)"
)
_MARKED = re.compile(r"####\s*(?:\*\*|\$?\\boxed\{)?\s*" + _NUMBER.pattern)


def integer(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the last integer in the text equals the prompt's answer, else 0.

    Args:
        text: The completion.
        prompt: The prompt's record; `answer` holds an integer.

    Returns:
        1.0 or 0.0; 0.0 where the text holds no integer.

    Raises:
        ValueError: The answer is no integer.

    >>> integer("that makes 1,024", {"answer": "1024"})
    1.0
    >>> integer("7 - 9 = -2", {"answer": -2})
    1.0
    """
    answer = int(str(prompt["answer"]).replace(",", ""))
    found = _INTEGER.findall(text)
    # Not int: Python refuses texts of more than 4,300 digits, and models write them.
    return float(bool(found) and Decimal(found[-1].replace(",", "")) == answer)


def exact(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if the text, stripped of white space at its ends, is the answer, else 0.

    >>> exact(" 42\n", {"answer": 42})
    1.0
    """
    return float(text.strip() == str(prompt["answer"]).strip())


def _as_number(found: re.Match[str]) -> Decimal:
    size = Decimal(found["digits"].replace(",", ""))
    # Not -size, which rounds to 28 digits.
    return size.copy_negate() if found["minus"] or found["minus_inside"] else size


def _stated_number(text: str) -> Decimal | None:
    """Read the number that a text ends on: after the first `####`, else the last one."""
    if marked := _MARKED.search(text):
        return _as_number(marked)
    numbers = list(_NUMBER.finditer(text))
    return _as_number(numbers[-1]) if numbers else None


def _reference_number(answer: str) -> Decimal:
    """Read a reference: the number after `####`, or a number and nothing else."""
    found = _MARKED.search(answer) or _NUMBER.fullmatch(answer.strip().rstrip("."))
    if found is None:
        raise ValueError("the answer is no number and has none after ####")
    return _as_number(found)


def gsm8k(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if the text states the number that the reference states, else 0.

    A completion states the number right after its first `####`, or else its last number;
    the first, since a model that is not stopped goes on to problems of its own. Decimals,
    signs, a dollar sign, thousands separators and a final full stop are understood, and
    numbers are compared exactly: 18.00 is 18.

    Args:
        text: The completion.
        prompt: The prompt's record; `answer` holds a number, alone or after `####`.

    Returns:
        1.0 or 0.0; 0.0 where the text holds no number.

    Raises:
        ValueError: The answer states no number.

    >>> gsm8k("9 eggs at $2 make $18.00.", {"answer": "9 * 2 = 18\n#### 18"})
    1.0
    >>> gsm8k("#### 17, not 18", {"answer": 18})
    0.0
    """
    answer = _reference_number(str(prompt["answer"]))
    return float(_stated_number(text) == answer)


def _math_verify() -> Any:
    return load_extra("math_verify", "math", "reward = math")


def _seconds() -> int | None:
    """Give math-verify's time limit: a signal, which only the main thread may set."""
    return 5 if threading.current_thread() is threading.main_thread() else None


@lru_cache(maxsize=64)
def _reference_mathematics(answer: str) -> tuple[Any, ...]:
    if marked := re.search(r"####\s*(.+)", answer):
        answer = marked[1]
    # Bare LaTeX is put in a box: without one, 11\sqrt{2} would be read as its first number.
    delimited = re.search(r"\\boxed|(?<!\\)\$|\\\(|\\\[", answer)
    text = answer if delimited else rf"\boxed{{{answer}}}"
    parsed = _math_verify().parse(text, parsing_timeout=_seconds())
    if not parsed:
        raise ValueError("math-verify finds no mathematics in the answer")
    return tuple(parsed)


def mathematics(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if math-verify finds the text's final answer equal to the reference, else 0.

    The final answer is what math-verify extracts: what is in `\boxed{}` (several boxes are
    a set), or else LaTeX or a number behind words such as "the answer is", or else the last
    of either. Equality is mathematical: `\frac{1}{2}` is 0.5.

    A comparison is given up after 5 seconds and counts as unequal, which is the only way
    in which a reward may depend on the machine. The limit is a signal, which Python allows
    in the main thread alone; elsewhere there is none.

    Args:
        text: The completion.
        prompt: The prompt's record; `answer` holds LaTeX, bare or in `$...$`; a solution
            with its answer in `\boxed{}`; or a number after `####`.

    Returns:
        1.0 or 0.0; 0.0 where nothing can be extracted or parsed.

    Raises:
        ValueError: Nothing can be extracted from the answer.
    """
    library, limit = _math_verify(), _seconds()
    reference = list(_reference_mathematics(str(prompt["answer"])))
    parsed = library.parse(text, parsing_timeout=limit)
    return float(library.verify(reference, parsed, timeout_seconds=limit))


def supplied(text: str, prompt: Mapping[str, Any]) -> float:
    """Stand for rewards that the file of `completions` gives: never computed.

    Raises:
        ValueError: Always.
    """
    raise ValueError("the reward `supplied` is read from the file of completions")


REWARDS: dict[str, Reward] = {
    "integer": integer,
    "gsm8k": gsm8k,
    "math": mathematics,
    "exact": exact,
    "supplied": supplied,
}


def load_reward(name: str) -> Reward:
    """Look up a reward by name, or import `package.module:function`.

    Raises:
        InputError: There is no such reward, or its library is not installed.
    """
    if ":" in name:
        return load_function(name, "reward")
    if name not in REWARDS:
        raise InputError(f"reward = {name}: no such reward; {nearest(name, list(REWARDS))}")
    if name == "math":
        _math_verify()
        # Its warnings print whole completions.
        logging.getLogger("math_verify").setLevel(logging.ERROR)
    return REWARDS[name]


def _reward_one(reward: Reward, text: str, prompt: Prompt) -> float:
    try:
        value = float(reward(text, prompt.record))
    except Exception as error:
        # A user's function may raise anything; the prompt is what they need to know.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"reward failed on prompt {prompt.id}: {reason}") from error
    if not isfinite(value):
        raise InputError(
            f"reward of prompt {prompt.id} is {value}; it must be a finite number"
        )
    return value


def reward_completions(
    reward: Reward, texts: Sequence[str], prompt: Prompt
) -> NDArray[np.float64]:
    """Reward the completions of a prompt.

    Args:
        reward: The reward function.
        texts: The completions' texts.
        prompt: Their prompt.

    Returns:
        Rewards (N,). Equal texts are rewarded once: a reward is pure.

    Raises:
        InputError: The reward fails or is not finite; the message names the prompt.
    """
    rewards = {text: _reward_one(reward, text, prompt) for text in dict.fromkeys(texts)}
    return np.array([rewards[text] for text in texts])


def try_reward(reward: Reward, prompts: Sequence[Prompt]) -> None:
    """Reward an empty completion of every prompt, before anything is spent.

    What fails on a prompt's reference answer fails now, not hours later at that prompt. A
    user's own function is not called before there is something to reward: it may be slow.

    Args:
        reward: The reward function.
        prompts: The prompts of a run.

    Raises:
        InputError: The reward fails or is not finite; the message names the prompt.
    """
    if reward is supplied or reward not in REWARDS.values():
        return
    for prompt in prompts:
        _reward_one(reward, "", prompt)
