"""The general form of a log, for anybody's own: a record for each completion, or group.

    {"prompt_id": "p1", "rewards": [0, 1, 1, 0]}
    {"prompt_id": "p1", "step": 3, "reward": 1.0, "tokens": [5, 9, 2]}

| key | meaning |
|---|---|
| `prompt_id`, `prompt` | what identifies the prompt; one of them is needed |
| `reward` | a number |
| `rewards` | instead: a list, the rewards of a group; or one by reward function |
| `step`, `group` | the training step; what identifies the group among its prompt's |
| `text`, `completion` | the completion |
| `tokens`, `mask`, `log_probs`, `trainer_log_probs` | a number for each token |
| `length`, `truncated`, `advantage` | |

Files named `completions.jsonl` of a measurement are of this form. A record whose prompts
and completions are lists, too, is a table: a completion for each place in the lists.
Engines' answers with rewards are read, too (`probe/engine_dumps.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mse_lab.errors import InputError, nearest, shown
from mse_lab.probe.engine_dumps import answers_in, lines_of
from mse_lab.trainer_logs.completion import Completion, Form, Record

# Keys of the general form, for which `--columns` may name others.
KEYS = (
    *("prompt", "reward", "step", "group", "text", "tokens", "mask", "log_probs"),
    *("trainer_log_probs", "length", "truncated", "advantage"),
)
_OPTIONAL = {name: name for name in KEYS if name not in ("prompt", "reward", "log_probs")}

# What other forms call these.
OTHER_NAMES = {
    **dict.fromkeys(("completion", "response", "output"), "text"),
    **dict.fromkeys(("prompt_id", "input", "question"), "prompt"),
    **dict.fromkeys(("rewards", "score"), "reward"),
    **dict.fromkeys(("token_ids", "completion_ids"), "tokens"),
}
_TEXTS, _TOKENS = (
    (ours, *(name for name, one in OTHER_NAMES.items() if one == ours))
    for ours in ("text", "tokens")
)

Completions = Iterator[Completion]


def rows_of_table(record: Record, count: int) -> Iterator[Record]:
    """Take a table apart: each list of `count` entries has one for each row."""
    for place in range(count):
        row = {
            key: value[place] if isinstance(value, list) and len(value) == count else value
            for key, value in record.items()
        }
        yield record.like(row)


def _first(record: Record, names: Sequence[str]) -> Any:
    return next((record[name] for name in names if name in record), None)


def _is_table(record: Record, key: str, count: int) -> bool:
    """Whether the prompt is a list of `count` prompts; messages and tokens are not."""
    prompts, texts = record.get(key), _first(record, _TEXTS)
    if not (isinstance(prompts, list) and len(prompts) == count):
        return False
    with_texts = isinstance(texts, list) and len(texts) == count
    return with_texts or key == "prompt_id" or {*map(type, prompts)} in ({str}, {list})


def _refuse_one_completion(record: Record, count: int) -> None:
    """Refuse a list of rewards beside one completion: they are of its tokens."""
    text, tokens = _first(record, _TEXTS), _first(record, _TOKENS)
    flat = isinstance(tokens, list) and not any(isinstance(one, list) for one in tokens)
    single = isinstance(text, list) and len(text) == 1
    if isinstance(text, str) or single or (flat and len(tokens or ()) == count):
        raise InputError(
            f"{record.position}: {count} rewards beside one completion: give its reward, "
            "such as the sum over its tokens, under reward"
        )


def _prompt_key(record: Record, key: str) -> str:
    """Name the key that tells prompts apart: a number may count within a step."""
    has_text = isinstance(record.get("prompt"), str | list)
    return "prompt" if has_text and str(record.get(key)).isdigit() else key


def _group(record: Record, key: str, rewards: list[Any]) -> Completions:
    _refuse_one_completion(record, len(rewards))
    keys = {"prompt": _prompt_key(record, key), "step": "step", "group": "group"}
    group = record.completion(keys, rewards={})
    group = group._replace(group=group.group or str(record.position))
    for value in rewards:
        reward = record.reward_of(value, "rewards")
        yield group._replace(rewards={"reward": reward})


def rewards_of(rewards: Mapping[Any, Any], record: Record) -> dict[str, float]:
    """Read the rewards by reward function."""
    return {str(name): record.reward_of(one, str(name)) for name, one in rewards.items()}


def _dumped(record: Record) -> Iterator[Record]:
    """List the completions of an engine's answer, which are a group if they are several."""
    lines = lines_of(record, str(record.position))
    shared = {key: record[key] for key in ("step", "group") if key in record}
    if len(lines) > 1:
        shared = {"group": str(record.position)} | shared
    for line in lines:
        if "reward" not in line:
            raise InputError(
                f"{record.position}: an engine's answer has no reward: add reward, a list "
                "for several completions; or measure it by completions: in a probe, whose "
                "reward is applied"
            )
        line["log_probs"] = line.pop("engine_log_probs", None)
        yield record.like(line | shared)


