"""A line of supplied completions: JSON object -> token ids and log-probability.

| key       | meaning                                                                  |
|-----------|--------------------------------------------------------------------------|
| prompt    | id of its prompt                                                         |
| tokens    | token ids, the end token included unless the completion was cut          |
| text      | instead of tokens; tokenised anew, the tokenizer's end token appended    |
| log_probs | optional: log-probability of each token, or (also `log_prob`) their sum  |
| pool      | optional: reference or replicate                                         |
| reward    | read where the probe says `reward: supplied`                             |

Other keys are ignored.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.errors import InputError, shown
from mse_lab.policy.policy import Policy
from mse_lab.probe.plain_text import parse_json
from mse_lab.probe.rewards import fault_of_reward

# Minus the log-probability of a token: beyond it nothing was ever drawn.
_LEAST_LIKELY = 1e9

POOLS = ("reference", "replicate")

Line = Mapping[str, Any]


class Form(NamedTuple):
    """Whether a line names its pool, gives tokens (not a text), and log-probabilities."""

    pool: bool
    tokens: bool
    log_probs: bool


def _given_log_probs(line: Line) -> Any:
    return line.get("log_probs", line.get("log_prob"))


def form_of(line: Line) -> Form:
    """Say which of the optional keys a line has.

    >>> form_of({"prompt": "a", "text": "7", "log_prob": -0.5})
    Form(pool=False, tokens=False, log_probs=True)
    """
    return Form("pool" in line, "tokens" in line, _given_log_probs(line) is not None)


def parse_line(raw: bytes, where: str) -> dict[str, Any]:
    """Read a line; `where` says where it stands, here and below, for messages."""
    line = parse_json(raw, where)
    if "prompt" not in line:
        raise InputError(f"{where}: prompt is missing; give the id of its prompt")
    if "tokens" not in line and not isinstance(line.get("text"), str):
        raise InputError(f"{where}: neither tokens nor text; give token ids as tokens")
    if line.get("pool", POOLS[0]) not in POOLS:
        raise InputError(f"{where}: pool = {shown(line['pool'])}: use {' or '.join(POOLS)}")
    return line


def _numbers(given: Any, kinds: str) -> NDArray[Any] | None:
    """Make an array of a list of numbers; None where it is something else."""
    try:
        numbers = np.array(given)
    except ValueError:
        return None
    fitting = isinstance(given, list) and numbers.ndim == 1
    return numbers if fitting and (not given or numbers.dtype.kind in kinds) else None


def read_log_prob(line: Line, where: str, length: int) -> float:
    """Read the summed log-probability of a completion of so many tokens; NaN where none."""
    given = _given_log_probs(line)
    if given is None:
        return float("nan")
    numbers = _numbers(given if isinstance(given, list) else [given], "if")
    if numbers is None or not (abs(numbers) < _LEAST_LIKELY).all():
        raise InputError(f"{where}: log_probs: give finite numbers")
    if isinstance(given, list) and "tokens" in line and len(given) != length:
        raise InputError(
            f"{where}: {len(given)} log_probs for {length} tokens; give one for each, the "
            "end token's included"
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
    """Take a completion's tokens, cut at so many positions, or make them from its text."""
    if "tokens" in line:
        tokens = _numbers(line["tokens"], "i")
    else:
        tokens = _tokenise(line["text"], where, policy, positions)
    if tokens is None:
        raise InputError(f"{where}: tokens: give a list of token ids")
    if fault := _fault(tokens, policy, positions):
        raise InputError(f"{where}: {fault}")
    return tokens.astype(np.int64)


def _tokenise(text: str, where: str, policy: Policy, positions: int) -> NDArray[np.int64]:
    tokenizer = policy.tokenizer
    tokens = list(tokenizer(text, add_special_tokens=False).input_ids)
    ended = bool(tokens) and tokens[-1] in policy.end_tokens
    if not ended and len(tokens) < positions:
        if tokenizer.eos_token_id is None:
            raise InputError(f"{where}: the tokenizer has no end token; give tokens")
        tokens.append(tokenizer.eos_token_id)
    return np.array(tokens, dtype=np.int64)


def _fault(tokens: NDArray[np.int64], policy: Policy, positions: int) -> str:
    """Say why the policy, cut at `positions`, cannot have drawn these; empty if it can."""
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
        place = f"end token {tokens[ends[0]]} is number {ends[0] + 1}"
        return f"{place} of {count} tokens; leave out what follows it"
    if not len(ends) and count < positions:
        known = ", ".join(map(str, policy.end_tokens))
        return (
            f"{count} tokens without an end token ({known}), and {limit}; give the end "
            "token too, or set sampling.max_new_tokens to what they were drawn with"
        )
    return ""
