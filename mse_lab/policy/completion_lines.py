"""A line of a file of completions: a JSON object, and what is read from it.

`probes/README.md` says what each key means. An end token may end each turn of the policy,
and the log-probabilities of masked tokens do not count.
All lines have the same of these keys; others are ignored.
"""

import json
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
)

from mse_lab.arrays import LARGEST, Flags, Floats, Ints
from mse_lab.errors import InputError
from mse_lab.policy.policy import Policy
from mse_lab.probe.engine_dumps import MARKS, lines_of

POOLS = ("reference", "replicate")

# No token that was drawn has a log-probability of -1e9.
LogProb = Annotated[float, Field(gt=-1e9, lt=1e9)]

# 1 or 0; true and false are accepted, too.
_as_number = BeforeValidator(lambda value: int(value) if isinstance(value, bool) else value)
MaskEntry = Annotated[int, _as_number, Field(ge=0, le=1)]


class Form(NamedTuple):
    """Whether the lines have `pool`, `tokens` (not `text`), and each optional key."""

    pool: bool
    tokens: bool
    log_probs: bool
    mask: bool
    engine_log_probs: bool


class Line(BaseModel):
    """A line, validated."""

    model_config = ConfigDict(strict=True, frozen=True)

    prompt: Annotated[str, BeforeValidator(str)]
    tokens: list[Annotated[int, Field(ge=-(2**31), lt=2**31)]] | None = None
    text: str | None = None
    mask: list[MaskEntry] | None = None
    truncated: bool = False
    log_probs: LogProb | list[LogProb] | None = Field(
        None, validation_alias=AliasChoices("log_probs", "log_prob")
    )
    engine_log_probs: list[LogProb] | None = None
    pool: Literal["reference", "replicate"] | None = None
    reward: Annotated[float, Field(ge=-LARGEST, le=LARGEST)] | None = None
    _where: str = PrivateAttr("")  # Names it in messages.

    @property
    def form(self) -> Form:
        """What the line gives."""
        return Form(*(getattr(self, key) is not None for key in Form._fields))

    def _refusal(self, reason: str) -> InputError:
        return InputError(f"{self._where}: {reason}")

    def _of_each_token(self, key: str, length: int) -> list[float]:
        """Give a key's values; refuse them where there is not one for each token."""
        values: list[float] = getattr(self, key) or []
        if self.tokens is None:
            raise self._refusal(f"{key}: given with a text; give tokens, too")
        if len(values) != length:
            raise self._refusal(
                f"{key}: {len(values)} entries for {length} tokens; give one for each "
                "token, the end token included"
            )
        return values

    def read_mask(self, length: int) -> Flags | None:
        """Read which of a completion's `length` tokens the policy drew; None for all."""
        if self.mask is None:
            return None
        mask = self._of_each_token("mask", length)
        if not any(mask):
            raise self._refusal(
                "mask: 0 for every token; leave out what the policy did not draw"
            )
        return np.array(mask, np.bool_)

    def read_log_prob(self, length: int, mask: Flags | None = None) -> float:
        """Read the log-probability of a completion, of its own tokens; NaN if none."""
        given = self.log_probs
        if given is None:
            return float("nan")
        if isinstance(given, float):
            return given
        if self.tokens is not None:
            self._of_each_token("log_probs", length)
        return float(np.sum(given, where=True if mask is None else mask))

    def read_engine_log_probs(self, positions: int) -> Floats:
        """Read the engine's log-probability of each token, zeros after the last, (T,)."""
        given = self._of_each_token("engine_log_probs", len(self.tokens or ()))
        return np.pad(np.array(given, float), (0, max(0, positions - len(given))))

    def read_reward(self) -> float:
        """Read the reward of a completion."""
        if self.reward is None:
            raise self._refusal(
                "no reward, and the probe says reward: supplied; give a number, or "
                "name a reward in the probe"
            )
        return self.reward

    def read_tokens(self, policy: Policy, positions: int) -> Ints:
        """Read a completion's tokens, those of tools among them, or tokenise its text."""
        from_text = self.tokens is None
        given = self._tokenise(policy, positions) if from_text else self.tokens
        tokens = np.array(given, np.int64)
        mask = self.read_mask(len(tokens))
        truncated = from_text and self.truncated
        fault = _fault(tokens, mask, policy, len(tokens) if truncated else positions)
        if fault and from_text:
            fault += "; a tokenised text may be longer than what was drawn: give tokens"
        if fault:
            raise self._refusal(fault)
        return tokens

    def _tokenise(self, policy: Policy, most: int) -> list[int]:
        if policy.stops is not None:
            raise self._refusal(
                "a text does not tell which token completed a string of "
                "sampling.stop; give tokens"
            )
        tokens = list(policy.tokenizer(self.text, add_special_tokens=False).input_ids)
        if self.truncated:
            return tokens[:most]
        if len(tokens) >= most or (tokens and tokens[-1] in policy.end_tokens):
            return tokens
        if policy.tokenizer.eos_token_id is None:
            raise self._refusal("the tokenizer has no end token; give tokens")
        return [*tokens, policy.tokenizer.eos_token_id]


