"""The forms of trainers' logs: the keys of a record -> its completions.

A function for each trainer names the setting that writes the log, the keys of a record, and
their source in the trainer's code; `FORMS` lists them all. prime-rl's are in `prime_rl.py`,
the form of anybody's own logs is in `general_form.py`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mse_lab.trainer_logs import prime_rl
from mse_lab.trainer_logs.completion import Completion, Form, Record, as_number
from mse_lab.trainer_logs.general_form import GENERAL, rewards_of, rows_of_table

# TRL's columns that are not rewards.
_NO_REWARDS = {"step", "gen_step", "prompt", "prompt_id", "completion", "completion_ids",
               "advantage"}  # fmt: skip

_UID = re.compile(r"(.+)_\d+_\d+")
_STEP = re.compile(r"train_data_step(\d+)")

Completions = Iterator[Completion]


def _trl(record: Record) -> Completions:
    """`GRPOConfig(log_completions=True)`: `completions/completions_<step>.parquet`.

    Columns: `step`, `prompt` and `completion` (texts or messages), one for each reward
    function, one for each `log_extra` of a reward function, `advantage`. A text has no end
    token and no token ids; `log_extra` in a reward function adds them (README.md).

    A file holds the last generation batch, so that with `num_iterations` or
    `steps_per_generation` above the default a batch is written several times: `read_logs`
    leaves the copies out. Which columns are rewards is decided in `reward_columns.py`.
    Source: `GRPOTrainer.log` of TRL 1.16.
    """
    keys = {
        "prompt": "prompt_id" if "prompt_id" in record else "prompt",
        "step": "step",
        "shown": "prompt",
        "text": "completion",
        "tokens": "completion_ids",
        "advantage": "advantage",
    }
    texts = record.position.path.endswith(".csv")  # The numbers there are texts.
    numbers = {
        key: math.nan if value is None else as_number(value)
        for key, value in record.items()
        if key not in _NO_REWARDS and (texts or not isinstance(value, str))
    }
    rewards = {
        key: value if type(value) is int else record.reward_of(value, key)
        for key, value in numbers.items()
        if value is not None
    }
    yield record.completion(keys, rewards=rewards)


def _ms_swift(record: Record) -> Completions:
    """`--log_completions true`: `completions.jsonl`.

    TRL's columns with other names, `gen_step` or `step` and `advantages`; a line is a table
    of a batch or, from Ray's trainer, a row with `reward`. Source: `GRPOTrainer.log` and
    the Ray and Megatron trainers of ms-swift 4.
    """
    prompts = record.field("prompt")
    tables = [record]
    if isinstance(prompts, list) and isinstance(record.get("completion"), list):
        tables = [*rows_of_table(record, len(prompts))]
    for row in tables:
        renamed = {"step": row.get("gen_step"), "advantage": row.pop("advantages", None)}
        yield from _trl(row.like(renamed | row))


def _verl(record: Record) -> Completions:
    """`trainer.rollout_data_dir`: `<step>.jsonl`.

    Keys: `input`, `output`, `score`, `step`, and `gts` and what the reward function adds.
    Texts are decoded without special tokens. Completions of a prompt need not stand
    together, for verl balances the lengths of its workers' batches: those of equal `input`
    at a step are a group. Where `uid` is {sample}_{rollout}_{output}, a prompt that was
    drawn twice at a step has a group for each sample. Source:
    `RayPPOTrainer._dump_generations`.
    """
    uid = _UID.fullmatch(str(record.get("uid", "")))
    keys = {"prompt": "input", "rewards": "score", "step": "step", "shown": "input",
            "text": "output"}  # fmt: skip
    yield record.completion(keys, group=uid[1] if uid else None)


def _areal(record: Record) -> Completions:
    """`rollout.dump_to_file`: `<version>/<task>.jsonl`.

    Keys: `task_id`, `sample_idx`, `seqlen`, `prompt_len`, `head_version`, `tail_version`,
    `reward`, `prompt`, `completion`, texts with special tokens. A task is a group; the step
    is the newest version of the weights in it. Source: `WorkflowExecutor._dump_trajectory`.
    """
    whole, prompt = (record.whole_number(key) for key in ("seqlen", "prompt_len"))
    length = None if whole is None or prompt is None else whole - prompt
    keys = {"prompt": "prompt", "rewards": "reward", "step": "tail_version",
            "group": "task_id", "shown": "prompt", "text": "completion"}  # fmt: skip
    yield record.completion(keys, length=length)


def _open_instruct(record: Record) -> Completions:
    """`--save_traces`: `{run}_rollouts_{shard}.jsonl`.

    Keys: `step`, `sample_idx`, `prompt_idx` (its number in the step), `prompt_tokens`,
    `response_tokens`, `reward`, `advantage`, `finish_reason`, `logprobs`. No key says which
    tokens a tool wrote; `request_info` says whether there were any. Source:
    `open_instruct/rl_utils.py`, `RolloutRecord`.
    """
    reason = record.get("finish_reason")
    keys = {"prompt": "prompt_tokens", "rewards": "reward", "step": "step",
            "group": "prompt_idx", "prompt_tokens": "prompt_tokens",
            "tokens": "response_tokens", "log_probs": "logprobs",
            "advantage": "advantage"}  # fmt: skip
    cut = reason != "stop" if isinstance(reason, str) else None
    yield record.completion(keys, truncated=cut)


def _nemo_rl(record: Record) -> Completions:
    """`train_data_step<step>.jsonl`.

    Keys: `content` (texts of all messages), `rewards`, `input_lengths`, and, in newer
    versions, `token_ids`, `token_loss_mask`, `advantages`, `generation_logprobs` (where a
    token was drawn) and `prev_logprobs` (the trainer's). Every value is a batch of one.
    Sequences are padded on the right; the prompt ends before the first token whose mask is
    1. With dynamic sampling `rewards` are those of all completions in their order,
    `filtered_rewards` those of the completions that are trained on, which the other keys
    are about; a newer version has a row for each of `rewards`, the last ones empty. Source:
    `grpo_train` and `Logger.log_batched_dict_as_jsonl`.
    """
    single = {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in record.items()
    }
    record = record.like(single)
    if record.get("filtered_rewards") == []:
        return
    content = record.field("content")
    messages: Sequence[Any] = content if isinstance(content, list) else [content]
    key = "filtered_rewards" if "filtered_rewards" in record else "rewards"
    rewards = {"reward": record.reward_of(record.field(key), key)}
    name = _STEP.search(record.position.path)
    step = int(name[1]) if name else None
    mask = record.numbers("token_loss_mask")
    tokens = record.token_ids("token_ids")
    if not mask or not tokens or not any(mask):
        prompt = record.name_of(list(messages[:-1]) or messages[0], "content")
        yield Completion(prompt, rewards, step, shown=prompt, text=repr(messages[-1:]))
        return
    keys = {"log_probs": "generation_logprobs", "trainer_log_probs": "prev_logprobs"}
    yield record.cut_out(keys, tokens, mask, rewards=rewards, step=step)


def _slime(record: Record) -> Completions:
    """`--save-debug-rollout-data p/{rollout_id}.pt`.

    A file of `torch.save`, which `records.py` reads. It holds `rollout_id` and `samples`,
    each with `group_index`, `prompt`, `tokens` (the prompt's, too), `response_length`,
    `reward`, `loss_mask` (of the response), `rollout_log_probs`, `status`. Of a reward by
    names the log does not say which `--reward-key` took: `score` if it is there, else the
    sum of the numbers; texts are passed over. Source: `Sample.to_dict` of
    `slime/utils/types.py`.
    """
    reward, status = record.field("reward"), record.get("status")
    rewards = {"reward": reward}
    if isinstance(reward, Mapping):
        numbers = {k: v for k, v in reward.items() if isinstance(v, int | float | None)}
        rewards = {"score": reward["score"]} if "score" in reward else numbers
        if not rewards:
            raise record.fault(reward, "reward", "a number, or a mapping that has one")
    tokens = record.token_ids("tokens")
    count = record.whole_number("response_length")
    keys = {"prompt": "prompt", "step": "rollout_id", "group": "group_index",
            "shown": "prompt", "text": "response", "mask": "loss_mask",
            "log_probs": "rollout_log_probs"}  # fmt: skip
    yield record.completion(
        keys,
        rewards=rewards_of(rewards, record),
        prompt_tokens=tokens[:-count] if tokens and count else None,
        tokens=tokens[-count:] if tokens and count else None,
        length=count,
        truncated=status == "truncated" if isinstance(status, str) else None,
    )


TRL = Form(
    "TRL",
    ("step", "prompt", "completion", "advantage"),
    _trl,
    "generation_batch_size = {completions} = per_device_train_batch_size x processes x "
    "steps_per_generation, num_generations = {size}",
)
SLIME = Form(
    "slime",
    ("samples of a .pt file",),
    _slime,
    "--rollout-batch-size {prompts} --n-samples-per-prompt {size}",
)

_SWIFT_KEYS = "--num_generations {size}, generation_batch_size = {completions}"
EXPORTS = prime_rl.EXPORTS

# In the order in which they are tried: a form that needs more keys of others comes first.
FORMS = (
    *(EXPORTS, prime_rl.EPISODES, prime_rl.TRACES),
    Form("ms-swift", ("prompt", "completion", "advantages"), _ms_swift, _SWIFT_KEYS),
    Form("ms-swift", ("gen_step", "prompt", "completion"), _ms_swift, _SWIFT_KEYS),
    Form(
        "open-instruct",
        ("prompt_tokens", "response_tokens", "reward"),
        _open_instruct,
        "num_unique_prompts_rollout = {prompts}, num_samples_per_prompt_rollout = {size}",
        "which tokens are of tools it does not write",
    ),
    Form(
        "NeMo-RL",
        ("content", "rewards", "input_lengths"),
        _nemo_rl,
        "grpo.num_prompts_per_step = {prompts}, grpo.num_generations_per_prompt = {size}",
    ),
    Form(
        "AReaL",
        ("task_id", "tail_version", "prompt", "completion", "reward"),
        _areal,
        "train_dataset.batch_size = {prompts}, gconfig.n_samples = {size}",
    ),
    Form(
        "verl",
        ("input", "output", "score"),
        _verl,
        "data.train_batch_size = {prompts}, actor_rollout_ref.rollout.n = {size}",
        "special tokens are stripped: a completion that was cut does not show",
    ),
    *(TRL, SLIME, GENERAL),
)


def recognise(keys: Sequence[str]) -> Form | None:
    """Find the form whose records have these keys; None if none has.

    >>> recognise(["step", "input", "output", "gts", "score"]).name
    'verl'
    """
    for form in FORMS:
        if {*form.needs} <= {*keys}:
            return form
    plain = {"prompt_id", "prompt"} & {*keys} and {"reward", "rewards"} & {*keys}
    return GENERAL if plain else None
