"""The tokens of supplied completions: those that the policy can have drawn.

An end token may end each turn of the policy, behind which an environment goes on.
"""

from collections.abc import Sequence

import numpy as np

from mse_lab.arrays import Flags, Ints
from mse_lab.data.supplied_completions import Line
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy


def read_completions(lines: Sequence[Line], policy: Policy, positions: int) -> Completions:
    """Read completions of at most `positions` tokens.

    Log-probabilities are NaN if the file gives none.
    """
    return Completions.of_each(
        [read_tokens(line, policy, positions) for line in lines],
        positions,
        [line.policy_log_prob for line in lines],
        policy.ends,
        [line.mask for line in lines if line.mask is not None] or None,
    )


def read_tokens(line: Line, policy: Policy, positions: int) -> Ints:
    """Read a completion's tokens, those of tools among them, or tokenise its text."""
    from_text = line.token_ids is None
    given = _tokenise(line, policy, positions) if from_text else line.token_ids
    tokens = np.array(given, np.int64)
    truncated = from_text and line.truncated
    fault = _fault(tokens, line.mask, policy, len(tokens) if truncated else positions)
    if fault and from_text:
        fault += "; a tokenised text may be longer than what was drawn: give tokens"
    if fault:
        raise line.refusal(fault)
    return tokens


def _tokenise(line: Line, policy: Policy, most: int) -> list[int]:
    if policy.stops is not None:
        raise line.refusal(
            "a text does not tell which token completed a string of sampling.stop; give "
            "tokens"
        )
    tokens = list(policy.tokenizer(line.completion, add_special_tokens=False).input_ids)
    if line.truncated:
        return tokens[:most]
    if len(tokens) >= most or (tokens and tokens[-1] in policy.end_tokens):
        return tokens
    if policy.tokenizer.eos_token_id is None:
        raise line.refusal("the tokenizer has no end token; give tokens")
    return [*tokens, policy.tokenizer.eos_token_id]


def _fault(tokens: Ints, mask: Flags | None, policy: Policy, positions: int) -> str:
    """Say why the policy cannot have drawn the tokens of a mask; empty if it can."""
    count = len(tokens)
    if not count:
        return "no tokens; an empty completion is its end token alone"
    outside = tokens[(tokens < 0) | (tokens >= policy.vocabulary)]
    if len(outside):
        vocabulary = f"the vocabulary of {policy.vocabulary}"
        return f"token {outside[0]} is not in {vocabulary}; check model.path"
    if count > positions:
        return (
            f"{count} tokens, and sampling.max_new_tokens = {positions}; set it to what "
            "they were drawn with"
        )
    drawn = np.ones(count, np.bool_) if mask is None else mask
    return (
        _end_inside(tokens, drawn, policy)
        or _stop_inside(tokens, mask, policy)
        or _no_end(tokens, drawn, policy, positions)
    )


def _end_inside(tokens: Ints, drawn: Flags, policy: Policy) -> str:
    """Say where the policy went on after an end token, as only an environment may."""
    ended = drawn & np.isin(tokens, policy.end_tokens)
    for index in np.flatnonzero(ended[:-1] & drawn[1:])[:1]:
        end = f"end token {tokens[index]} is number {index + 1}"
        return f"{end} of {len(tokens)} tokens; leave out what follows it"
    return ""


def _stop_inside(tokens: Ints, mask: Flags | None, policy: Policy) -> str:
    """Say where the policy went on after a stop string."""
    if policy.stops is None:
        return ""
    if mask is not None:
        return "it has a mask, and turns end by themselves; leave out sampling.stop"
    for number in range(1, len(tokens)):
        if policy.stops.end(tokens[:number].tolist()):
            end = f"token {number} of {len(tokens)} completes a string of sampling.stop"
            return f"{end}; leave out what follows it"
    return ""


def _no_end(tokens: Ints, drawn: Flags, policy: Policy, positions: int) -> str:
    """Say that nothing ended a completion that was not truncated either."""
    if not drawn[-1] or len(tokens) == positions or policy.ends(tokens.tolist()):
        return ""
    end_tokens = ", ".join(map(str, policy.end_tokens))
    return (
        f"{len(tokens)} tokens without an end token ({end_tokens}) or stop string, and "
        f"sampling.max_new_tokens = {positions}; give the end token too, or set "
        "sampling.stop and sampling.max_new_tokens to what they were drawn with"
    )
