"""A user's reward function, in one of three forms -> rewards of a prompt's completions.

    ours    (text, row) -> float, of a completion's text and its prompt's row
    TRL's   (completions, **columns) -> list, of some completions of one prompt; it gets
            `prompts`, as the model does, `completion_ids` and the row's columns, too
    verl's  compute_score(data_source, solution_str, ground_truth, extra_info) -> float, or
            a mapping with `score`

Each may be async. What a function prints goes to standard error. A parameter that is not
given here is named. A reward that depends on the other completions of a call is refused:
that is found by asking for completions alone and together.
"""

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, update_wrapper
from typing import Any

from mse_lab.arrays import LARGEST, Ints
from mse_lab.data.foreign_code import guard, protect
from mse_lab.data.prompts import Prompt
from mse_lab.errors import InputError, shorten

FORMS = (
    "write (text, row) -> float, as for TRL (completions, **columns) -> list, or verl's "
    "compute_score(data_source, solution_str, ground_truth, extra_info)"
)

# Completions of a call of TRL's form, at most: about those of a step of training.
LARGEST_CALL = 64

ALONE = 8  # Completions that are asked for alone.

# How far a reward may move with the others of its call, over what a second call changes.
NOISES = 3

# Rewards texts of a prompt; the third argument are token ids.
Ids = Sequence[Sequence[int] | Ints] | None
RewardsOf = Callable[[Sequence[str], Prompt, Ids], list[Any]]

# Columns that TRL's rewards get from the trainer under these or other names.
OF_THE_TRAINER = ("prompt", "completion", "completion_ids")


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Give the parameters of a function; some functions of C do not say theirs."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def has_trl_form(function: Callable[..., Any]) -> bool:
    """Whether a function takes `completions`."""
    return "completions" in parameters_of(function)


def _awaited(value: Any) -> Any:
    """Wait for what an async function gives, also where a loop runs, as in a notebook."""
    if not inspect.isawaitable(value):
        return value

    async def wait() -> Any:
        return await value

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()


