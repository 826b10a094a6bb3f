"""TRL's `GRPOConfig(log_completions=True)`: `completions/completions_<step>.parquet`.

Columns: `step`, `prompt` and `completion` (texts or messages), one for each reward
function, one for each `log_extra` of a reward function, `advantage`. A text has no end
token and no token ids. Two lines in a reward function add them, with `logging_steps=1`:

    log_extra("completion_ids", completion_ids)
    log_extra("prompt_id", ids)  # a column of your data set

A file holds the last generation batch, so that with `num_iterations` or
`steps_per_generation` above the default a batch is written several times: `log_files`
leaves the copies out. Source: `GRPOTrainer.log` of TRL 1.16.
"""

import math
from collections.abc import Iterator

from mse_lab.trainer_logs.completion import (
    Completion,
    Form,
    Place,
    Record,
    field,
    name_of,
    reward_of,
    token_ids,
    whole_number,
)

_OURS = ("step", "prompt", "completion", "advantage", "completion_ids", "prompt_id")


def _text(value: object) -> str | None:
    """The text of a completion, which may be a list of messages."""
    return value if isinstance(value, str) or value is None else repr(value)


def _read(record: Record, where: Place) -> Iterator[Completion]:
    prompt = field(record, "prompt", where)
    advantage = record.get("advantage")
    # Reward functions give floats; what is logged beside them may be of any type.
    rewards = {
        key: reward_of(value, key, where)
        for key, value in record.items()
        if key not in _OURS and (value is None or isinstance(value, float))
    }
    yield Completion(
        prompt=name_of(record.get("prompt_id", prompt), "prompt", where),
        rewards=rewards,
        step=whole_number(record, "step", where),
        shown=prompt,
        text=_text(field(record, "completion", where)),
        tokens=token_ids(record, "completion_ids", where),
        advantage=math.nan
        if advantage is None
        else reward_of(advantage, "advantage", where),
    )


FORM = Form(
    name="TRL",
    needs=("step", "prompt", "completion", "advantage"),
    read=_read,
    batch_keys=(
        "generation_batch_size = {completions} = per_device_train_batch_size x processes x "
        "steps_per_generation, num_generations = {size}"
    ),
)
