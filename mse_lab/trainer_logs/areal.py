"""AReaL's `rollout.dump_to_file`: `<version>/<task>.jsonl`.

Keys: `task_id`, `sample_idx`, `seqlen`, `prompt_len`, `head_version`, `tail_version`,
`reward`, `prompt`, `completion`, texts with special tokens. A task is a group; the step is
the newest version of the weights in it. Source: `WorkflowExecutor._dump_trajectory`.
"""

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


def _read(record: Record, where: Place) -> Iterator[Completion]:
    text = field(record, "completion", where)
    whole, prompt = (whole_number(record, key, where) for key in ("seqlen", "prompt_len"))
    yield Completion(
        prompt=name_of(field(record, "prompt", where), "prompt", where),
        rewards={"reward": reward_of(field(record, "reward", where), "reward", where)},
        step=whole_number(record, "tail_version", where),
        group=name_of(field(record, "task_id", where), "task_id", where),
        shown=record["prompt"],
        text=text if isinstance(text, str) else repr(text),
        length=None if whole is None or prompt is None else whole - prompt,
    )


FORM = Form(
    name="AReaL",
    needs=("task_id", "tail_version", "prompt", "completion", "reward"),
    read=_read,
    batch_keys="train_dataset.batch_size = {prompts}, gconfig.n_samples = {size}",
)
