"""Supplied completions: drawn elsewhere, by vLLM or a trainer, and read from a file.

A line or row of the file is a record of a completion (`records/records.py`), read as
`rollouts` reads it; `probes/README.md` says what a run makes of it. The log-probabilities
of masked tokens do not count. All lines have the same names; others are ignored.

A text may be the one message of a chat's answer, as TRL logs it.

If lines do not name their pool, the first completions of a prompt, in the order of the
file, are its reference pool and the next ones its replicates.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.config.schema import Probe
from mse_lab.data.prompts import Prompt
from mse_lab.errors import InputError, shown
from mse_lab.records.plain_text import STARTS, local_path, reading
from mse_lab.records.records import own_columns, read_records
from mse_lab.records.rows import ColumnValues, Faults, Rows, listed, read_rows

POOLS = ("reference", "replicate")

# The names whose values are lists, and the type of their entries.
KINDS: dict[str, Any] = {
    **{"token_ids": np.int64, "mask": np.bool_},
    **{"log_probs": np.float64, "engine_log_probs": np.float64},
}

# Messages that a table, which has no lists, holds as a text.
_WRITTEN_CHAT = re.compile(r"\s*\[\s*\{\s*(['\"])(?:role|content)\1\s*:")

# The names that all lines have, or none; and those of a record that are read.
SAME = ("pool", *KINDS)
READ = (*SAME, "prompt_id", "prompt", "completion", "truncated", "log_prob", "reward")


@dataclass(frozen=True)
class Line:
    """A line: what it gives of a completion, None where it says nothing."""

    where: str  # Names it in messages.
    prompt_id: str
    completion: str | None = None
    token_ids: Ints | None = None
    mask: Flags | None = None
    truncated: bool | None = None
    log_probs: Floats | None = None
    log_prob: float | None = None
    engine_log_probs: Floats | None = None
    pool: str | None = None
    reward: float | None = None

    @property
    def form(self) -> frozenset[str]:
        """Which of the names `SAME` the line gives; a sum stands for `log_probs`."""
        given = {name for name in SAME if getattr(self, name) is not None}
        return frozenset(given | ({"log_probs"} if self.log_prob is not None else set()))

    def refusal(self, reason: str) -> InputError:
        """Say why the line cannot be used."""
        return InputError(f"{self.where}: {reason}")

    def __post_init__(self) -> None:
        """Refuse what no run can read."""
        if self.token_ids is None and self.completion is None:
            raise self.refusal("neither tokens nor text; give token ids as tokens")
        if self.pool not in (*POOLS, None):
            raise self.refusal(f"pool = {shown(self.pool)}: give {' or '.join(POOLS)}")
        for key in ("mask", "log_probs", "engine_log_probs"):
            values = getattr(self, key)
            if values is not None and (fault := self._odd(key, values)):
                raise self.refusal(f"{key}: {fault}")

    def _odd(self, key: str, values: Flags | Floats) -> str:
        """Say why a key's values are not one for each token; empty if they are."""
        if self.token_ids is None and key != "log_probs":  # Their sum is the text's.
            return "given with a text; give tokens, too"
        if self.token_ids is not None and len(values) != len(self.token_ids):
            return (
                f"{len(values)} entries for {len(self.token_ids)} tokens; give one for "
                "each token, the end token included"
            )
        if key == "mask" and not values.any():
            return "0 for every token; leave out what the policy did not draw"
        return "a token without one; give one for each" if np.isnan(values).any() else ""

    @property
    def policy_log_prob(self) -> float:
        """The log-probability of the completion's own tokens; NaN if none is given."""
        if self.log_probs is None:
            return np.nan if self.log_prob is None else self.log_prob
        return float(np.sum(self.log_probs, where=True if self.mask is None else self.mask))


def _columns(names: Iterable[str]) -> dict[str, str]:
    """Give the columns that are read, by the names of a record."""
    return {ours: one for ours, one in own_columns(names).items() if ours in READ}


def _text_of(value: Any) -> str | None:
    """Give the text that was drawn, or fail: of a chat the one answer without a tool call.

    >>> _text_of([{"role": "assistant", "content": "8", "tool_calls": None}])
    '8'
    """
    match value:
        case [{"role": "assistant", "content": str(text), **odd}] if not any(odd.values()):
            value = text
    if value is None or value != value:
        return None
    if not isinstance(value, str) or _WRITTEN_CHAT.match(value):
        raise ValueError
    value.encode()  # Half a character is none.
    return value


def _texts_of(rows: Rows, column: str, tokens: ColumnValues) -> list[str | None]:
    """Read texts exactly; those of lines that have tokens, too, do not count."""
    counts = [one is None for one in listed(tokens)] or [True] * len(rows.numbers)
    texts = list[str | None]()
    for at, value in enumerate(listed(rows.columns[column])):
        try:
            texts.append(_text_of(value) if counts[at] else None)
        except ValueError:
            raise InputError(
                f"{rows.place(at)}: {column} = {shown(value)}: give the text that was "
                "drawn, of a chat as one message, [{'role': 'assistant', 'content': '...'}]"
                ", of several turns as tokens with a mask"
            ) from None
    return texts


