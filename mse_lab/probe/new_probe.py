"""Write a new probe: a commented YAML file for a user's model and prompt set.

It names the columns of the prompts and a reward that can read their answers, and says
whether the tokenizer has a chat template. No model is loaded.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from mse_lab.console import writing
from mse_lab.errors import InputError, shorten
from mse_lab.probe.first_prompt import describe_first
from mse_lab.probe.plain_text import local_path, parse_json, read_text
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import Prompt, is_chat, load_prompts
from mse_lab.probe.rewards import REWARDS, load_reward, try_reward
from mse_lab.probe.schema import Fields, Prompts
from mse_lab.probe.sources import Source, is_hub_name, read_rows

TEXT = Path(__file__).with_name("new_probe.yaml")

# Usual names of the columns of prompt sets.
COLUMNS = {
    "problem": ("problem", "question", "prompt", "input", "instruction", "query"),
    "answer": ("answer", "solution", "target", "label", "output", "ground_truth"),
}

# A configuration's names of the tokens that a model can read.
CONTEXTS = ("max_position_embeddings", "n_positions")

# Tokens of an answer that is part of a chat or has steps, and of any other.
LONG, SHORT = 256, 16


class PromptSummary(NamedTuple):
    """The prompts: names of their fields, themselves (none if not read), and a reward."""

    fields: Fields = Fields()
    prompts: Sequence[Prompt] = ()
    reward: str = "exact"


def _summarise_prompts(name: str, root: Path, named: Mapping[str, str]) -> PromptSummary:
    """Read a local file of prompts; `named` has the columns that the user names."""
    path = local_path(name, root)
    if path.is_dir() if path else is_hub_name(name):
        return PromptSummary(Fields(**named))
    _, rows = read_rows(Source("prompts", name, None, None, None), root, "test")
    first = next(rows, None)
    if first is None:
        raise InputError(f"{name}: has no prompts; give one JSON object per line")
    columns = {}
    for field, usual in COLUMNS.items():
        names = [named[field]] if field in named else usual
        if not (present := [name for name in names if name in first.values]):
            raise InputError(
                f"{first.where}: no column is called {' or '.join(names)}, but "
                f"{shorten(', '.join(first.values))}; name the {field}'s by --{field}"
            )
        columns[field] = present[0]
    fields = Fields(**columns)
    chat = is_chat(first.values[fields.problem])
    config = Prompts(source=name, fields=fields, template="none", chat=chat)
    prompts = load_prompts(config, root)
    for reward in ("integer", "gsm8k"):
        with suppress(InputError):
            try_reward(REWARDS[reward], prompts)
            return PromptSummary(fields, prompts, reward)
    return PromptSummary(fields, prompts)


def _find(model: str, file: str, root: Path) -> Path | None:
    """Find a file of a checkpoint on this machine, or None."""
    if folder := local_path(model, root):
        return folder / file if (folder / file).is_file() else None
    from mse_lab.probe.hub import Repository  # Late: only names of the Hub need it.

    return Repository("MODEL", model).cached(file)


def _has_chat_template(model: str, root: Path) -> bool:
    settings = _find(model, "tokenizer_config.json", root)
    has_key = settings is not None and "chat_template" in parse_json(
        read_text(settings), str(settings)
    )
    return has_key or _find(model, "chat_template.jinja", root) is not None


def _most_tokens(model: str, wanted: int, root: Path) -> int:
    """Take as many tokens as wanted, but at most half of the model's context."""
    file = _find(model, "config.json", root)
    settings = {} if file is None else parse_json(read_text(file), str(file))
    text = settings.get("text_config")
    places = [settings, text if isinstance(text, dict) else {}]
    sizes = [place.get(name) for place in places for name in CONTEXTS]
    halves = [size // 2 for size in sizes if isinstance(size, int) and size > 1]
    return min([wanted, *halves])


def _refuse_model(model: str, root: Path) -> None:
    folder = local_path(model, root)
    if folder is None and not is_hub_name(model):
        raise InputError(f"MODEL = {shorten(model)}: no such folder; give a checkpoint")
    if folder is not None and not (folder / "config.json").is_file():
        raise InputError(f"MODEL = {model}: no config.json in it; give a checkpoint")


def _yaml(**entry: Any) -> str:
    style = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False}
    return str(yaml.safe_dump(entry, width=10**6, **style).strip()[1:-1])


def _from_folder(folder: Path, name: str) -> str:
    """Make an existing relative path relative to the new probe's folder."""
    relative = Path(name).exists() and not Path(name).is_absolute()
    return os.path.relpath(name, folder) if relative else name


def _fill_in(
    model: str, prompts: str, out: Path, summary: PromptSummary, root: Path
) -> str:
    chats = any(is_chat(prompt.record["problem"]) for prompt in summary.prompts)
    chat = chats or _has_chat_template(model, root)
    has_steps = summary.reward == "gsm8k"
    return Template(read_text(TEXT)).substitute(
        file=out,
        reward=_yaml(reward=summary.reward),
        source=_yaml(source=_from_folder(out.parent, prompts)),
        fields=_yaml(fields=summary.fields.model_dump()),
        template=_yaml(template="word-problem" if has_steps and not chats else "none"),
        chat=_yaml(chat=chat),
        max_new_tokens=_most_tokens(model, LONG if chat or has_steps else SHORT, root),
        path=_yaml(path=_from_folder(out.parent, model)),
    )


def _describe(out: Path, summary: PromptSummary, root: Path) -> str:
    lines = ["prompts not read: set subset, split, fields and reward in the file"]
    if summary.prompts:
        probe = load_probe(out)
        prompts = load_prompts(probe.prompts, root)
        fields, what = summary.fields, "as the model gets it"
        if probe.prompts.chat:
            what = "as the user's turn of a chat (plan shows all of it)"
        lines = [
            f"{len(summary.prompts)} prompts: problems in {fields.problem}, answers in "
            f"{fields.answer}, reward {summary.reward}",
            *describe_first(prompts, load_reward(probe.reward), prompts[0].text, what),
        ]
    return "\n".join(
        [
            f"{out} written",
            *lines,
            f"next: mse-lab advise {out}    which group size: measured until it is known",
            f"      mse-lab run {out}       the errors of all estimators",
            f"      mse-lab plan {out}      how long that run will take",
        ]
    )


def write_new(
    model: str,
    prompts: str,
    out: Path | None,
    root: Path,
    named: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write a probe; return a description and the next commands.

    By default its file is the model's name and `.yaml`, in the working folder. The columns
    of the `problem` and the `answer` may be named.
    """
    _refuse_model(model, root)
    out = out or Path(f"{Path(model).absolute().name}.yaml")
    summary = _summarise_prompts(prompts, root, named)
    text = _fill_in(model, prompts, out, summary, root)
    with writing(out):
        try:
            with out.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except FileExistsError:
            raise InputError(f"{out}: exists; name another file by --out") from None
    return _describe(out, summary, root)
