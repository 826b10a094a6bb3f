"""The tokens of supplied completions: those that the policy can have drawn.

An end token may end each turn of the policy, behind which an environment goes on.
"""

from collections.abc import Iterator, Sequence

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
    longest = len(tokens) if truncated else positions
    longer = "; a tokenised text may be longer than what was drawn: give tokens"
    for fault in _faults(tokens, line.mask, policy, longest):
        raise line.refusal(f"{fault}{longer if from_text else ''}")
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


def _faults(
    tokens: Ints, mask: Flags | None, policy: Policy, positions: int
) -> Iterator[str]:
    """Say why the policy cannot have drawn the tokens of a mask."""
    count = len(tokens)
    if not count:
        yield "no tokens; an empty completion is its end token alone"
    for token in tokens[(tokens < 0) | (tokens >= policy.vocabulary)][:1]:
        vocabulary = f"the vocabulary of {policy.vocabulary}"
        yield f"token {token} is not in {vocabulary}; check model.path"
    if count > positions:
        yield (
            f"{count} tokens, and sampling.max_new_tokens = {positions}; set it to what "
            "they were drawn with"
        )
    if policy.stops is not None and mask is not None:
        yield "it has a mask, and turns end by themselves; leave out sampling.stop"
    drawn = np.ones(count, np.bool_) if mask is None else mask
    yield from _goes_on(tokens, drawn, policy)
    if drawn[-1] and count != positions and not policy.ends(tokens.tolist()):
        end_tokens = ", ".join(map(str, policy.end_tokens))
        yield (
            f"{count} tokens without an end token ({end_tokens}) or stop string, and "
            f"sampling.max_new_tokens = {positions}; give the end token too, or set "
            "sampling.stop and sampling.max_new_tokens to what they were drawn with"
        )


def _goes_on(tokens: Ints, drawn: Flags, policy: Policy) -> Iterator[str]:
    """Say where the policy went on after an end, as only an environment may."""
    count, rest = len(tokens), "leave out what follows it"
    ended = drawn & np.isin(tokens, policy.end_tokens)
    for at in np.flatnonzero(ended[:-1] & drawn[1:]):
        yield f"end token {tokens[at]} is number {at + 1} of {count} tokens; {rest}"
    if policy.stops is None:
        return
    for number in range(1, count):
        if policy.stops.end(tokens[:number].tolist()):
            what = "completes a string of sampling.stop"
            yield f"token {number} of {count} {what}; {rest}"