def call_by_names(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function with those of its parameters that there are."""
    signature = inspect.signature(function)
    known = signature.parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in known.values())
    taken = {name: given[name] for name in given if takes_any or name in known}
    try:
        signature.bind(**taken)
    except TypeError as error:
        raise InputError(f"{error}, not given here; given are {', '.join(given)}") from None
    return _awaited(function(**taken))


# What a reward logs through the trainer belongs to the training alone.
LOGS = dict.fromkeys(("log_extra", "log_metric"), lambda *_: None)


def _of_trl(function: Callable[..., Any], chat: bool, more: Mapping[str, Any]) -> RewardsOf:
    def call(texts: Sequence[str], prompt: Prompt, ids: Ids) -> list[Any]:
        names = [name for name in prompt.record if name not in OF_THE_TRAINER]
        rows, given = [protect(prompt.record) for _ in texts], {**LOGS, **more}
        given |= {name: [row[name] for row in rows] for name in names}
        asked: Any = prompt.turns if chat else prompt.text
        given["prompts"] = [protect(asked) for _ in texts]
        given["completions"] = [
            [{"role": "assistant", "content": text}] if chat else text for text in texts
        ]
        if ids is not None:
            given["completion_ids"] = [[*map(int, one)] for one in ids]
        rewards = list(call_by_names(function, given))
        if len(rewards) != len(texts):
            raise ValueError(f"it gave {len(rewards)} rewards for {len(texts)} completions")
        return rewards

    def rewards_of(texts: Sequence[str], prompt: Prompt, ids: Ids) -> list[Any]:
        rewards = []
        for start in range(0, len(texts), LARGEST_CALL):
            part = slice(start, start + LARGEST_CALL)
            rewards += call(texts[part], prompt, None if ids is None else ids[part])
        return rewards

    return rewards_of


def _of_verl(function: Callable[..., Any]) -> Callable[[str, Mapping[str, Any]], Any]:
    def reward(text: str, row: Mapping[str, Any]) -> Any:
        row_copy = protect(row)
        given = {"solution_str": text, "extra_info": row_copy.get("extra_info") or {}}
        model = row_copy.get("reward_model")
        if isinstance(model, Mapping) and "ground_truth" in model:
            given["ground_truth"] = model["ground_truth"]
        elif "answer" in row_copy:
            given["ground_truth"] = row_copy["answer"]
        if "data_source" in row_copy:
            given["data_source"] = row_copy["data_source"]
        score = call_by_names(function, given)
        return score["score"] if isinstance(score, Mapping) else score

    return reward


def _as_rewards_of(
    function: Callable[..., Any], what: str, chat: bool, more: Mapping[str, Any]
) -> RewardsOf:
    """Convert a function of any form to one of texts and their prompt."""
    if has_trl_form(function):
        return _of_trl(function, chat, more)
    one_by_one = function
    if {"solution_str", "ground_truth"} <= {*parameters_of(function)}:
        one_by_one = _of_verl(function)
    try:
        inspect.signature(one_by_one).bind("text", {})
    except TypeError:
        taken = inspect.signature(function)
        raise InputError(f"{what}: takes {taken}; {FORMS}") from None
    except ValueError:  # Some functions written in C have no signature.
        pass

    def rewards_of(texts: Sequence[str], prompt: Prompt, _: Ids) -> list[Any]:
        # Equal texts, too: a judge may draw its rewards.
        return [_awaited(one_by_one(text, protect(prompt.record))) for text in texts]

    return rewards_of


def _as_number(value: Any) -> float:
    if value is None:
        raise InputError(
            "it gave None, by which TRL leaves a completion out of its group; that is not "
            "measured here: give a number"
        )
    if isinstance(value, str | bytes):
        raise TypeError(f"it gave the text {value!r}, not a number")
    # An array or tensor of one number, whatever its axes.
    return float(value.item() if hasattr(value, "item") else value)


def _far(one: float, other: float) -> float:
    return abs(one - other)


class UserReward:
    """A user's function of any form; a line for each error and unusable value.

    `what` names it; in a `chat` a function of TRL's form gets messages, and in a training
    `more` of what its trainer gives.
    """

    def __init__(
        self, function: Callable[..., Any], what: str, *, chat: bool = False, **more: Any
    ) -> None:
        update_wrapper(self, function)
        self._rewards_of = _as_rewards_of(function, what, chat, more)
        # Whether it may still depend on the other completions of a call.
        self._unasked = has_trl_form(function)
        if chat and self._unasked:
            what += ", given messages as prompts.chat is true"
        self._what = what

    def __call__(self, text: str, row: Mapping[str, Any]) -> float:
        """Reward one completion of a prompt that is its row alone."""
        prompt = Prompt(str(row.get("id")), str(row.get("problem", "")), "", row)
        return self._numbers([text], prompt, None)[0]

    def together(self, texts: Sequence[str], prompt: Prompt, ids: Ids) -> list[float]:
        """Reward completions of one prompt, those of TRL's form in few calls."""
        numbers = self._numbers(texts, prompt, ids)
        if self._unasked and len({*numbers}) > 1:
            self._refuse_relative(texts[:LARGEST_CALL], prompt, ids, numbers[:LARGEST_CALL])
            self._unasked = False
        return numbers

    def _numbers(self, texts: Sequence[str], prompt: Prompt, ids: Ids) -> list[float]:
        where = f"{self._what}: failed on prompt {shorten(prompt.id)}"
        with guard(where):
            try:
                numbers = [*map(_as_number, self._rewards_of(texts, prompt, ids))]
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
        for number in numbers:
            if not abs(number) <= LARGEST:
                raise InputError(
                    f"{where}: gave {number:g}; it must be a finite number of size "
                    f"{LARGEST:g} at most"
                )
        return numbers

    def _refuse_relative(
        self, texts: Sequence[str], prompt: Prompt, ids: Ids, together: list[float]
    ) -> None:
        """Refuse a reward that ranks a call's completions; noise is no such reward.

        Noise gives numbers as far apart when the same call comes again.
        """
        all_ids = None if ids is None else ids[: len(texts)]
        tokens = texts if all_ids is None else [tuple(map(int, one)) for one in all_ids]
        drawn, noise = [*zip(texts, tokens, strict=True)], -1.0
        for one, _ in Counter(drawn).most_common(ALONE):
            at = drawn.index(one)
            its_ids = None if ids is None else ids[at : at + 1]
            (alone,) = self._numbers([texts[at]], prompt, its_ids)
            pairs = zip(drawn, together, strict=True)
            other = max(
                (got for each, got in pairs if each == one), key=partial(_far, alone)
            )
            if math.isclose(alone, other, rel_tol=1e-6, abs_tol=1e-9):
                continue
            if noise < 0:
                again = self._numbers(texts, prompt, all_ids)
                noise = max(map(_far, again, together))
            if _far(alone, other) > NOISES * noise:
                raise InputError(
                    f"{self._what}: its value depends on the other completions of a call "
                    f"({alone:g} alone, {other:g} with others), and is not measured: give "
                    "a reward of each completion"
                )
