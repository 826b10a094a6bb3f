"""A line of a file of completions: a JSON object, and what is read from it.

| key       | meaning                                                                  |
|-----------|--------------------------------------------------------------------------|
| prompt    | id of its prompt                                                         |
| tokens    | token ids, the end token included unless the completion was truncated    |
| text      | instead of tokens; it is tokenised, and the end token is appended        |
| truncated | optional, with text: true if the completion has no end token             |
| log_probs | optional: log-probability of each token, or (also `log_prob`) their sum  |
| pool      | optional: reference or replicate                                         |
| reward    | read if the probe says `reward: supplied`                                |

All lines have the same of these keys; others are ignored.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.errors import InputError, shown
from mse_lab.policy.policy import Policy
from mse_lab.probe.plain_text import parse_json
from mse_lab.probe.rewards import fault_of_reward

POOLS = ("reference", "replicate")

Line = Mapping[str, Any]


class Form(NamedTuple):
    """Whether the lines have `pool`, `tokens` (not `text`), and log-probabilities."""

    pool: bool
    tokens: bool
    log_probs: bool


def parse_line(raw: bytes, where: str) -> dict[str, Any]:
    """Parse a line and check its keys; `where` is for messages."""
    line = parse_json(raw, where)
    if "prompt" not in line:
        raise InputError(f"{where}: prompt is missing; give the id of its prompt")
    if "tokens" not in line and not isinstance(line.get("text"), str):
        raise InputError(f"{where}: neither tokens nor text; give token ids as tokens")
    if line.get("pool", POOLS[0]) not in POOLS:
        raise InputError(f"{where}: pool = {shown(line['pool'])}: use {' or '.join(POOLS)}")
    line.setdefault("log_probs", line.get("log_prob"))
    return line


def _as_array(values: list[Any], kinds: str) -> NDArray[Any] | None:
    """Make an array of numbers with a dtype of these kinds; None if they have another."""
    try:
        numbers = np.array(values)
    except ValueError:
        return None
    fits = numbers.ndim == 1 and (not values or numbers.dtype.kind in kinds)
    return numbers if fits else None


def read_log_prob(line: Line, where: str, length: int) -> float:
    """Read the log-probability of a completion of `length` tokens; NaN if there is none."""
    given = line["log_probs"]
    if given is None:
        return float("nan")
    numbers = _as_array(given if isinstance(given, list) else [given], "if")
    # No token that was drawn has a log-probability of -1e9.
    if numbers is None or not (abs(numbers) < 1e9).all():
        raise InputError(f"{where}: log_probs: give finite numbers")
    if isinstance(given, list) and "tokens" in line and len(given) != length:
        raise InputError(
            f"{where}: {len(given)} log_probs for {length} tokens; give one for each "
            "token, the end token included"
        )
    return float(numbers.sum())


def read_reward(line: Line, where: str) -> float:
    """Read the reward of a completion."""
    value = line.get("reward")
    if not isinstance(value, int | float):
        raise InputError(
            f"{where}: reward = {shown(value)}, and the probe says reward: supplied; give "
            "a number, or name a reward in the probe"
        )
    if fault := fault_of_reward(value):
        raise InputError(f"{where}: reward = {shown(value)}: {fault}")
    return float(value)


def read_tokens(
    line: Line, where: str, policy: Policy, positions: int
) -> NDArray[np.int64]:
    """Read a completion's tokens, or tokenise its text.

    Args:
        line: The line.
        where: For messages.
        policy: The policy.
        positions: Most tokens of a completion.
    """
    from_text = "tokens" not in line
    given = _tokenise(line, where, policy, positions) if from_text else line["tokens"]
    tokens = _as_array(given, "i") if isinstance(given, list) else None
    if tokens is None:
        raise InputError(f"{where}: tokens: give a list of token ids")
    truncated = from_text and line.get("truncated") is True
    fault = _fault(tokens, policy, len(tokens) if truncated else positions)
    if fault and from_text:
        fault += "; a tokenised text may be longer than what was drawn: give tokens"
    if fault:
        raise InputError(f"{where}: {fault}")
    return tokens.astype(np.int64)


def _tokenise(line: Line, where: str, policy: Policy, most: int) -> list[int]:
    tokens = list(policy.tokenizer(line["text"], add_special_tokens=False).input_ids)
    if line.get("truncated") is True:
        return tokens[:most]
    if len(tokens) >= most or (tokens and tokens[-1] in policy.end_tokens):
        return tokens
    if policy.tokenizer.eos_token_id is None:
        raise InputError(f"{where}: the tokenizer has no end token; give tokens")
    return [*tokens, policy.tokenizer.eos_token_id]


def _fault(tokens: NDArray[np.int64], policy: Policy, positions: int) -> str:
    """Say why the policy cannot have drawn these tokens; empty if it can."""
    count, limit = len(tokens), f"sampling.max_new_tokens = {positions}"
    if not count:
        return "no tokens; an empty completion is its end token alone"
    outside = tokens[(tokens < 0) | (tokens >= policy.vocabulary)]
    if len(outside):
        vocabulary = f"the vocabulary of {policy.vocabulary}"
        return f"token {outside[0]} is not in {vocabulary}; check model.path"
    if count > positions:
        return f"{count} tokens, and {limit}; set it to what they were drawn with"
    ends = np.flatnonzero(np.isin(tokens, policy.end_tokens))
    if len(ends) and ends[0] < count - 1:
        end = f"end token {tokens[ends[0]]} is number {ends[0] + 1}"
        return f"{end} of {count} tokens; leave out what follows it"
    if not len(ends) and count < positions:
        end_tokens = ", ".join(map(str, policy.end_tokens))
        return (
            f"{count} tokens without an end token ({end_tokens}), and {limit}; give the "
            "end token too, or set sampling.max_new_tokens to what they were drawn with"
        )
    return ""