def lines_of(rows: Rows) -> list[Line]:
    """Read rows as lines; of log-probabilities a sum may stand for the list."""
    names, columns = _columns(rows.columns), dict(rows.columns)
    if (text := names.get("completion")) is not None:
        tokens = columns.get(names.get("token_ids", ""), ())
        columns[text] = _texts_of(rows, text, tokens)
    of_each = listed(rows.columns.get("log_probs", ()))
    if "log_probs" in names and not any(isinstance(one, list) for one in of_each):
        names["log_prob"] = names.pop("log_probs")
    records = read_records(rows._replace(columns=columns), names)
    columns = {name: array.to_pylist() for name, array in records.items()}
    texts = columns.pop("prompt", [None] * len(rows.numbers))
    ids = columns.pop("prompt_id", texts)
    if None in ids:
        where = rows.place(ids.index(None))
        raise InputError(f"{where}: prompt is missing; give the id of its prompt")
    for name in KINDS.keys() & columns:
        lists, kind = columns[name], KINDS[name]
        columns[name] = [None if one is None else np.array(one, kind) for one in lists]
    return [
        Line(rows.place(at), one, **{name: given[at] for name, given in columns.items()})
        for at, one in enumerate(ids)
    ]


@dataclass(frozen=True)
class Supplied:
    """The completions in a file, by prompt and pool."""

    path: Path  # The file.
    form: frozenset[str]  # Which of the names `SAME` the lines give.
    lines: Mapping[str, Mapping[str, list[Line]]]  # By prompt and pool.
    unmatched_ids: Sequence[str]  # Ids in the file that no measured prompt has.

    def warnings(self) -> list[str]:
        """List what a reader of the results should know about the file."""
        # An engine's own log-probabilities are compared by the report of its mismatch.
        silent = not self.form & {"log_probs", "engine_log_probs"}
        about = {
            "gives no log-probabilities: the check «drawn law equals differentiated law» "
            "was skipped; give log_probs": silent,
            "gives texts, tokenised anew: these need not be the tokens that were drawn, "
            "and a text of fewer than sampling.max_new_tokens is taken to have ended "
            "unless its line has truncated: true; better give tokens": (
                "token_ids" not in self.form
            ),
            f"has completions of {len(self.unmatched_ids)} more prompts, which are not "
            "measured": len(self.unmatched_ids),
        }
        return [f"{self.path.name} {what}" for what, holds in about.items() if holds]


def _read_lines(path: Path) -> Iterator[Line]:
    """Read every line; all give the same names, and none is damaged."""
    form: frozenset[str] | None = None
    faults = Faults()
    for rows in read_rows(path, lambda names: _columns(names).values(), faults):
        for line in lines_of(rows):
            form = line.form if form is None else form
            for name in sorted(form ^ line.form):
                raise line.refusal(
                    f"{name} {'missing' if name in form else 'given'}, unlike in the lines "
                    "before; give it in all lines or in none"
                )
            yield line
    for fault in faults.damaged:
        raise InputError(f"{fault}; repair it")


def _sort(
    path: Path, prompts: Sequence[Prompt], needed: Mapping[str, int], rewarded: bool
) -> Supplied:
    """Sort lines by prompt and pool, each with its reward where they are to be `rewarded`.

    Those of a prompt beyond its pools are left out.
    """
    lines = {prompt.id: {pool: list[Line]() for pool in POOLS} for prompt in prompts}
    unmatched_ids: dict[str, None] = {}
    form = frozenset[str]()
    for line in _read_lines(path):
        form = line.form
        if (pools := lines.get(line.prompt_id)) is None:
            unmatched_ids[line.prompt_id] = None
            continue
        full = len(pools["reference"]) == needed["reference"]
        pool = line.pool or ("replicate" if full else "reference")
        if len(pools[pool]) == needed[pool]:
            continue
        if rewarded and line.reward is None:
            raise line.refusal(
                "no reward, and the probe says reward: supplied; give a number, or name a "
                "reward in the probe"
            )
        pools[pool].append(line)
    return Supplied(path, form, lines, list(unmatched_ids))


def identify_completions(probe: Probe, root: Path) -> dict[str, str]:
    """Hash the file that a probe names; nothing where there is none."""
    path = probe.completions and local_path(probe.completions, root)
    if not path:
        return {}
    with reading(path), path.open("rb") as file:
        return {"file of completions": hashlib.file_digest(file, "sha256").hexdigest()}


def find_completions(
    probe: Probe, prompts: Sequence[Prompt], root: Path
) -> Supplied | None:
    """Read the file of completions that a probe names; None where it names none."""
    if probe.completions is None:
        return None
    key = f"completions = {probe.completions}"
    path = local_path(probe.completions, root)
    if path is None or not path.is_file():
        raise InputError(f"{key}: no such file; give a JSONL or Parquet file ({STARTS})")
    needed = {pool: getattr(probe.pool, pool) for pool in POOLS}
    supplied = _sort(path, prompts, needed, probe.reward == "supplied")
    if not any(pool for pools in supplied.lines.values() for pool in pools.values()):
        if not supplied.unmatched_ids:
            raise InputError(f"{key}: the file is empty; draw completions")
        raise InputError(
            f"{path}: its prompts, such as {shown(supplied.unmatched_ids[0])}, are not "
            f"those of the prompt set, such as {shown(prompts[0].id)}; give the ids of the "
            "prompt set"
        )
    for prompt_id, pools in supplied.lines.items():
        counts = {pool: len(pools[pool]) for pool in POOLS}
        if counts != needed:
            has = " and ".join(f"{count} {pool}" for pool, count in counts.items())
            keys = " and ".join(f"pool.{pool} = {count}" for pool, count in needed.items())
            raise InputError(
                f"{path}: prompt {prompt_id} has {has} completions, too few for {keys}; "
                "lower them or draw more"
            )
    return supplied
