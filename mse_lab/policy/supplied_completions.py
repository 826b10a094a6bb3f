"""Supplied completions: drawn elsewhere, by vLLM or a trainer, and read from a file.

A line is a JSON object; other keys are ignored, and all lines give the same ones:

| key       | meaning                                                                  |
|-----------|--------------------------------------------------------------------------|
| prompt    | id of its prompt                                                         |
| tokens    | token ids, the end token included unless the completion was cut          |
| text      | instead of tokens; tokenised anew, the tokenizer's end token appended    |
| truncated | optional, with text: true where it was cut, so that no end token follows |
| log_probs | optional: log-probability of each token, or (also `log_prob`) their sum  |
| pool      | optional: reference or replicate                                         |
| reward    | read where the probe says `reward: supplied`                             |

Where lines do not name their pool, a prompt's first ones, in the order of the file, are its
reference pool and the next ones its replicates. The file may be larger than the memory: an
index of where each prompt's lines begin is kept, and they are read when it is measured.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.errors import InputError, one_line, shorten, shown
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.probe.plain_text import STARTS, local_path, parse_json, reading
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import fault_of_reward
from mse_lab.probe.schema import Probe

POOLS = ("reference", "replicate")

# Minus the log-probability of a token: beyond it nothing was ever drawn.
_LEAST_LIKELY = 1e9

ANEW = "; a text tokenised anew may be longer than what was drawn: give tokens"
Line = Mapping[str, Any]
# Prompt id -> pool -> where its completions' lines begin, in bytes.
Places = Mapping[str, Mapping[str, Sequence[int]]]


class Form(NamedTuple):
    """Whether a line gives its pool, tokens (not a text), and log-probabilities."""

    pool: bool
    tokens: bool
    log_probs: bool


def parse_line(raw: bytes, where: str) -> dict[str, Any]:
    """Read a line, with its prompt and tokens or text; `where` is for messages."""
    line = parse_json(raw, where)
    if "prompt" not in line:
        raise InputError(f"{where}: prompt is missing; give the id of its prompt")
    if "tokens" not in line and not isinstance(line.get("text"), str):
        raise InputError(f"{where}: neither tokens nor text; give token ids as tokens")
    if line.get("pool", POOLS[0]) not in POOLS:
        raise InputError(f"{where}: pool = {shown(line['pool'])}: use {' or '.join(POOLS)}")
    line.setdefault("log_probs", line.get("log_prob"))
    return line


def _numbers(given: list[Any], kinds: str) -> NDArray[Any] | None:
    """Make an array of numbers of these kinds; None where they are something else."""
    try:
        numbers = np.array(given)
    except ValueError:
        return None
    fitting = numbers.ndim == 1 and (not given or numbers.dtype.kind in kinds)
    return numbers if fitting else None


def read_log_prob(line: Line, where: str, length: int) -> float:
    """Read the summed log-probability of a completion of so many tokens; NaN where none."""
    given = line["log_probs"]
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
    """Take a completion's tokens, or make them from its text, maybe fewer than drawn."""
    own = "tokens" in line
    cut = not own and line.get("truncated") is True
    given = line["tokens"] if own else _tokenise(line, where, policy, positions)
    tokens = _numbers(given, "i") if isinstance(given, list) else None
    if tokens is None:
        raise InputError(f"{where}: tokens: give a list of token ids")
    if fault := _fault(tokens, policy, len(tokens) if cut else positions):
        raise InputError(f"{where}: {fault}{'' if own else ANEW}")
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