def parse_line(raw: bytes, where: str) -> Line:
    """Parse a line; `where` is for messages."""
    try:
        line = Line.model_validate_json(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = f"{first['loc'][0]}: " if first["loc"] else ""
        raise InputError(f"{where}: {key}{first['msg']}") from None
    if line.tokens is None and line.text is None:
        raise InputError(f"{where}: neither tokens nor text; give token ids as tokens")
    line._where = where
    return line


def parse_lines(raw: bytes, where: str) -> list[Line]:
    """Parse a line, which may be an engine's answer with several completions."""
    if any(mark in raw for mark in MARKS):
        try:
            record = json.loads(raw.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            record = None  # What is wrong with it is said below.
        found = lines_of(record, where) if isinstance(record, dict) else []
        if found:
            return [parse_line(json.dumps(one).encode(), where) for one in found]
    return [parse_line(raw, where)]


def _fault(tokens: Ints, mask: Flags | None, policy: Policy, positions: int) -> str:
    """Say why the policy cannot have drawn the tokens of a mask; empty if it can."""
    count, limit = len(tokens), f"sampling.max_new_tokens = {positions}"
    if not count:
        return "no tokens; an empty completion is its end token alone"
    outside = tokens[(tokens < 0) | (tokens >= policy.vocabulary)]
    if len(outside):
        vocabulary = f"the vocabulary of {policy.vocabulary}"
        return f"token {outside[0]} is not in {vocabulary}; check model.path"
    if count > positions:
        return f"{count} tokens, and {limit}; set it to what they were drawn with"
    drawn = np.ones(count, np.bool_) if mask is None else mask
    ended = drawn & np.isin(tokens, policy.end_tokens)
    # An environment may go on after an end token, the policy may not.
    for index in np.flatnonzero(ended[:-1] & drawn[1:])[:1]:
        end = f"end token {tokens[index]} is number {index + 1}"
        return f"{end} of {count} tokens; leave out what follows it"
    if policy.stops is not None:
        if mask is not None:
            return "it has a mask, and turns end by themselves; leave out sampling.stop"
        for number in range(1, count):
            if policy.stops.end(tokens[:number].tolist()):
                end = f"token {number} of {count} completes a string of sampling.stop"
                return f"{end}; leave out what follows it"
    if drawn[-1] and count < positions and not policy.ends(tokens.tolist()):
        end_tokens = ", ".join(map(str, policy.end_tokens))
        return (
            f"{count} tokens without an end token ({end_tokens}) or stop string, and "
            f"{limit}; give the end token too, or set sampling.stop and "
            "sampling.max_new_tokens to what they were drawn with"
        )
    return ""
