"""Write a new probe: a commented YAML file for a user's model and prompt set.

It names the columns of the prompts and a reward that their answers can meet, and says
whether the tokenizer has a chat template; what the user asks for comes first. No model is
loaded. An existing file is left as it is.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import yaml

from mse_lab.config.prompt_templates import TEMPLATES
from mse_lab.config.schema import Fields, Model, Probe, Prompts, Sampling
from mse_lab.console import COMMAND_PREFIX, writing
from mse_lab.data.first_prompt import describe_first, find_mark
from mse_lab.data.location import Location, locate
from mse_lab.data.prompts import (
    Prompt,
    column_names,
    column_value,
    is_chat,
    load_prompts,
    read_prompts,
)
from mse_lab.data.rewards import load_reward, reads_answer, try_reward
from mse_lab.data.sources import Row, open_rows
from mse_lab.errors import InputError, shorten, shown
from mse_lab.records.plain_text import is_hub_name, local_path, parse_json, read_text

TEXT = Path(__file__).with_name("new_probe.yaml")

# Usual names of the columns of prompt sets; the last one is verl's.
COLUMNS = {
    "problem": ("problem", "question", "prompt", "instruction", "input", "query"),
    "answer": (
        *("answer", "solution", "target", "label", "output", "ground_truth"),
        "reward_model.ground_truth",
    ),
}

# A configuration's names of the tokens that a model can read.
CONTEXTS = ("max_position_embeddings", "n_positions")

# The files of which a tokenizer has one.
TOKENIZERS = ("tokenizer_config.json", "tokenizer.json", "tokenizer.model", "vocab.json")

# Tokens of an answer that is part of a chat or has steps, and of any other.
LONG, SHORT = 256, 16

BOX = "\\boxed{"  # Where a worked solution has its answer.


class Wanted(NamedTuple):
    """What the user asks for; None for what the files tell."""

    problem: str | None = None  # The column of the problem.
    answer: str | None = None
    reward: str | None = None
    chat: bool | None = None
    max_tokens: int | None = None
    template: str | None = None


def _find_fields(row: Row, wanted: Wanted, *, answered: bool) -> Fields:
    """Find the columns by their usual names; an answer only where it is needed."""
    values, known = row.values, shorten(", ".join(column_names(row.values)), 300)
    columns: dict[str, str] = {}
    for field, usual in COLUMNS.items():
        asked = getattr(wanted, field)
        names = usual if asked is None else (asked,)
        present = [name for name in names if column_value(values, name) is not None]
        if not present and (field != "answer" or answered or asked):
            if empty := {*names} & {*column_names(values)}:
                raise InputError(
                    f"{row.where}: {min(empty)} is missing or empty; fill it in"
                )
            raise InputError(
                f"{row.where}: no column is called {' or '.join(names)}, but {known}; name "
                f"the {field}'s by --{field}"
            )
        if present:
            columns[field] = present[0]
    answer = column_value(values, columns.get("answer", ""))
    parts = answer if isinstance(answer, list) else [answer]
    if answered and any(isinstance(one, Mapping) for one in parts):
        part = f"{columns['answer']}.0." if isinstance(answer, list) else ""
        inside = (
            column_names(parts[0], part) if part and isinstance(parts[0], Mapping) else []
        )
        raise InputError(
            f"{row.where}: {columns['answer']} = {shown(answer)}: no answer; name one by "
            f"--answer: {', '.join([*inside, known])}"
        )
    return Fields(**columns)


def _choose_reward(prompts: Sequence[Prompt], column: str) -> str:
    """Choose a built-in reward that reads every answer: of numbers, or boxed ones."""
    answers = [prompt.record["answer"] for prompt in prompts]
    for reward in ("integer", "gsm8k"):
        with suppress(InputError):
            try_reward(load_reward(reward), prompts)
            return reward
    if all(BOX in str(answer) for answer in answers):
        return "math"
    if any(isinstance(answer, list) for answer in answers):
        try_reward(load_reward("contains"), prompts)
        return "contains"
    raise InputError(
        f"{column} = {shown(max(map(str, answers), key=len))}: no number, alone, after "
        f"#### or in {BOX}}}: name the reward by --reward: contains (the answer among "
        "other words), exact, math (LaTeX), or module:function"
    )


def _read_prompts(
    name: str, root: Path, wanted: Wanted
) -> tuple[Fields, Sequence[Prompt], str]:
    """Read a local file: names of fields, prompts (none of a data set), and a reward."""
    path = local_path(name, root)
    if path.is_dir() if path else is_hub_name(name):
        named = {field: column for field in COLUMNS if (column := getattr(wanted, field))}
        return Fields(**named), [], wanted.reward or "exact"
    first = next(open_rows(Prompts(source=name), root)[1], None)
    if first is None:
        raise InputError(f"{name}: has no prompts; give one JSON object per line")
    answered = wanted.reward is None or reads_answer(wanted.reward)
    fields = _find_fields(first, wanted, answered=answered)
    chat = is_chat(column_value(first.values, fields.problem))
    config = Prompts(source=name, fields=fields, template="none", chat=chat)
    prompts = load_prompts(config, root, answered=answered)
    if fields.problem == "instruction" != wanted.problem:  # Alpaca's may have an input.
        for one in [one for one in prompts if one.record.get("input")][:1]:
            raise InputError(
                f"{name}, prompt {shorten(one.id)}: instruction and input hold a problem; "
                "join them, or name one by --problem"
            )
    if wanted.reward is None:
        return fields, prompts, _choose_reward(prompts, fields.answer)
    try_reward(load_reward(wanted.reward), prompts)
    return fields, prompts, wanted.reward


def _settings(model: Location, file: str) -> dict[str, Any]:
    path = model.find(file)
    return {} if path is None else parse_json(read_text(path), str(path))


def _choose_chat(model: Location, prompts: Sequence[Prompt], wanted: bool | None) -> bool:
    """Use the chat template if there is one, and the prompts do not hold it already."""
    if any(prompt.chat for prompt in prompts):
        if wanted is False:
            raise InputError("--no-chat: the prompts are chats; leave it out")
        return True
    if wanted is not None:
        return wanted
    has_key = "chat_template" in _settings(model, "tokenizer_config.json")
    has_one = has_key or model.find("chat_template.jinja") is not None
    return has_one and not any(map(find_mark, prompts))


def _most_tokens(model: Location, wanted: int) -> int:
    """Take as many tokens as wanted, but at most half of the model's context."""
    settings = _settings(model, "config.json")
    inside = settings.get("text_config")
    settings |= inside if isinstance(inside, dict) else {}
    sizes = [settings.get(name) for name in CONTEXTS]
    return min(
        [wanted, *(size // 2 for size in sizes if isinstance(size, int) and size > 1)]
    )


def _propose(model: Location, source: str, root: Path, wanted: Wanted) -> Probe:
    fields, prompts, reward = _read_prompts(source, root, wanted)
    chat = _choose_chat(model, prompts, wanted.chat)
    of_chats = any(prompt.chat for prompt in prompts)
    usual = "word-problem" if reward == "gsm8k" and not of_chats else "none"
    template = wanted.template or usual
    most = LONG if chat or reward in ("gsm8k", "math") else SHORT
    return Probe(
        model=Model(path=model.name),
        prompts=Prompts(
            source=source, fields=fields, limit=100, template=template, chat=chat
        ),
        reward=reward,
        sampling=Sampling(max_new_tokens=wanted.max_tokens or _most_tokens(model, most)),
    )


def _write(probe: Probe, out: Path) -> str:
    """Write a probe, commented; relative paths that exist start from its folder."""

    def line(**entry: Any) -> str:
        style = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False}
        return str(yaml.safe_dump(entry, width=10**6, **style).strip()[1:-1])

    def path(name: str) -> str:
        relative = Path(name).exists() and not Path(name).is_absolute()
        return os.path.relpath(name, out.parent) if relative else name

    prompts, template = probe.prompts, probe.prompts.template
    return Template(read_text(TEXT)).substitute(
        file=shlex.quote(str(out)),
        reward=line(reward=probe.reward),
        source=line(source=path(prompts.source)),
        fields=line(fields=prompts.fields.model_dump()),
        limit=line(limit=prompts.limit),
        template=line(template=template if template in TEMPLATES else path(template)),
        chat=line(chat=prompts.chat),
        max_new_tokens=line(max_new_tokens=probe.sampling.max_new_tokens),
        path=line(path=path(probe.model.path)),
    )


def _describe_prompts(probe: Probe, root: Path) -> list[str]:
    config, answered = probe.prompts, reads_answer(probe.reward)
    path = local_path(config.source, root)
    if path is None or path.is_dir():
        return ["prompts not read: set subset, split, fields and reward in the file"]
    prompts, count = read_prompts(config, root, answered=answered)
    reward, text = load_reward(probe.reward, chat=config.chat), prompts[0].text
    what = "as the user's turn of a chat" if config.chat else "as the model gets it"
    answers = config.fields.answer if "answer" in prompts[0].record else "none"
    return [
        f"problems in {config.fields.problem}, answers in {answers}, reward {probe.reward}",
        *describe_first(prompts, reward, text, what, chat=config.chat, in_source=count),
    ]


def write_new(
    model: str, prompts: str, out: Path | None, root: Path, wanted: Wanted
) -> list[str]:
    """Write a probe; return a description and the next command, a line each.

    By default its file is the model's name and `.yaml`, in the working folder. A probe that
    could not be measured is not written.
    """
    location = locate("MODEL", model, None, root, fetch=False)
    out = out or Path(f"{Path(model).absolute().name}.yaml")
    probe = _propose(location, prompts, root, wanted)
    text, lines = _write(probe, out), [f"{out} written", *_describe_prompts(probe, root)]
    if not any(map(location.find, TOKENIZERS)):
        lines.append(
            f"warning: no tokenizer of {model} was seen, so whether it has a chat template "
            f"is not known: prompts.chat = {str(probe.prompts.chat).lower()}"
        )
    with writing(out):
        try:  # A file that is there, or a link of its name, is not touched.
            file = out.open("x", encoding="utf-8", newline="\n")
        except FileExistsError:
            raise InputError(f"{out}: exists; name another file by --out") from None
        with file:
            file.write(text)
    return [*lines, f"next: {COMMAND_PREFIX} advise {shlex.quote(str(out))}"]
