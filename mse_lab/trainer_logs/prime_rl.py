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

from mse_lab.trainer_logs.completion import Completion, Form, Record, drawn_part


def _mapping(record: Record, value: Any, key: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise record.fault(value, key, "a mapping")
    return value or {}


def _weighted(record: Record, value: Any, key: str) -> float:
    if not isinstance(value, Mapping):
        return record.reward_of(value, key)
    score = record.reward_of(value.get("score"), key)
    return score * record.reward_of(value.get("weight", 1.0), key)


def _drawn(record: Record) -> dict[str, Any]:
    """Read tokens, mask and log-probabilities; nothing if they are not known."""
    tokens, mask, log_probs = list[int](), list[int](), list[float]()
    nodes = record.get("nodes")
    for number, node in enumerate(nodes if isinstance(nodes, list) else []):
        node = record.like(_mapping(record, node, "nodes"))
        if node.get("parent") not in (None, number - 1):
            return {}
        ids, sampled = node.token_ids("token_ids"), node.numbers("mask")
        given = iter(node.numbers("logprobs") or [])
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
    if "traces" in record:  # An episode of several agents.
        for trace in record["traces"] if isinstance(record["traces"], list) else []:
            yield from _read_trace(record.like(_mapping(record, trace, "traces")))
        return
    task = _mapping(record, record.field("task"), "task")
    info, run, agent = (
        _mapping(record, record.get(key), key) for key in ("info", "run", "agent")
    )
    if agent.get("trainable") is False:
        return
    rewards = _mapping(record, record.field("rewards"), "rewards")
    weighted = {
        str(key): _weighted(record, value, str(key)) for key, value in rewards.items()
    }
    calls = record.get("calls")
    last = calls[-1] if isinstance(calls, list) and calls else None
    reason = _mapping(record, last, "calls").get("finish_reason")
    name = task.get("key") or task.get("hash") or task.get("data")
    placed = record.like({"step": run.get("step"), "group_id": info.get("group_id")})
    yield placed.completion(
        {"step": "step", "group": "group_id"},
        prompt=record.name_of(name, "task"),
        rewards=weighted or {"reward": math.nan},
        shown=task.get("data"),
        truncated=reason == "length" if isinstance(reason, str) else None,
        **_drawn(record),
    )


def _read_export(record: Record) -> Iterator[Completion]:
    mask = [int(bool(drawn)) for drawn in record.numbers("loss_mask") or []]
    tokens = record.token_ids("token_ids") or []
    if not any(mask) or len(mask) != len(tokens):
        return
    rewards = record.numbers("rewards") or []
    reward = rewards[drawn_part(mask).stop - 1] if len(rewards) == len(mask) else None
    yield record.cut_out(
        {"log_probs": "inference_logprobs", "trainer_log_probs": "trainer_logprobs"},
        tokens,
        mask,
        rewards={"reward": record.reward_of(reward, "rewards")},
        step=record.whole_number("step"),
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
