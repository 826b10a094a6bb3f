"""Supplied completions: drawn elsewhere, by vLLM or a trainer, and read from a file.

`completion_lines.py` describes a line of it. If lines do not name their pool, the first
completions of a prompt, in the order of the file, are its reference pool and the next ones
its replicates. The file may be larger than the memory: an index of where each prompt's
lines begin is kept, and they are read when the prompt is measured.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.errors import InputError, one_line, shorten, shown
from mse_lab.policy.completion_lines import POOLS, Form, Line, parse_lines
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.probe.plain_text import STARTS, local_path, reading
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.schema import Probe

# Prompt id -> pool -> the places of its completions: the offset of a line in bytes times
# `PLACES`, and the number in that line, as an engine's answer may hold several.
Offsets = Mapping[str, Mapping[str, Sequence[int]]]
PLACES = 2**20


@dataclass(frozen=True)
class Supplied:
    """The completions in a file, by prompt and pool."""

    path: Path  # The file.
    digest: str  # Its hash: a resumed run refuses another file.
    form: Form  # What the lines give.
    offsets: Offsets  # The places of each prompt's pools.
    unmatched_ids: Sequence[str]  # Ids in the file that no measured prompt has.

    def _lines(self, prompt_id: str, pool: str) -> Iterator[Line]:
        with reading(self.path), self.path.open("rb") as file:
            parsed, lines = -1, list[Line]()
            for number, at in enumerate(self.offsets[prompt_id][pool]):
                offset, place = divmod(at, PLACES)
                where = f"{self.path}: prompt {prompt_id}, {pool} completion {number}"
                if offset != parsed:
                    file.seek(offset)
                    parsed, lines = offset, parse_lines(file.readline(), where)
                yield lines[place]

    def read(
        self, prompt_id: str, pool: str, policy: Policy, positions: int
    ) -> Completions:
        """Read a prompt's `reference` or `replicate` pool of at most `positions` tokens.

        Log-probabilities are NaN if the file gives none.
        """
        unpadded, masks, log_probs = [], [], []
        for line in self._lines(prompt_id, pool):
            tokens = line.read_tokens(policy, positions)
            mask = line.read_mask(len(tokens))
            log_probs.append(line.read_log_prob(len(tokens), mask))
            unpadded.append(tokens)
            masks += [] if mask is None else [mask]
        return Completions.of_each(
            unpadded, positions, log_probs, policy.ends, masks or None
        )

    def rewards(self, prompt_id: str, pool: str) -> Floats:
        """Read the rewards (N,) of a pool."""
        return np.array([line.read_reward() for line in self._lines(prompt_id, pool)])

    def engine_log_probs(self, prompt_id: str, pool: str, positions: int) -> Floats:
        """Read the engine's log-probabilities of the tokens of a pool, (N, T)."""
        lines = self._lines(prompt_id, pool)
        return np.stack([line.read_engine_log_probs(positions) for line in lines])

    def validate(self, policy: Policy, probe: Probe) -> None:
        """Read everything once, so that a fault shows before the first measurement."""
        positions = probe.sampling.max_new_tokens
        for prompt_id, pools in self.offsets.items():
            for pool in pools:
                self.read(prompt_id, pool, policy, positions)
                if self.form.engine_log_probs:
                    self.engine_log_probs(prompt_id, pool, positions)
                if probe.reward == "supplied":
                    self.rewards(prompt_id, pool)

    def warnings(self) -> list[str]:
        """List what a reader of the results should know about the file."""
        name, warnings = self.path.name, []
        # An engine's own are compared by the report of its mismatch.
        if not (self.form.log_probs or self.form.engine_log_probs):
            warnings.append(
                f"{name} gives no log-probabilities: the check «drawn law equals "
                "differentiated law» was skipped; give log_probs"
            )
        if not self.form.tokens:
            warnings.append(
                f"{name} gives texts, tokenised anew: these need not be the tokens that "
                "were drawn, and a text of fewer than sampling.max_new_tokens is taken to "
                "have ended unless its line has truncated: true; better give tokens"
            )
        if self.unmatched_ids:
            examples = [shorten(name) for name in self.unmatched_ids[:3]]
            if len(self.unmatched_ids) > 3:
                examples.append("...")
            warnings.append(
                f"{name} has completions of {len(self.unmatched_ids)} more prompts, "
                f"which are not measured: {one_line(', '.join(examples))}"
            )
        return warnings


def _read_index(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield every completion with its place; all have the form of the first."""
    offset, form = 0, None
    with reading(path), path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                where = f"{path}, line {number}"
                for place, line in enumerate(parse_lines(raw, where)):
                    form = form or line.form
                    _refuse_mixture(where, form, line.form)
                    yield offset * PLACES + place, line
            offset += len(raw)


def _refuse_mixture(where: str, first: Form, other: Form) -> None:
    for key, before, now in zip(Form._fields, first, other, strict=True):
        if before != now:
            raise InputError(
                f"{where}: {key} {'missing' if before else 'given'}, unlike in the lines "
                "before; give it in all lines or in none"
            )


def _refuse_few(
    path: Path, offsets: Offsets, form: Form, needed: Mapping[str, int]
) -> None:
    keys = " and ".join(f"pool.{pool} = {count}" for pool, count in needed.items())
    for prompt_id, pools in offsets.items():
        for pool in POOLS:
            if len(pools[pool]) < needed[pool]:
                count = f"{sum(map(len, pools.values()))} completions"
                if form.pool:
                    count = f"{len(pools[pool])} {pool} completions"
                raise InputError(
                    f"{path}: prompt {prompt_id} has {count}, too few for {keys}; "
                    "lower them or draw more"
                )


def find_completions(probe: Probe, prompts: Sequence[Prompt], root: Path) -> Supplied:
    """Index the file of completions that a probe names.

    Completions of a prompt beyond its pools are left out.
    """
    key = f"completions = {probe.completions}"
    path = local_path(str(probe.completions), root)
    if path is None or not path.is_file():
        raise InputError(f"{key}: no such file; give a JSONL ({STARTS})")
    needed = {pool: getattr(probe.pool, pool) for pool in POOLS}
    offsets = {prompt.id: {pool: array("Q") for pool in POOLS} for prompt in prompts}
    unmatched_ids: dict[str, None] = {}
    form, matched = None, False
    # Engines know a prompt by its text.
    ids = {} if probe.prompts.chat else {one.text: one.id for one in reversed(prompts)}
    for offset, line in _read_index(path):
        form = line.form
        name = line.prompt if line.prompt in offsets else ids.get(line.prompt, line.prompt)
        if name not in offsets:
            unmatched_ids[name] = None
            continue
        pools, matched = offsets[name], True
        full = len(pools["reference"]) == needed["reference"]
        pool = line.pool or ("replicate" if full else "reference")
        if len(pools[pool]) < needed[pool]:
            pools[pool].append(offset)
    if form is None:
        raise InputError(f"{key}: the file is empty; draw completions")
    if not matched:
        raise InputError(
            f"{path}: its prompts, such as {shown(next(iter(unmatched_ids)))}, are not "
            f"those of the prompt set, such as {shown(prompts[0].id)}; give the ids of the "
            "prompt set"
        )
    _refuse_few(path, offsets, form, needed)
    with reading(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Supplied(path, digest, form, offsets, list(unmatched_ids))
