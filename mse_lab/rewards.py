"""Rewards: the text of a completion and its prompt's record -> a number.

A reward is a pure function. The text is the completion up to its first end token,
decoded with special tokens skipped.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.config import InputError, nearest
from mse_lab.plugins import load_function
from mse_lab.prompts import Prompt

Reward = Callable[[str, Mapping[str, Any]], float]

_INTEGER = re.compile(r"[-+]?\d[\d,]*")


def _as_integer(text: str) -> int:
    return int(text.replace(",", ""))


def integer(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the last integer in the text equals the prompt's answer, else 0.

    Args:
        text: The completion.
        prompt: The prompt's record; `answer` holds an integer.

    Returns:
        1.0 or 0.0; 0.0 where the text holds no integer.

    >>> integer("that makes 1,024", {"answer": "1024"})
    1.0
    >>> integer("7 - 9 = -2", {"answer": -2})
    1.0
    """
    answer = _as_integer(str(prompt["answer"]))
    found = _INTEGER.findall(text)
    return float(bool(found) and _as_integer(found[-1]) == answer)


def exact(text: str, prompt: Mapping[str, Any]) -> float:
    r"""1 if the text, stripped of white space at its ends, is the answer, else 0.

    >>> exact(" 42\n", {"answer": 42})
    1.0
    """
    return float(text.strip() == str(prompt["answer"]).strip())


REWARDS: dict[str, Reward] = {"integer": integer, "exact": exact}


def load_reward(name: str) -> Reward:
    """Look up a reward by name, or import `package.module:function`.

    Raises:
        InputError: There is no such reward.
    """
    if ":" in name:
        return load_function(name, "reward")
    if name not in REWARDS:
        raise InputError(f"reward = {name}: no such reward; {nearest(name, list(REWARDS))}")
    return REWARDS[name]


def _reward_one(reward: Reward, text: str, prompt: Prompt) -> float:
    try:
        value = float(reward(text, prompt.record))
    except Exception as error:
        # A user's function may raise anything; the prompt is what they need to know.
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"reward failed on prompt {prompt.id}: {reason}") from error
    if not math.isfinite(value):
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
