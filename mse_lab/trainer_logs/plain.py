"""The general form: a record for each completion, or for each group.

    {"prompt_id": "p1", "rewards": [0, 1, 1, 0]}
    {"prompt_id": "p1", "step": 3, "reward": 1.0, "tokens": [5, 9, 2]}

| key | meaning |
|---|---|
| `prompt_id`, `prompt` | what tells prompts apart; one of them is needed |
| `reward` | a number |
| `rewards` | instead: a list, the rewards of a group; or by reward function |
| `step`, `group` | the training step; what tells groups of one prompt apart |
| `text`, `completion` | the completion |
| `tokens`, `mask`, `log_probs`, `trainer_log_probs` | a number for each token |
| `length`, `truncated`, `advantage` | |

Files named `completions.jsonl` of a measurement are of this form.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from mse_lab.errors import InputError, shown
from mse_lab.trainer_logs.completion import (
    Completion,
    Form,
    Place,
    Record,
    field,
    name_of,
    numbers_of,
    reward_of,
    token_ids,
    whole_number,
)

# Keys that `--columns` may give the names of.
KEYS = (
    *("prompt", "reward", "step", "group", "text", "tokens", "mask", "log_probs"),
    *("trainer_log_probs", "length", "truncated", "advantage"),
)


def _group(value: Any, where: Place) -> str | None:
    return None if value is None else name_of(value, "group", where)


def _prompt(record: Record, where: Place) -> tuple[str, Any]:
    """The name of the prompt, and how it is shown."""
    key = "prompt_id" if "prompt_id" in record else "prompt"
    given = field(record, key, where)
    return name_of(given, key, where), record.get("prompt", given)


def _flag(value: Any, key: str, where: Place) -> bool | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if value not in (0, 1):
        raise InputError(f"{where}: {key} = {shown(value)}: give true or false")
    return bool(value)


def _group_of_rewards(
    prompt: str, rewards: list[Any], record: Record, where: Place
) -> Iterator[Completion]:
    group = _group(record.get("group"), where) or str(where)
    step = whole_number(record, "step", where)
    for value in rewards:
        reward = {"reward": reward_of(value, "rewards", where)}
        yield Completion(prompt, reward, step, group)


def _rewards(record: Record, where: Place) -> dict[str, float]:
    rewards = record.get("rewards")
    if isinstance(rewards, Mapping):
        return {
            str(key): reward_of(value, str(key), where) for key, value in rewards.items()
        }
    return {"reward": reward_of(field(record, "reward", where), "reward", where)}


def _read(record: Record, where: Place) -> Iterator[Completion]:
    prompt, shown_prompt = _prompt(record, where)
    rewards = record.get("rewards")
    if isinstance(rewards, list):
        yield from _group_of_rewards(prompt, rewards, record, where)
        return
    text = record.get("text", record.get("completion"))
    # One number is the log-probability of the whole completion.
    log_probs = record.get("log_probs")
    yield Completion(
        prompt=prompt,
        rewards=_rewards(record, where),
        step=whole_number(record, "step", where),
        group=_group(record.get("group"), where),
        shown=shown_prompt,
        text=text if isinstance(text, str) or text is None else repr(text),
        tokens=token_ids(record, "tokens", where),
        mask=numbers_of(record, "mask", where),
        log_probs=numbers_of(record, "log_probs", where)
        if isinstance(log_probs, list)
        else None,
        trainer_log_probs=numbers_of(record, "trainer_log_probs", where),
        length=whole_number(record, "length", where),
        truncated=_flag(record.get("truncated"), "truncated", where),
        advantage=None
        if record.get("advantage") is None
        else reward_of(record["advantage"], "advantage", where),
    )


FORM = Form(name="JSONL", needs=("prompt_id or prompt", "reward or rewards"), read=_read)


def fits(keys: set[str]) -> bool:
    """Whether records with these keys are of the general form."""
    return bool(keys & {"prompt_id", "prompt"}) and bool(keys & {"reward", "rewards"})
