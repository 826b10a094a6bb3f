"""NeMo-RL's `train_data_step<step>.jsonl`.

Keys: `content` (texts of all messages), `rewards`, `input_lengths`, and, in newer versions,
`token_ids`, `token_loss_mask`, `advantages`, `generation_logprobs` (where a token was
drawn) and `prev_logprobs` (the trainer's). Every value is a batch of one. Sequences are
padded on the right; the prompt is what stands before the first token that counts. With
dynamic sampling `rewards` are those of all completions, `filtered_rewards` of the kept.
Source: `grpo_train` and `Logger.log_batched_dict_as_jsonl`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mse_lab.trainer_logs.completion import (
    Completion,
    Form,
    Place,
    Record,
    drawn_part,
    field,
    name_of,
    numbers_of,
    reward_of,
    token_ids,
)

_STEP = re.compile(r"train_data_step(\d+)")


def _single(value: Any) -> Any:
    """Take a value out of its batch of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _read(record: Record, where: Place) -> Iterator[Completion]:
    record = {key: _single(value) for key, value in record.items()}
    content = field(record, "content", where)
    messages: Sequence[Any] = content if isinstance(content, list) else [content]
    reward = {"reward": reward_of(field(record, "rewards", where), "rewards", where)}
    name = _STEP.search(where.path)
    step = int(name[1]) if name else None
    mask = numbers_of(record, "token_loss_mask", where)
    tokens = token_ids(record, "token_ids", where)
    if not mask or not tokens or not any(mask):
        prompt = name_of(list(messages[:-1]) or messages[0], "content", where)
        yield Completion(prompt, reward, step, shown=prompt, text=repr(messages[-1:]))
        return
    part = drawn_part(mask)
    drawn, given = (
        numbers_of(record, key, where) for key in ("generation_logprobs", "prev_logprobs")
    )
    yield Completion(
        prompt=name_of(list(tokens[: part.start]), "token_ids", where),
        rewards=reward,
        step=step,
        prompt_tokens=tokens[: part.start],
        tokens=tokens[part],
        mask=mask[part],
        log_probs=drawn and drawn[part],
        trainer_log_probs=given and given[part],
    )


FORM = Form(
    name="NeMo-RL",
    needs=("content", "rewards", "input_lengths"),
    read=_read,
    batch_keys=(
        "grpo.num_prompts_per_step = {prompts}, grpo.num_generations_per_prompt = {size}"
    ),
)
