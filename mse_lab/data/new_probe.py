"""Write a new probe: a commented YAML file for a user's model and prompt set.

It names the columns of the prompts and a reward that their answers can meet, and says
whether the tokenizer has a chat template; what the user asks for comes first. No model is
loaded. An existing file is left as it is.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import yaml

from mse_lab.config.probe_files import load_probe
from mse_lab.config.prompt_templates import TEMPLATES, load_template
from mse_lab.config.schema import Fields, Prompts
from mse_lab.console import COMMAND_PREFIX, writing
from mse_lab.data.first_prompt import describe_first, find_mark
from mse_lab.data.location import Location, find_location
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
    "problem": ("problem", "question", "prompt", "input", "instruction", "query"),
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
    """What the user asks for; None, or nothing, for what the files tell."""

    fields: Mapping[str, str] = {}  # Columns of the `problem` and the `answer`.
    reward: str | None = None
    chat: bool | None = None
    max_tokens: int | None = None
    template: str | None = None


NOTHING_ASKED = Wanted()


class _Read(NamedTuple):
    """The prompts: names of their fields, themselves (none if not read), and a reward."""

    fields: Fields
    prompts: Sequence[Prompt] = ()
    reward: str = "exact"

    @property
    def answered(self) -> bool:
        """Whether the rows have answers."""
        return "answer" in self.prompts[0].record

    @property
    def chats(self) -> bool:
        """Whether any of the prompts is a chat."""
        return any(prompt.chat for prompt in self.prompts)


def _find_fields(row: Row, named: Mapping[str, str], *, answered: bool) -> Fields:
    """Find the columns by their usual names; an answer only where it is needed."""
    values, known = row.values, shorten(", ".join(column_names(row.values)), 300)
    columns: dict[str, str] = {}
    for field, usual in COLUMNS.items():
        names = [named[field]] if field in named else usual
        present = [name for name in names if column_value(values, name) is not None]
        if not present and (field != "answer" or answered or field in named):
            raise InputError(
                f"{row.where}: no column is called {' or '.join(names)}, but {known}; name "
                f"the {field}'s by --{field}"
            )
        if present:
            columns[field] = present[0]
    answer = column_value(values, columns.get("answer", ""))
    parts = answer if isinstance(answer, list) else [answer]
    if answered and any(isinstance(one, Mapping) for one in parts):
        raise InputError(
            f"{row.where}: {columns['answer']} = {shown(answer)}: no answer; name one by "
            f"--answer: {known}"
        )
    return Fields(**columns)


def _reads(reward: str, prompts: Sequence[Prompt]) -> bool:
    with suppress(InputError):
        try_reward(load_reward(reward), prompts)
        return True
    return False


def _choose_reward(prompts: Sequence[Prompt], column: str) -> str:
    """Choose a built-in reward that reads every answer: of numbers, or boxed ones."""
    for reward in ("integer", "gsm8k"):
        if _reads(reward, prompts):
            return reward
    several = all(isinstance(prompt.record["answer"], list) for prompt in prompts)
    if several and _reads("contains", prompts):
        return "contains"
    answers = [str(prompt.record["answer"]) for prompt in prompts]
    if all(BOX in answer for answer in answers):
        return "math"
    raise InputError(
        f"{column} = {shown(max(answers, key=len))}: no number, alone, after #### or in "
        f"{BOX}}}: name the reward by --reward: contains (the answer among other words), "
        "exact, math (LaTeX), or module:function"
    )


def _read_prompts(name: str, root: Path, wanted: Wanted) -> _Read:
    """Read a local file of prompts."""
    path = local_path(name, root)
    if path.is_dir() if path else is_hub_name(name):
        return _Read(Fields(**wanted.fields), reward=wanted.reward or "exact")
    _, rows = open_rows(Prompts(source=name), root)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{name}: has no prompts; give one JSON object per line")
    answered = wanted.reward is None or reads_answer(wanted.reward)
    fields = _find_fields(first, wanted.fields, answered=answered)
    chat = is_chat(column_value(first.values, fields.problem))
    config = Prompts(source=name, fields=fields, template="none", chat=chat)
    prompts = load_prompts(config, root, answered=answered)
    if wanted.reward is None:
        return _Read(fields, prompts, _choose_reward(prompts, fields.answer))
    try_reward(load_reward(wanted.reward), prompts)
    return _Read(fields, prompts, wanted.reward)


def _find_model(name: str, root: Path) -> Location:
    """Find a checkpoint's folder, or take its name for one of the Hub's, without asking."""
    model = find_location("MODEL", name, None, root)
    if model.folder is None and not is_hub_name(name):
        raise model.refuse("no such folder", "give a checkpoint")
    if model.folder is not None and not model.has("config.json"):
        raise model.refuse("no config.json in it", "give a checkpoint")
    return model


def _settings(model: Location, file: str) -> dict[str, Any]:
    path = model.find(file)
    return {} if path is None else parse_json(read_text(path), str(path))


def _choose_chat(model: Location, read: _Read, wanted: bool | None) -> bool:
    """Use the chat template if there is one, and the prompts do not hold it already."""
    if read.chats:
        if wanted is False:
            raise InputError("--no-chat: the prompts are chats; leave it out")
        return True
    has_key = "chat_template" in _settings(model, "tokenizer_config.json")
    has_one = has_key or model.find("chat_template.jinja") is not None
    if wanted and not has_one and model.find("tokenizer_config.json"):
        raise InputError(f"--chat: the tokenizer of {model.name} has no chat template")
    marked = any(find_mark(prompt) for prompt in read.prompts)
    return (has_one and not marked) if wanted is None else wanted


def _most_tokens(model: Location, wanted: int) -> int:
    """Take as many tokens as wanted, but at most half of the model's context."""
    settings = _settings(model, "config.json")
    text = settings.get("text_config")
    places = [settings, text if isinstance(text, dict) else {}]
    sizes = [place.get(name) for place in places for name in CONTEXTS]
    halves = [size // 2 for size in sizes if isinstance(size, int) and size > 1]
    return min([wanted, *halves])


def _yaml(**entry: Any) -> str:
    style = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False}
    return str(yaml.safe_dump(entry, width=10**6, **style).strip()[1:-1])


