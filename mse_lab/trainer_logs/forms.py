"""The forms of trainers' logs: the keys of a record -> its completions.

A function for each trainer names the setting that writes the log, the keys of a record, and
their source in the trainer's code; `FORMS` lists them all. (prime-rl's are in
`prime_rl.py`.) The general form, JSONL, has a record for each completion, or for each
group:

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

Files named `completions.jsonl` of a measurement are of this form.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mse_lab.trainer_logs import prime_rl
from mse_lab.trainer_logs.completion import (
    Completion,
    Form,
    Record,
    cut_out,
    field,
    name_of,
    numbers_of,
    read_completion,
    reward_of,
    token_ids,
    whole_number,
)

# Keys of the general form, for which `--columns` may name others.
KEYS = (
    *("prompt", "reward", "step", "group", "text", "tokens", "mask", "log_probs"),
    *("trainer_log_probs", "length", "truncated", "advantage"),
)
_OPTIONAL = {name: name for name in KEYS if name not in ("prompt", "reward", "log_probs")}

# TRL's columns that are not rewards.
_NO_REWARDS = ("step", "prompt", "completion", "advantage", "completion_ids", "prompt_id")

_UID = re.compile(r"(.+)_\d+_\d+")
_STEP = re.compile(r"train_data_step(\d+)")

Completions = Iterator[Completion]


def _plain(record: Record) -> Completions:
    key = "prompt_id" if "prompt_id" in record else "prompt"
    prompt, rewards = field(record, key), record.get("rewards")
    if isinstance(rewards, list):
        group = read_completion(
            record, {"prompt": key, "step": "step", "group": "group"}, rewards={}
        )
        group = group._replace(group=group.group or str(record.position))
        for value in rewards:
            yield group._replace(
                rewards={"reward": reward_of(value, "rewards", record.position)}
            )
        return
    keys = {"prompt": key, **_OPTIONAL}
    if "text" not in record:
        keys["text"] = "completion"
    # One number is the log-probability of the whole completion.
    if isinstance(record.get("log_probs"), list):
        keys["log_probs"] = "log_probs"
    computed: dict[str, Any] = {"shown": record.get("prompt", prompt)}
    if isinstance(rewards, Mapping):
        computed["rewards"] = _rewards_of(rewards, record)
    else:
        keys["rewards"] = "reward"
    yield read_completion(record, keys, **computed)


def _rewards_of(rewards: Mapping[Any, Any], record: Record) -> dict[str, float]:
    return {
        str(name): reward_of(one, str(name), record.position)
        for name, one in rewards.items()
    }


def _trl(record: Record) -> Completions:
    """`GRPOConfig(log_completions=True)`: `completions/completions_<step>.parquet`.

    Columns: `step`, `prompt` and `completion` (texts or messages), one for each reward
    function, one for each `log_extra` of a reward function, `advantage`. A text has no end
    token and no token ids. Two lines in a reward function add them, with `logging_steps=1`:

        log_extra("completion_ids", completion_ids)
        log_extra("prompt_id", ids)  # a column of your data set

    A file holds the last generation batch, so that with `num_iterations` or
    `steps_per_generation` above the default a batch is written several times: `read_logs`
    leaves the copies out. Source: `GRPOTrainer.log` of TRL 1.16.
    """
    keys = {
        "prompt": "prompt_id" if "prompt_id" in record else "prompt",
        "step": "step",
        "shown": "prompt",
        "text": "completion",
        "tokens": "completion_ids",
        "advantage": "advantage",
    }
    # Reward functions give floats; what is logged beside them may be of any type.
    rewards = {
        key: reward_of(value, key, record.position)
        for key, value in record.items()
        if key not in _NO_REWARDS and (value is None or isinstance(value, float))
    }
    yield read_completion(record, keys, rewards=rewards)


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
    yield read_completion(record, keys, group=uid[1] if uid else None)


def _areal(record: Record) -> Completions:
    """`rollout.dump_to_file`: `<version>/<task>.jsonl`.

    Keys: `task_id`, `sample_idx`, `seqlen`, `prompt_len`, `head_version`, `tail_version`,
    `reward`, `prompt`, `completion`, texts with special tokens. A task is a group; the step
    is the newest version of the weights in it. Source: `WorkflowExecutor._dump_trajectory`.
    """
    whole, prompt = (whole_number(record, key) for key in ("seqlen", "prompt_len"))
    length = None if whole is None or prompt is None else whole - prompt
    keys = {"prompt": "prompt", "rewards": "reward", "step": "tail_version",
            "group": "task_id", "shown": "prompt", "text": "completion"}  # fmt: skip
    yield read_completion(record, keys, length=length)


def _open_instruct(record: Record) -> Completions:
    """`--save_traces`: `{run}_rollouts_{shard}.jsonl`.

    Keys: `step`, `sample_idx`, `prompt_idx` (its number in the step), `prompt_tokens`,
    `response_tokens`, `reward`, `advantage`, `finish_reason`, `logprobs`. No key says which
    tokens a tool wrote; `request_info` says whether there were any. Source:
    `open_instruct/rl_utils.py`, `RolloutRecord`.
    """
    reason = record.get("finish_reason")
    keys = {
        "prompt": "prompt_tokens",
        "rewards": "reward",
        "step": "step",
        "group": "prompt_idx",
        "prompt_tokens": "prompt_tokens",
        "tokens": "response_tokens",
        "log_probs": "logprobs",
        "advantage": "advantage",
    }
    cut = reason != "stop" if isinstance(reason, str) else None
    yield read_completion(record, keys, truncated=cut)


def _nemo_rl(record: Record) -> Completions:
    """`train_data_step<step>.jsonl`.

    Keys: `content` (texts of all messages), `rewards`, `input_lengths`, and, in newer
    versions, `token_ids`, `token_loss_mask`, `advantages`, `generation_logprobs` (where a
    token was drawn) and `prev_logprobs` (the trainer's). Every value is a batch of one.
    Sequences are padded on the right; the prompt ends before the first token whose mask is
    1. With dynamic sampling `rewards` are those of all completions, `filtered_rewards`
    those of the completions that are trained on. Source: `grpo_train` and
    `Logger.log_batched_dict_as_jsonl`.
    """
    single = {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in record.items()
    }
    record = Record(single, record.position)
    content = field(record, "content")
    messages: Sequence[Any] = content if isinstance(content, list) else [content]
    rewards = {"reward": reward_of(field(record, "rewards"), "rewards", record.position)}
    name = _STEP.search(record.position.path)
    step = int(name[1]) if name else None
    mask = numbers_of(record, "token_loss_mask")
    tokens = token_ids(record, "token_ids")
    if not mask or not tokens or not any(mask):
        prompt = name_of(list(messages[:-1]) or messages[0], "content", record.position)
        yield Completion(prompt, rewards, step, shown=prompt, text=repr(messages[-1:]))
        return
    keys = {"log_probs": "generation_logprobs", "trainer_log_probs": "prev_logprobs"}
    yield cut_out(record, keys, tokens, mask, rewards=rewards, step=step)


def _slime(record: Record) -> Completions:
    """`--save-debug-rollout-data p/{rollout_id}.pt`.

    A file of `torch.save`, which `records.py` reads. It holds `rollout_id` and `samples`,
    each with `group_index`, `prompt`, `tokens` (the prompt's, too), `response_length`,
    `reward`, `loss_mask` (of the response), `rollout_log_probs`, `status`. Source:
    `Sample.to_dict` of `slime/utils/types.py`.
    """
    reward, status = field(record, "reward"), record.get("status")
    rewards = reward if isinstance(reward, Mapping) else {"reward": reward}
    tokens = token_ids(record, "tokens")
    count = whole_number(record, "response_length")
    keys = {
        "prompt": "prompt",
        "step": "rollout_id",
        "group": "group_index",
        "shown": "prompt",
        "text": "response",
        "mask": "loss_mask",
        "log_probs": "rollout_log_probs",
    }
    yield read_completion(
        record,
        keys,
        rewards=_rewards_of(rewards, record),
        prompt_tokens=tokens[:-count] if tokens and count else None,
        tokens=tokens[-count:] if tokens and count else None,
        length=count,
        truncated=status == "truncated" if isinstance(status, str) else None,
    )


JSONL = Form("JSONL", ("prompt_id or prompt", "reward or rewards"), _plain)
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

# In the order in which they are tried: a form that needs more keys of others comes first.
FORMS = (
    *(prime_rl.EXPORTS, prime_rl.EPISODES, prime_rl.TRACES),
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
    *(TRL, SLIME, JSONL),
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
    return JSONL if plain else None
