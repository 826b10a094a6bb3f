"""Completions as engines answer, or as people dump them: a record -> its completions.

    vLLM    RequestOutput: `outputs`, each with `token_ids`, `text`, `logprobs`
    OpenAI  `choices`, each with `text` or `message`, `logprobs`, vLLM's `token_ids`;
            also inside `response`, beside `custom_id`, as in the files of its batches
    SGLang  `text`, `output_ids`, `meta_info.output_token_logprobs`

An answer by HTTP does not name its prompt, and no engine gives rewards: `prompt_id` and
`reward`, a list for several completions, are to be added to a record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mse_lab.errors import InputError

Answer = Mapping[str, Any]

# What names the prompt, the first of these that is given.
_PROMPT = ("prompt_id", "custom_id", "prompt", "prompt_token_ids")


def _body(record: Answer) -> Answer:
    """Give what an engine has answered of a record that may hold more."""
    inner = record.get("response")
    if not isinstance(inner, Mapping):
        return record
    body = inner.get("body", inner)
    return body if isinstance(body, Mapping) else {}


def answers_in(record: Answer) -> Sequence[Answer]:
    """List the completions of an engine's answer; empty if a record is no such answer."""
    body = _body(record)
    if isinstance(body.get("meta_info"), Mapping):
        return [body] if {"text", "output_ids"} & {*body} else []
    for key, mark in (("outputs", "token_ids"), ("choices", "finish_reason")):
        found = body.get(key)
        if isinstance(found, list) and all(
            isinstance(one, Mapping) and mark in one for one in found
        ):
            return found
    return []


def drawn(answer: Answer) -> tuple[Any, Any]:
    """Give the token ids of a completion and their log-probabilities; None if not there.

    vLLM's RequestOutput has some tokens' log-probabilities at each place.
    """
    meta, given = answer.get("meta_info"), answer.get("logprobs")
    tokens = answer.get("token_ids")
    if isinstance(meta, Mapping):
        pairs = meta.get("output_token_logprobs") or []
        tokens = answer.get("output_ids") or [pair[1] for pair in pairs] or None
        return tokens, [pair[0] for pair in pairs] or None
    if isinstance(given, Mapping):
        chat = [each["logprob"] for each in given.get("content") or []]
        return tokens, given.get("token_logprobs") or chat or None
    if given and tokens:
        at = [each[str(token)] for each, token in zip(given, tokens, strict=True)]
        return tokens, [
            each["logprob"] if isinstance(each, Mapping) else each for each in at
        ]
    return tokens, None


def _text(answer: Answer) -> str | None:
    """Give the text of a completion; None of a message whose text is a part of it."""
    message = answer.get("message")
    if message is None:
        return answer.get("text")
    partly = any(
        message.get(key) for key in ("reasoning_content", "reasoning", "tool_calls")
    )
    return None if partly else message["content"]


def _line(answer: Answer) -> dict[str, Any]:
    reason, meta = answer.get("finish_reason"), answer.get("meta_info")
    if meta is not None:
        reason = (meta.get("finish_reason") or {}).get("type")
    tokens, log_probs = drawn(answer)
    values = {
        "tokens": tokens,
        "text": _text(answer),
        "truncated": None if reason is None else reason == "length",
        # Without token ids it is not known which tokens they are of.
        "engine_log_probs": log_probs if tokens else None,
        "log_probs": None if log_probs else answer.get("cumulative_logprob"),
        "reward": answer.get("reward"),
    }
    return {key: value for key, value in values.items() if value is not None}


def lines_of(record: Answer, where: str) -> list[dict[str, Any]]:
    """Make a line of the general form of each completion; empty if it is no answer."""
    answers = answers_in(record)
    try:
        lines = [_line(answer) for answer in answers]
    except (LookupError, TypeError, AttributeError, ValueError):
        raise InputError(
            f"{where}: an engine's answer whose log-probabilities, message or "
            "finish_reason have another form; leave out what is wrong"
        ) from None
    named = [
        part[key] for key in _PROMPT for part in (record, _body(record))
        if part.get(key) is not None
    ]  # fmt: skip
    if lines and not named:
        raise InputError(f"{where}: an engine's answer without its prompt; add prompt_id")
    rewards = record.get("rewards", record.get("reward"))
    listed = rewards if isinstance(rewards, list) else [rewards]
    if lines and rewards is not None and len(listed) != len(lines):
        raise InputError(
            f"{where}: {len(listed)} rewards of {len(lines)} completions; give a list, "
            "one for each"
        )
    for number, line in enumerate(lines):
        line |= {"prompt": named[0]} | (
            {} if rewards is None else {"reward": listed[number]}
        )
    return lines
