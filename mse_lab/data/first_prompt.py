"""What a person should see early: a prompt as the model gets it, and what is rewarded.

With it comes whether prompts hold a chat template's own tokens.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mse_lab.data.prompts import Prompt
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import Reward, reward_completions, supplied
from mse_lab.errors import InputError, shorten, shown

# Characters of a prompt, in Python's notation, that are shown.
LONGEST_PROMPT = 400

# What chat templates put around turns: of Qwen, Llama, Gemma, Mistral, DeepSeek and others.
_MARKS = re.compile(
    r"<\|[a-z_]+\|>|<(?:start|end)_of_turn>|\[/?INST\]|<<SYS>>|<｜[^｜<>]{1,40}｜>"
)


def find_mark(prompt: Prompt) -> str | None:
    """Find a token of chat templates in a prompt: in a chat's turns, or the problem."""
    texts = [prompt.record.get("problem", prompt.text)]
    if prompt.chat:
        texts = [turn["content"] for turn in prompt.chat]
    marks = (mark[0] for text in texts for mark in _MARKS.finditer(str(text)))
    return next(marks, None)


def _warn_of_marks(prompts: Sequence[Prompt], *, chat: bool) -> list[str]:
    """Say in a line, if any, how many prompts hold such tokens; `chat` is the probe's."""
    marks = [mark for prompt in prompts if (mark := find_mark(prompt))]
    if not marks:
        return []
    many = f"warning: {len(marks)} of {len(prompts)} prompts hold a chat template's tokens"
    remedy = "they are given as they are, as prompts.chat = false"
    if chat:
        remedy = "set prompts.chat = false, or they are in it twice"
    return [f"{many} ({marks[0]}); {remedy}"]


def _bare_answers(prompt: Prompt) -> list[str]:
    """Give the texts that answer a prompt; none where none is known."""
    answer: Any = prompt.record.get("answer")
    several = answer if isinstance(answer, list | tuple) else [answer]
    return [str(one) for one in several if not isinstance(one, list | Mapping | None)]


def describe_first(
    prompts: Sequence[Prompt],
    reward: Reward,
    text: str,
    what: str = "as the model gets it",
    *,
    chat: bool = False,
    in_source: int = 0,
) -> list[str]:
    r"""Show the first prompt's `text`, and the rewards of its answer and of another's.

    `what` says which text it is, `chat` is the probe's. Where more prompts are `in_source`,
    that is said.

    >>> from mse_lab.data.rewards import integer
    >>> rows = [{"id": "a", "answer": "5"}, {"id": "b", "answer": "7"}]
    >>> prompts = [Prompt(row["id"], "", "", row) for row in rows]
    >>> for line in describe_first(prompts, integer, "2 + 3 =\n"):
    ...     print(line)
    first prompt, a, as the model gets it: '2 + 3 =\n'
    rewards: 1 for its reference answer '5', 0 for '7'
    """
    first, *others = prompts
    lines = []
    if in_source > len(prompts):
        lines = [f"prompts: {len(prompts):,} of {in_source:,}, at random by the seed"]
    lines += [
        f"first prompt, {shorten(first.id)}, {what}: {shorten(repr(text), LONGEST_PROMPT)}",
        *_warn_of_marks(prompts, chat=chat),
    ]
    known = _bare_answers(first)
    right = known[0] if known else None
    if reward is supplied or (right is None and not isinstance(reward, UserReward)):
        return lines
    answers = (answer for other in others for answer in _bare_answers(other))
    wrong = next((answer for answer in answers if answer not in known), "")
    try:
        of_right, of_wrong = (
            reward_completions(reward, [one], first).values_N.item()
            for one in (right or "", wrong)
        )
    except InputError as error:
        return [*lines, f"warning: on a bare answer the reward fails: {error}"]
    if right is None:
        return lines
    addition = "" if of_right != of_wrong else "; it does not tell bare answers apart"
    rewards = f"{of_right:g} for its reference answer {shown(right)}"
    return [*lines, f"rewards: {rewards}, {of_wrong:g} for {shown(wrong)}{addition}"]
