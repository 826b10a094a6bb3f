"""slime's `--save-debug-rollout-data p/{rollout_id}.pt`.

A file of `torch.save`, which is a pickle: it is read by torch with `weights_only=True`,
which builds tensors, numbers, texts, lists and mappings alone, or not at all. It holds
`rollout_id` and `samples`, each with `group_index`, `prompt`, `tokens` (the prompt's, too),
`response_length`, `reward`, `loss_mask` (of the response), `rollout_log_probs`, `status`.
Source: `Sample.to_dict` of `slime/utils/types.py`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, in_short
from mse_lab.probe.foreign_code import load_extra
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


def read_samples(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Read the samples of a file, each with its `rollout_id`.

    Raises:
        InputError: torch is not there, or the file holds what only a pickle could build.
    """
    torch = load_extra("torch", "measure", f"{path}: a .pt file")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # Whatever a damaged archive raises.
        raise InputError(
            f"{path}: cannot be read as weights only ({in_short(error)}); pickles are "
            "never loaded: save the samples as JSONL with prompt_id and reward"
        ) from None
    samples = saved.get("samples") if isinstance(saved, Mapping) else None
    if not isinstance(samples, list):
        raise InputError(f"{path}: no samples, as slime's --save-debug-rollout-data has")
    for number, sample in enumerate(samples):
        where = Place(str(path), "sample", number)
        if not isinstance(sample, Mapping):
            raise InputError(f"{where}: not a mapping; save samples as slime does")
        yield where, {**sample, "rollout_id": saved.get("rollout_id")}


def _read(record: Record, where: Place) -> Iterator[Completion]:
    given = field(record, "reward", where)
    rewards = given if isinstance(given, Mapping) else {"reward": given}
    tokens, count = (
        token_ids(record, "tokens", where),
        whole_number(record, "response_length", where),
    )
    group, status = record.get("group_index"), record.get("status")
    yield Completion(
        prompt=name_of(field(record, "prompt", where), "prompt", where),
        rewards={str(key): reward_of(one, str(key), where) for key, one in rewards.items()},
        step=whole_number(record, "rollout_id", where),
        group=None if group is None else name_of(group, "group_index", where),
        shown=record["prompt"],
        text=record.get("response"),
        prompt_tokens=tokens[:-count] if tokens and count else None,
        tokens=tokens[-count:] if tokens and count else None,
        mask=numbers_of(record, "loss_mask", where),
        log_probs=numbers_of(record, "rollout_log_probs", where),
        length=count,
        truncated=status == "truncated" if isinstance(status, str) else None,
    )


FORM = Form(
    name="slime",
    needs=("samples of a .pt file",),
    read=_read,
    batch_keys="--rollout-batch-size {prompts} --n-samples-per-prompt {size}",
)
