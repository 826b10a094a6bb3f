"""Supplied completions: drawn elsewhere, by vLLM or a trainer, and read from a file.

What a line of the file holds stands in `supplied_line.py`; all its lines give the same.
Where they do not name their pool, a prompt's first lines, in the order of the file, are its
reference pool and the next ones its replicates. The file may be larger than the memory: an
index of where each prompt's lines begin is kept, and they are read when it is measured.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mse_lab.errors import InputError, one_line, shorten, shown
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.supplied_line import (
    POOLS,
    Form,
    Line,
    form_of,
    parse_line,
    read_log_prob,
    read_reward,
    read_tokens,
)
from mse_lab.probe.plain_text import local_path, reading
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.schema import Probe

# Prompt id -> pool -> where its completions' lines begin, in bytes.
Places = Mapping[str, Mapping[str, Sequence[int]]]


@dataclass(frozen=True)
class Supplied:
    """The completions of a file, found by prompt and pool.

    Attributes:
        path: The file.
        digest: Its hash, to see on resuming whether it has changed.
        form: What its lines give.
        places: Where each prompt's completions stand, as many as its pools take.
        strangers: Ids in the file that are not those of measured prompts.
    """

    path: Path
    digest: str
    form: Form
    places: Places
    strangers: Sequence[str]

    def _lines(self, prompt_id: str, pool: str) -> Iterator[tuple[str, Line]]:
        """Yield of each completion where it stands, in words, and its line."""
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
        tokens_NT = np.zeros((len(self.places[prompt_id][pool]), positions), np.int64)
        log_probs_N = np.zeros(len(tokens_NT))
        for row, (where, line) in enumerate(self._lines(prompt_id, pool)):
            tokens = read_tokens(line, where, policy, positions)
            tokens_NT[row, : len(tokens)] = tokens
            log_probs_N[row] = read_log_prob(line, where, len(tokens))
        return Completions.ending(tokens_NT, log_probs_N, policy.end_tokens)

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
                f"{name} gives texts, which were tokenised anew and ended with "
                "the tokenizer's end token: these need not be the tokens that were drawn; "
                "give tokens"
            )
        if self.strangers:
            some = one_line(", ".join(map(shorten, self.strangers[:3])))
            warnings.append(
                f"{name} has completions of {len(self.strangers)} more prompts, "
                f"which are not measured: {some}{', ...' if self.strangers[3:] else ''}"
            )
        return warnings


def _read_index(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield of every line where it begins, and the line; all are of one form."""
    place, form = 0, None
    with reading(path), path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                where = f"{path}, line {number}"
                line = parse_line(raw, where)
                form = form or form_of(line)
                _refuse_mixture(where, form, form_of(line))
                yield place, line
            place += len(raw)


def _refuse_mixture(where: str, first: Form, other: Form) -> None:
    for key, before, now in zip(Form._fields, first, other, strict=True):
        if before != now:
            raise InputError(
                f"{where}: {key} {'missing' if before else 'given'}, unlike in the lines "
                "before; give it in all lines or in none"
            )


def _refuse_few(path: Path, places: Places, form: Form, needed: Mapping[str, int]) -> None:
    """See that every prompt has as many completions as its pools take."""
    keys = " and ".join(f"pool.{pool} = {count}" for pool, count in needed.items())
    for prompt_id, pools in places.items():
        for pool in POOLS:
            if len(pools[pool]) == needed[pool]:
                continue
            there, kind = sum(map(len, pools.values())), "completions"
            if form.pool:
                there, kind = len(pools[pool]), f"{pool} completions"
            raise InputError(
                f"{path}: prompt {prompt_id} has {there} {kind}, too few for {keys}; "
                "lower them or draw more"
            )


def find_completions(probe: Probe, prompts: Sequence[Prompt], root: Path) -> Supplied:
    """Find the completions of every prompt in the file that the probe names.

    Of more than the pools take, they are the first ones.
    """
    path = local_path(str(probe.completions), root)
    if path is None or not path.is_file():
        raise InputError(f"completions = {probe.completions}: no such file; give a JSONL")
    needed = {pool: getattr(probe.pool, pool) for pool in POOLS}
    places = {prompt.id: {pool: array("Q") for pool in POOLS} for prompt in prompts}
    strangers: dict[str, None] = {}
    form = None
    for place, line in _read_index(path):
        form = form or form_of(line)
        pools = places.get(str(line["prompt"]))
        if pools is None:
            strangers[str(line["prompt"])] = None
            continue
        next_pool = POOLS[len(pools["reference"]) == needed["reference"]]
        pool = str(line.get("pool", next_pool))
        if len(pools[pool]) < needed[pool]:
            pools[pool].append(place)
    if form is None:
        raise InputError(f"completions = {probe.completions}: holds no line; draw some")
    if strangers and not any(len(pools["reference"]) for pools in places.values()):
        raise InputError(
            f"{path}: its prompts, such as {shown(next(iter(strangers)))}, are not those "
            f"of the prompt set, such as {shown(prompts[0].id)}; give the prompt set's ids"
        )
    _refuse_few(path, places, form, needed)
    with reading(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Supplied(path, digest, form, places, list(strangers))
