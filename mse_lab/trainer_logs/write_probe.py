"""From a log to scores: write the completions of a step, their prompts, and a probe.

The policy before a step's update drew the completions of that step; the model that training
began with drew those of the first. They are written in the form that `completions:` of a
probe reads, with their rewards, so that the scores of the very completions that trained can
be measured.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mse_lab.console import writing
from mse_lab.errors import InputError
from mse_lab.probe.plain_text import fault_of_text
from mse_lab.trainer_logs.completion import Completion
from mse_lab.trainer_logs.find_logs import Source
from mse_lab.trainer_logs.groups import Groups
from mse_lab.trainer_logs.read_logs import completions_of
from mse_lab.trainer_logs.records import records_of

# The fewest completions of a prompt that make a reference in two halves and two groups of
# two.
FEWEST = 8

LONGEST_ID = 100  # A longer text is no id.

Decode = Callable[[Sequence[int]], str]


class Prompted(NamedTuple):
    """The completions of a prompt, and the id that they are written under."""

    id: str
    completions: list[Completion]


def _total_reward(completion: Completion) -> float:
    given = [value for value in completion.rewards.values() if not math.isnan(value)]
    return sum(given) if given else math.nan


def _of_step(
    source: Source, names: Iterable[str], step: int | None
) -> Iterable[Completion]:
    for path, form in source.forms.items():
        for _, completion in completions_of(form, records_of(path, [])):
            given = completion.rewards
            counted = {name: given[name] for name in names if name in given}
            completion = completion._replace(rewards=counted)
            if completion.step == step and not math.isnan(_total_reward(completion)):
                yield completion


def _id(prompt: str, number: int) -> str:
    short = len(prompt) <= LONGEST_ID and not fault_of_text(prompt)
    return prompt if short and " " not in prompt else f"prompt-{number:04d}"


def choose(
    source: Source, groups: Groups, step: int | None, *, texts: bool
) -> tuple[list[Prompted], int | None, int]:
    """Choose the completions of a step, by default the first, the same number a prompt.

    `texts` says whether texts do where the log has no token ids. Return the prompts with
    their completions; the step; and how many prompts have fewer, which are left out.
    """
    if not source.forms:
        raise InputError("completions of a data frame cannot be written; name files")
    steps, size = groups.step_K, groups.commonest_size
    first = int(steps.min()) if steps.min() >= 0 else None
    wanted = first if step is None else step
    if size < FEWEST:
        raise InputError(
            f"{source.name}: {size} completions of a prompt; scores need {FEWEST} or more: "
            "draw new ones with advise PROBE"
        )
    by_prompt: dict[str, list[Completion]] = {}
    for completion in _of_step(source, groups.columns.rewards, wanted):
        by_prompt.setdefault(completion.prompt, []).append(completion)
    full = {name: drawn[:size] for name, drawn in by_prompt.items() if len(drawn) >= size}
    if not full or (wanted is not None and wanted not in steps):
        raise InputError(
            f"{source.name}: no prompt has {size} completions at step {wanted}; the steps "
            f"are {steps.min()} to {steps.max()}"
        )
    chosen = [one for drawn in full.values() for one in drawn]
    if not all(one.tokens for one in chosen) and not (
        texts and all(one.text is not None for one in chosen)
    ):
        raise InputError(
            f"{source.name}: no token ids, and a text does not say whether it was cut: log "
            'ids (TRL: log_extra("completion_ids", completion_ids)), or give the limit on '
            "their length, --max-tokens N, for texts to be tokenised anew"
        )
    prompts = [
        Prompted(_id(name, number), drawn)
        for number, (name, drawn) in enumerate(full.items())
    ]
    return prompts, wanted, len(by_prompt) - len(full)


def _line(prompt: Prompted, completion: Completion, keys: set[str]) -> dict[str, Any]:
    tokens, mask = completion.tokens or (), completion.mask
    line: dict[str, Any] = {"prompt": prompt.id, "reward": _total_reward(completion)}
    if "tokens" not in keys:
        return line | {"text": completion.text}
    line["tokens"] = [*tokens]
    if "mask" in keys:
        line["mask"] = [1] * len(tokens) if mask is None else [int(bool(m)) for m in mask]
    both = "engine_log_probs" in keys
    if "log_probs" in keys:
        policy = completion.trainer_log_probs if both else completion.log_probs
        line["log_probs"] = [*(policy or ())]
    if both:
        line["engine_log_probs"] = [*(completion.log_probs or ())]
    return line


def _of_each_token(completion: Completion, given: Sequence[float] | None) -> bool:
    """Whether there is a log-probability of each token."""
    tokens = completion.tokens
    if tokens is None or given is None or len(given) != len(tokens):
        return False
    return all(isinstance(one, int | float) and abs(one) < 1e9 for one in given)


def _keys(completions: Sequence[Completion]) -> set[str]:
    """Find the keys that every line can have."""
    masks = [one.mask for one in completions if one.mask is not None]
    drawn = all(_of_each_token(one, one.log_probs) for one in completions)
    both = all(_of_each_token(one, one.trainer_log_probs) for one in completions)
    given = {
        "tokens": all(one.tokens for one in completions),
        "mask": not all(map(all, masks)),
        "log_probs": drawn,
        # Where the log has the trainer's too, the sampler's are those of an engine.
        "engine_log_probs": drawn and both,
    }
    return {key for key, is_given in given.items() if is_given}


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_completions(path: Path, prompts: Sequence[Prompted]) -> None:
    """Write completions as a probe's `completions:` reads them."""
    pairs = [(prompt, one) for prompt in prompts for one in prompt.completions]
    keys = _keys([completion for _, completion in pairs])
    _write_lines(path, (_line(prompt, completion, keys) for prompt, completion in pairs))


