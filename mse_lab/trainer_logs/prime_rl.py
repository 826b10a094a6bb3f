"""prime-rl's `rollouts/step_<step>/train/*/traces.jsonl` and its `token_exports`.

A trace has `task` (its `key` or `hash` tells prompts apart), `rewards` ({name: {score,
weight}}), `info.group_id`, `run.step`, `calls` with a `finish_reason`, and `nodes`, the
messages with `token_ids`, `mask` (which of the tokens were sampled) and `logprobs` (of the
sampled tokens). The tokens of a trace with branches are not read.

A token export is a sequence as the trainer saw it: `token_ids`, `loss_mask`,
`inference_logprobs`, `trainer_logprobs`, `advantages`; it has no group, and `rewards` in
newer versions only. No id is in both, so traces and exports are not joined: traces give
rewards and groups, exports the log-probabilities of inference and trainer. Source:
`TokenExporter` of prime-rl (schemas 1 and 2), `Trace` of verifiers.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from mse_lab.errors import InputError, shown
from mse_lab.trainer_logs.completion import (
    Completion,
    Form,
    Record,
    RecordPosition,
    cut_out,
    drawn_part,
    field,
    name_of,
    numbers_of,
    read_completion,
    reward_of,
    token_ids,
    whole_number,
)


def _mapping(value: Any, key: str, position: RecordPosition) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{position}: {key} = {shown(value)}: give a mapping")
    return value


def _weighted(value: Any, key: str, position: RecordPosition) -> float:
    if not isinstance(value, Mapping):
        return reward_of(value, key, position)
    score = reward_of(value.get("score"), key, position)
    return score * reward_of(value.get("weight", 1.0), key, position)


def _drawn(nodes: Any, position: RecordPosition) -> dict[str, Any]:
    """Read tokens, mask and log-probabilities; nothing if they are not known."""
    tokens: list[int] = []
    mask: list[int] = []
    log_probs: list[float] = []
    if not isinstance(nodes, list):
        return {}
    for number, node in enumerate(nodes):
        node = Record(_mapping(node, "nodes", position), position)
        if node.get("parent") not in (None, number - 1):
            return {}
        ids, sampled = token_ids(node, "token_ids"), numbers_of(node, "mask")
        given = iter(numbers_of(node, "logprobs") or [])
        if not ids or sampled is None or len(sampled) != len(ids):
            continue
        tokens += ids
        mask += map(int, sampled)
        log_probs += [next(given, math.nan) if drawn else 0.0 for drawn in sampled]
    if 1 not in mask:
        return {}
    part = drawn_part(mask)
    complete = not any(map(math.isnan, log_probs))
    return {
        "prompt_tokens": tokens[: part.start],
        "tokens": tokens[part],
        "mask": mask[part],
        "log_probs": log_probs[part] if complete else None,
    }


def _read_trace(record: Record) -> Iterator[Completion]:
    position = record.position
    if "traces" in record:  # An episode of several agents.
        for trace in record["traces"] if isinstance(record["traces"], list) else []:
            yield from _read_trace(Record(_mapping(trace, "traces", position), position))
        return
    task = _mapping(field(record, "task"), "task", position)
    info, run, agent = (
        _mapping(record.get(key), key, position) for key in ("info", "run", "agent")
    )
    if agent.get("trainable") is False:
        return
    rewards = _mapping(field(record, "rewards"), "rewards", position)
    calls = record.get("calls") or []
    last = (
        _mapping(calls[-1], "calls", position) if isinstance(calls, list) and calls else {}
    )
    name = task.get("key") or task.get("hash") or task.get("data")
    weighted = {
        str(key): _weighted(value, str(key), position) for key, value in rewards.items()
    }
    reason = last.get("finish_reason")
    yield read_completion(
        Record({"step": run.get("step"), "group_id": info.get("group_id")}, position),
        {"step": "step", "group": "group_id"},
        prompt=name_of(name, "task", position),
        rewards=weighted or {"reward": math.nan},
        shown=task.get("data"),
        truncated=reason == "length" if isinstance(reason, str) else None,
        **_drawn(record.get("nodes"), position),
    )


def _read_export(record: Record) -> Iterator[Completion]:
    mask = [int(bool(drawn)) for drawn in numbers_of(record, "loss_mask") or []]
    tokens = token_ids(record, "token_ids") or []
    if not any(mask) or len(mask) != len(tokens):
        return
    rewards = numbers_of(record, "rewards") or []
    reward = rewards[drawn_part(mask).stop - 1] if len(rewards) == len(mask) else None
    yield cut_out(
        record,
        {"log_probs": "inference_logprobs", "trainer_log_probs": "trainer_logprobs"},
        tokens,
        mask,
        rewards={"reward": reward_of(reward, "rewards", record.position)},
        step=whole_number(record, "step"),
    )


_BATCH = "orchestrator.batch_size = {completions}, orchestrator.group_size = {size}"

TRACES = Form("prime-rl", ("task", "rewards", "nodes"), _read_trace, _BATCH)
EPISODES = Form("prime-rl", ("traces", "run"), _read_trace, _BATCH)
EXPORTS = Form(
    "prime-rl token exports",
    ("token_ids", "loss_mask", "inference_logprobs", "trainer_logprobs"),
    _read_export,
    _BATCH,
)
