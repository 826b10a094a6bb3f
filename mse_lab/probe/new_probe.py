"""Write a new probe: a commented YAML about a model and a prompt set of the user's.

What the files tell without a model is filled in: the columns of the prompts, a reward that
can read their answers, and whether the tokenizer has a chat template.
"""

import os
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import yaml

from mse_lab.console import TYPED, writing
from mse_lab.errors import InputError, shorten
from mse_lab.probe.plain_text import local_path, parse_json, read_text
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import REWARDS, try_reward
from mse_lab.probe.schema import Fields, Prompts
from mse_lab.probe.sources import Source, is_hub_name, read_rows

TEXT = Path(__file__).with_name("new_probe.yaml")

# What else the columns of prompt sets are called.
COLUMNS = {
    "problem": ("problem", "question", "prompt", "input", "instruction", "query"),
    "answer": ("answer", "solution", "target", "label", "output", "ground_truth"),
}

# Prompts of a first measurement; tokens of an answer that is a chat's or has steps, or not.
FIRST, LONG, SHORT = 100, 256, 16


class Found(NamedTuple):
    """What the prompts are like, as far as it was looked at."""

    fields: Fields = Fields()
    prompts: int | None = None
    reward: str = "exact"


def _columns(row: dict[str, Any], where: str) -> Fields:
    found = {}
    for name, called in COLUMNS.items():
        known = [column for column in called if column in row]
        if not known:
            raise InputError(
                f"{where}: no column is called {' or '.join(called)}, but "
                f"{shorten(', '.join(row))}; rename the one that holds the {name}"
            )
        found[name] = known[0]
    return Fields(**found)


def _look_at_prompts(name: str, root: Path) -> Found:
    """Read a local file of prompts; sets of the Hub and folders may have to be fetched."""
    path = local_path(name, root)
    if path.is_dir() if path else is_hub_name(name):
        return Found()
    _, rows = read_rows(Source("prompts", name, None, None, None), root, "test")
    first = next(rows, None)
    if first is None:
        raise InputError(f"{name}: holds no prompt; give one JSON object a line")
    fields = _columns(first.values, first.where)
    prompts = load_prompts(Prompts(source=name, fields=fields), root)
    for reward in ("integer", "gsm8k"):
        try:
            try_reward(REWARDS[reward], prompts)
        except InputError:
            continue
        return Found(fields, len(prompts), reward)
    return Found(fields, len(prompts))


def _file_of_model(name: str, file: str, root: Path) -> Path | None:
    """Find a file of a checkpoint, in its folder or in the Hub's cache, without asking."""
    if folder := local_path(name, root):
        path = folder / file
        return path if path.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, file)
    return Path(cached) if isinstance(cached, str) else None


def _values(name: str, file: str, root: Path) -> dict[str, Any]:
    path = _file_of_model(name, file, root)
    return parse_json(read_text(path), str(path)) if path else {}


def _has_chat_template(model: str, root: Path) -> bool:
    files = ("chat_template.jinja", "chat_template.json")
    beside = any(_file_of_model(model, file, root) for file in files)
    return beside or "chat_template" in _values(model, "tokenizer_config.json", root)


def _refuse_model(model: str, root: Path) -> None:
    folder = local_path(model, root)
    if folder is None and not is_hub_name(model):
        raise InputError(f"MODEL = {shorten(model)}: no such folder; give a checkpoint")
    if folder is not None and not (folder / "config.json").is_file():
        raise InputError(f"MODEL = {model}: no config.json in it; give a checkpoint")


def _entry(key: str, value: Any, default: Any = ...) -> str:
    """Write a key and its value, behind a # where it is the default."""
    look = {"default_flow_style": True, "allow_unicode": True, "sort_keys": False}
    text = yaml.safe_dump({key: value}, width=10**6, **look).strip()
    return f"{'# ' * (value == default)}{text[1:-1]}"


def _seen_from(folder: Path, name: str) -> str:
    """Name a path as seen from the new probe's folder; leave what is no path here."""
    if Path(name).is_absolute() or not Path(name).exists():
        return name
    return os.path.relpath(name, folder)


def _fill_in(model: str, prompts: str, out: Path, found: Found, root: Path) -> str:
    """Write the text of a probe."""
    chat, steps = _has_chat_template(model, root), found.reward == "gsm8k"
    context = _values(model, "config.json", root).get("max_position_embeddings", 2 * LONG)
    few = found.prompts is not None and found.prompts <= FIRST
    tokens = min(LONG if chat or steps else SHORT, max(context // 2, 1))
    entries = {
        "reward": _entry("reward", found.reward),
        "source": _entry("source", _seen_from(out.parent, prompts)),
        "fields": _entry("fields", found.fields.model_dump(), Fields().model_dump()),
        "limit": _entry("limit", None if few else FIRST, None),
        "template": _entry("template", "word-problem" if steps else "none"),
        "chat": _entry("chat", chat),
        "max_new_tokens": _entry("max_new_tokens", tokens),
        "path": _entry("path", _seen_from(out.parent, model)),
    }
    return Template(read_text(TEXT)).substitute(entries, file=out)


def _say(out: Path, found: Found) -> str:
    said = "prompts not looked at: set subset, split, fields and reward in it"
    if found.prompts is not None:
        said = (
            f"{found.prompts} prompts: problems in {found.fields.problem}, answers in "
            f"{found.fields.answer}, reward {found.reward}"
        )
    return (
        f"{out} written\n{said}\n"
        f"next: {TYPED} plan {out}    what a run will take\n"
        f"      {TYPED} run {out}     the run"
    )


def write_new(model: str, prompts: str, out: Path | None, root: Path) -> str:
    """Write a probe; say what was found and what to type next.

    Args:
        model: A checkpoint's folder, or a Hub name.
        prompts: As `prompts.source`.
        out: The file; by default the model's name and `.yaml`, where one works.
        root: The project's folder.

    Raises:
        InputError: The model is not there, the prompts cannot be read, or the file is there
            already or cannot be written.
    """
    _refuse_model(model, root)
    out = out or Path(f"{Path(model).absolute().name}.yaml")
    found = _look_at_prompts(prompts, root)
    text = _fill_in(model, prompts, out, found, root)
    with writing(out):
        try:
            with out.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except FileExistsError:
            raise InputError(f"{out}: is there already; name another by --out") from None
    return _say(out, found)