def _problem(prompt: Prompted, decode: Decode) -> tuple[str, bool]:
    """Give the text of a prompt, and whether it is the user's turn of a chat."""
    first = prompt.completions[0]
    match first.shown:
        case str(text):
            return text, False
        case [{"role": "user", "content": str(text)}]:
            return text, True
    if first.prompt_tokens is not None:
        return decode(first.prompt_tokens), False
    raise InputError(
        f"prompt {prompt.id}: neither a text nor one message of the user; write the "
        "prompts yourself, with the ids of the completions"
    )


def pool_of(count: int) -> dict[str, Any]:
    """Divide n completions of a prompt between the pools, and choose group sizes.

    >>> pool_of(8)
    {'pool': {'reference': 4, 'replicate': 4}, 'group_sizes': [2]}
    >>> pool_of(64)["group_sizes"]
    [2, 4, 8, 16]
    """
    half = count // 4 * 2
    largest = 2 ** ((count - half) // 2).bit_length() // 2
    replicate = (count - half) // largest * largest
    sizes = [2**power for power in range(1, largest.bit_length())]
    return {"pool": {"reference": half, "replicate": replicate}, "group_sizes": sizes}


def write_probe(
    path: Path,
    completions: Path,
    prompts: Sequence[Prompted],
    model: str,
    max_tokens: int,
    decode: Decode,
) -> Path:
    """Write a probe of completions, and its prompts beside it; return the prompts' file.

    `decode` makes the text of a prompt of which the log has only the tokens.
    """
    shown = [_problem(prompt, decode) for prompt in prompts]
    chats = {chat for _, chat in shown}
    if len(chats) > 1:
        raise InputError(f"{path}: some prompts are texts and some messages; choose one")
    texts = path.with_name(f"{path.stem}-prompts.jsonl")
    _write_lines(
        texts,
        (
            # The reward is the log's, which needs no answer; a row must have one.
            {"id": prompt.id, "problem": problem, "answer": "?"}
            for prompt, (problem, _) in zip(prompts, shown, strict=True)
        ),
    )
    values = {
        "model": {"path": model},
        "prompts": {"source": texts.name, "template": "none", "chat": chats == {True}},
        "reward": "supplied",
        "sampling": {"temperature": 1.0, "max_new_tokens": max_tokens},
        "completions": os.path.relpath(completions, path.parent),
        **pool_of(len(prompts[0].completions)),
    }
    with writing(path):
        path.write_text(
            "# Completions that a trainer has drawn. If at another temperature,\n"
            "# change sampling.temperature.\n" + yaml.safe_dump(values, sort_keys=False)
        )
    return texts