def _from_folder(folder: Path, name: str) -> str:
    """Make an existing relative path relative to the new probe's folder."""
    relative = Path(name).exists() and not Path(name).is_absolute()
    return os.path.relpath(name, folder) if relative else name


def _fill_in(
    model: Location, prompts: str, out: Path, read: _Read, root: Path, wanted: Wanted
) -> str:
    chat = _choose_chat(model, read, wanted.chat)
    has_steps = read.reward in ("gsm8k", "math")
    template = wanted.template or (
        "word-problem" if read.reward == "gsm8k" and not read.chats else "none"
    )
    if template not in TEMPLATES:
        load_template(template, root)  # Refused if it is none.
        template = _from_folder(out.parent, template)
    return Template(read_text(TEXT)).substitute(
        file=out,
        reward=_yaml(reward=read.reward),
        source=_yaml(source=_from_folder(out.parent, prompts)),
        fields=_yaml(fields=read.fields.model_dump()),
        template=_yaml(template=template),
        chat=_yaml(chat=chat),
        max_new_tokens=wanted.max_tokens
        or _most_tokens(model, LONG if chat or has_steps else SHORT),
        path=_yaml(path=_from_folder(out.parent, model.name)),
    )


def _describe(out: Path, model: Location, read: _Read, root: Path) -> str:
    lines = ["prompts not read: set subset, split, fields and reward in the file"]
    probe = load_probe(out)
    if read.prompts:
        prompts, count = read_prompts(
            probe.prompts, root, answered=reads_answer(probe.reward)
        )
        fields, what = read.fields, "as the model gets it"
        if probe.prompts.chat:
            what = "as the user's turn of a chat (advise shows all of it)"
        reward, text = load_reward(probe.reward, chat=probe.prompts.chat), prompts[0].text
        of = "" if count == len(prompts) else f" of {count:,}, at random by the seed"
        answers = f"answers in {fields.answer}" if read.answered else "no answers"
        lines = [
            f"prompts: {len(prompts):,}{of}, problems in {fields.problem}, {answers}, "
            f"reward {read.reward}",
            *describe_first(prompts, reward, text, what, chat=probe.prompts.chat),
        ]
    if not any(map(model.find, TOKENIZERS)):
        chat = "true" if probe.prompts.chat else "false"
        lines.append(
            f"warning: no tokenizer of {model.name} was seen, so whether it has a chat "
            f"template is not known: prompts.chat = {chat}"
        )
    next_ones = {"advise": "which group size to set", "run": "all errors"}
    typed = {f"{COMMAND_PREFIX} {name} {out}": what for name, what in next_ones.items()}
    width = max(map(len, typed)) + 4
    said = "\n      ".join(f"{line:<{width}}{what}" for line, what in typed.items())
    return "\n".join([f"{out} written", *lines, f"next: {said}"])


def _create(path: Path, text: str) -> None:
    """Create a file; one that is there, or a link of its name, is not touched."""
    with writing(path):
        try:
            file = path.open("x", encoding="utf-8", newline="\n")
        except FileExistsError:
            raise InputError(f"{path}: exists; name another file by --out") from None
        with file:
            file.write(text)


def write_new(
    model: str, prompts: str, out: Path | None, root: Path, wanted: Wanted = NOTHING_ASKED
) -> str:
    """Write a probe; return a description and the next commands.

    By default its file is the model's name and `.yaml`, in the working folder. A probe that
    could not be measured is not left there.
    """
    location = _find_model(model, root)
    out = out or Path(f"{Path(model).absolute().name}.yaml")
    read = _read_prompts(prompts, root, wanted)
    _create(out, _fill_in(location, prompts, out, read, root, wanted))
    try:
        return _describe(out, location, read, root)
    except BaseException:
        out.unlink()
        raise
