"""verl's `trainer.rollout_data_dir`: `<step>.jsonl`.

Keys: `input`, `output`, `score`, `step`, and `gts` and what the reward function adds. Texts
are decoded without special tokens. Completions of a prompt need not stand together, for
verl balances the lengths of its workers' batches: groups are those of equal `input` at a
step. Where `uid` is {sample}_{rollout}_{output} its sample tells two draws of one prompt
apart. Source: `RayPPOTrainer._dump_generations`.
"""

import re
from collections.abc import Iterator

from mse_lab.trainer_logs.completion import (
    Completion,
    Form,
    Place,
    Record,
    field,
    name_of,
    reward_of,
    whole_number,
)

_UID = re.compile(r"(.+)_\d+_\d+")


def _read(record: Record, where: Place) -> Iterator[Completion]:
    uid = _UID.fullmatch(str(record.get("uid", "")))
    text = field(record, "output", where)
    yield Completion(
        prompt=name_of(field(record, "input", where), "input", where),
        rewards={"score": reward_of(field(record, "score", where), "score", where)},
        step=whole_number(record, "step", where),
        group=uid[1] if uid else None,
        shown=record["input"],
        text=text if isinstance(text, str) else repr(text),
    )


FORM = Form(
    name="verl",
    needs=("input", "output", "score"),
    read=_read,
    batch_keys="data.train_batch_size = {prompts}, actor_rollout_ref.rollout.n = {size}",
    note="special tokens are stripped: a completion that was cut does not show",
)
