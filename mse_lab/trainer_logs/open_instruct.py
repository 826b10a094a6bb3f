"""open-instruct's `--save_traces`: `{run}_rollouts_{shard}.jsonl`.

Keys: `step`, `sample_idx`, `prompt_idx` (its number in the step), `prompt_tokens`,
`response_tokens`, `reward`, `advantage`, `finish_reason`, `logprobs`. It does not write
which tokens are of tools: `request_info` says whether there were any. Source:
`open_instruct/rl_utils.py`, `RolloutRecord`.
"""

from collections.abc import Iterator

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


def _read(record: Record, where: Place) -> Iterator[Completion]:
    advantage, reason = record.get("advantage"), record.get("finish_reason")
    index = record.get("prompt_idx")
    yield Completion(
        prompt=name_of(field(record, "prompt_tokens", where), "prompt_tokens", where),
        rewards={"reward": reward_of(field(record, "reward", where), "reward", where)},
        step=whole_number(record, "step", where),
        group=None if index is None else str(index),
        prompt_tokens=token_ids(record, "prompt_tokens", where),
        tokens=token_ids(record, "response_tokens", where),
        log_probs=numbers_of(record, "logprobs", where),
        truncated=reason != "stop" if isinstance(reason, str) else None,
        advantage=None if advantage is None else reward_of(advantage, "advantage", where),
    )


FORM = Form(
    name="open-instruct",
    needs=("prompt_tokens", "response_tokens", "reward"),
    read=_read,
    batch_keys=(
        "num_unique_prompts_rollout = {prompts}, num_samples_per_prompt_rollout = {size}"
    ),
    note="which tokens are of tools it does not write",
)