@dataclass(frozen=True)
class Supplied:
    """The completions of a file, found by prompt and pool.

    Attributes:
        digest: The file's hash, to see on resuming whether it has changed.
        places: Where each prompt's completions stand, as many as its pools take.
        unmatched_ids: Ids in the file that are not those of measured prompts.
    """

    path: Path
    digest: str
    form: Form
    places: Places
    unmatched_ids: Sequence[str]

    def _lines(self, prompt_id: str, pool: str) -> Iterator[tuple[str, Line]]:
        with reading(self.path), self.path.open("rb") as file:
            for number, place in enumerate(self.places[prompt_id][pool]):
                file.seek(place)
                where = f"{self.path}: prompt {prompt_id}, {pool} completion {number}"
                yield where, parse_line(file.readline(), where)

    def read(
        self, prompt_id: str, pool: str, policy: Policy, positions: int
    ) -> Completions:
        """Read a prompt's `reference` or `replicate` pool, cut at so many positions.

        Log-probabilities are NaN where the file gives none.
        """
        own_tokens, log_probs = [], []
        for where, line in self._lines(prompt_id, pool):
            own_tokens.append(read_tokens(line, where, policy, positions))
            log_probs.append(read_log_prob(line, where, len(own_tokens[-1])))
        return Completions.of_each(own_tokens, positions, log_probs, policy.end_tokens)

    def rewards(self, prompt_id: str, pool: str) -> NDArray[np.float64]:
        """Read the rewards (N,) of a pool."""
        lines = self._lines(prompt_id, pool)
        return np.array([read_reward(line, where) for where, line in lines])

    def validate(self, policy: Policy, probe: Probe) -> None:
        """Read everything once, so that no fault shows up hours later."""
        for prompt_id, pools in self.places.items():
            for pool in pools:
                self.read(prompt_id, pool, policy, probe.sampling.max_new_tokens)
                if probe.reward == "supplied":
                    self.rewards(prompt_id, pool)

    def warnings(self) -> list[str]:
        """Say what a reader should know of completions from this file."""
        name, warnings = self.path.name, []
        if not self.form.log_probs:
            warnings.append(
                f"{name} gives no log-probabilities: «drawn law equals differentiated law» "
                "was not tested, and the completions are judged by their tokens and scores "
                "alone; give log_probs"
            )
        if not self.form.tokens:
            warnings.append(
                f"{name} gives texts, tokenised anew: these need not be the tokens that "
                "were drawn, and a text of fewer than sampling.max_new_tokens is taken to "
                "have ended unless its line has truncated: true; better give tokens"
            )
        if self.unmatched_ids:
            some = one_line(", ".join(map(shorten, self.unmatched_ids[:3])))
            warnings.append(
                f"{name} has completions of {len(self.unmatched_ids)} more prompts, "
                f"which are not measured: {some}{', ...' if self.unmatched_ids[3:] else ''}"
            )
        return warnings


def _read_index(path: Path) -> Iterator[tuple[int, Line, Form]]:
    """Yield of every line where it begins, the line, and the one form of all."""
    place, form = 0, None
    with reading(path), path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                where = f"{path}, line {number}"
                line = parse_line(raw, where)
                own = Form("pool" in line, "tokens" in line, line["log_probs"] is not None)
                form = form or own
                _refuse_mixture(where, form, own)
                yield place, line, form
            place += len(raw)


def _refuse_mixture(where: str, first: Form, other: Form) -> None:
    for key, before, now in zip(Form._fields, first, other, strict=True):
        if before != now:
            raise InputError(
                f"{where}: {key} {'missing' if before else 'given'}, unlike in the lines "
                "before; give it in all lines or in none"
            )


def _refuse_few(path: Path, places: Places, form: Form, needed: Mapping[str, int]) -> None:
    keys = " and ".join(f"pool.{pool} = {count}" for pool, count in needed.items())
    for prompt_id, pools in places.items():
        for pool in (pool for pool in POOLS if len(pools[pool]) < needed[pool]):
            there = f"{sum(map(len, pools.values()))} completions"
            if form.pool:
                there = f"{len(pools[pool])} {pool} completions"
            raise InputError(
                f"{path}: prompt {prompt_id} has {there}, too few for {keys}; "
                "lower them or draw more"
            )


def find_completions(probe: Probe, prompts: Sequence[Prompt], root: Path) -> Supplied:
    """Find the completions in the file that the probe names, the first of each prompt."""
    path = local_path(str(probe.completions), root)
    if path is None or not path.is_file():
        raise InputError(
            f"completions = {probe.completions}: no such file; give a JSONL ({STARTS})"
        )
    needed = {pool: getattr(probe.pool, pool) for pool in POOLS}
    places = {prompt.id: {pool: array("Q") for pool in POOLS} for prompt in prompts}
    unmatched_ids: dict[str, None] = {}
    form = None
    for place, line, given in _read_index(path):
        form = given
        pools = places.get(str(line["prompt"]))
        if pools is None:
            unmatched_ids[str(line["prompt"])] = None
            continue
        next_pool = POOLS[len(pools["reference"]) == needed["reference"]]
        pool = str(line.get("pool", next_pool))
        if len(pools[pool]) < needed[pool]:
            pools[pool].append(place)
    if form is None:
        raise InputError(f"completions = {probe.completions}: holds no line; draw some")
    if unmatched_ids and not any(len(pools["reference"]) for pools in places.values()):
        example = shown(next(iter(unmatched_ids)))
        raise InputError(
            f"{path}: its prompts, such as {example}, are not those of the prompt set, "
            f"such as {shown(prompts[0].id)}; give the ids of the prompt set"
        )
    _refuse_few(path, places, form, needed)
    with reading(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Supplied(path, digest, form, places, list(unmatched_ids))