def _read(record: Record) -> Completions:
    if answers_in(record):
        for row in _dumped(record):
            yield from _read(row)
        return
    key = "prompt_id" if "prompt_id" in record else "prompt"
    given = "rewards" if "rewards" in record else "reward"
    rewards = record.get(given)
    if isinstance(rewards, list):
        if len(rewards) == 1 and isinstance(_first(record, _TEXTS), str):
            rows = iter([record.like({**record, given: rewards[0]})])
        elif _is_table(record, key, len(rewards)):
            rows = rows_of_table(record, len(rewards))
        else:
            yield from _group(record, key, rewards)
            return
        for row in rows:
            row["reward"] = row.pop(given)
            yield from _read(row)
        return
    keys = {"prompt": key, **_OPTIONAL}
    if _prompt_key(record, key) != key:
        keys |= {"prompt": "prompt", "group": "group" if "group" in record else key}
    if "text" not in record:
        keys["text"] = "completion"
    # One number is the log-probability of the whole completion.
    if isinstance(record.get("log_probs"), list):
        keys["log_probs"] = "log_probs"
    computed: dict[str, Any] = {"shown": record.get("prompt", record.field(key))}
    if isinstance(rewards, Mapping):
        computed["rewards"] = rewards_of(rewards, record)
    else:
        keys["rewards"] = "reward"
    yield record.completion(keys, **computed)


GENERAL = Form("rows", ("prompt_id or prompt", "reward or rewards"), _read)


# Name in the general form -> names in the file, one; of `reward` one or several.
ColumnNames = Mapping[str, Sequence[str]]


def check_columns(given: Mapping[str, str | Sequence[str]]) -> ColumnNames:
    """Check that a user's names of columns are complete and stand under known names."""
    if not isinstance(given, Mapping):
        remedy = "give a mapping: {'prompt': ..., 'reward': ...}"
        raise InputError(f"columns {shown(given)}: {remedy}")
    columns: dict[str, list[str]] = {}
    for ours, names in given.items():
        listed = names if isinstance(names, Sequence) else []
        theirs = [names] if isinstance(names, str) else [*listed]
        if ours not in KEYS:
            remedy = nearest(OTHER_NAMES.get(ours, ours), KEYS)
            raise InputError(f"columns {shown(ours)}: {remedy}")
        if not theirs or not all(theirs) or (len(theirs) > 1 and ours != "reward"):
            remedy = "give the name of one column: prompt=question"
            raise InputError(f"columns {shown(ours)}: {remedy}")
        columns[ours] = theirs
    for needed in ("prompt", "reward"):
        if needed not in columns:
            raise InputError(f"columns without {needed}: give prompt=...,reward=...")
    return columns


def parse_columns(text: str) -> ColumnNames:
    """Parse `--columns`; each column under the name `reward` is a reward function.

    >>> parse_columns("prompt=question,reward=exact,reward=format")
    {'prompt': ['question'], 'reward': ['exact', 'format']}
    """
    columns: dict[str, list[str]] = {}
    for part in text.split(","):
        ours, _, theirs = (word.strip() for word in part.partition("="))
        columns.setdefault(ours, []).append(theirs)
    return check_columns(columns)


def _at(record: Record, name: str) -> Any:
    """Take a value, `reward.score` from the mapping under `reward`."""
    top, _, inner = name.partition(".")
    if name in record or not inner or not isinstance(record.get(top), Mapping):
        return record.field(name)
    return _at(record.like(record[top]), inner)


def form_of_columns(columns: ColumnNames) -> Form:
    """Make the form of files whose columns have these names."""

    def read(record: Record) -> Iterator[Completion]:
        renamed = {ours: _at(record, names[0]) for ours, names in columns.items()}
        rewards = columns["reward"]
        if len(rewards) > 1:
            renamed["rewards"] = {name: _at(record, name) for name in rewards}
        return GENERAL.read(record.like(renamed))

    return Form("your columns", sum(map(tuple, columns.values()), ()), read)
