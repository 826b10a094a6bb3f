"""Prompts: problems with their reference answers, and the text a model is shown.

The two templates are those of arXiv 2603.01162, appendix C: `plain` for the base and
instruct models, `few-shot` for in-context learning.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mse_lab.config import InputError, Prompts, local_path, nearest

PLAIN = "Solve the arithmetic problem. Return ONLY the final integer.\n{problem}"

FEW_SHOT = """\
You are a calculator. Solve the arithmetic problem and return ONLY the final integer.

Examples:
Problem: 15 + 25 =
Answer: 40
Problem: 20 + 30 - 15 =
Answer: 35
Problem: 3 * 4 =
Answer: 12
Problem: 24 / 6 =
Answer: 4
Problem: 25 - (10 + 5) =
Answer: 10

Now solve:
Problem: {problem}"""

TEMPLATES = {"plain": PLAIN, "few-shot": FEW_SHOT, "none": "{problem}"}


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes:
        id: Unique in its set; names the prompt's random streams and its row in tables.
        text: What the model is shown, before any chat template.
        category: From the prompt set, or empty.
        record: The whole line of the prompt set, as a reward sees it.
    """

    id: str
    text: str
    category: str
    record: Mapping[str, Any]


def load_template(name: str, root: Path) -> str:
    """Look up a template by name, or read it from a text file.

    Raises:
        InputError: No such template, or it has no `{problem}`.
    """
    if name in TEMPLATES:
        return TEMPLATES[name]
    path = local_path(name, root)
    if path is None or not path.is_file():
        hint = nearest(name, list(TEMPLATES))
        raise InputError(
            f"prompts.template = {name}: neither a template nor a file; {hint}"
        )
    template = path.read_text(encoding="utf-8")
    if "{problem}" not in template:
        raise InputError(f"prompts.template = {name}: the text has no {{problem}}; add it")
    return template


def _parse_line(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not valid JSON ({error.msg}); mend the line") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: not a JSON object; give id, problem and answer")
    for key in ("id", "problem", "answer"):
        if str(record.get(key, "")).strip() == "" or record[key] is None:
            raise InputError(f"{where}: {key} is missing or empty; fill it in")
    return record


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a prompt set.

    Args:
        path: JSONL; a line holds at least `id`, `problem` and `answer`.

    Returns:
        The lines in file order, ids as texts.

    Raises:
        InputError: A line is broken, an id stands twice, or the file has no line.
    """
    records: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        record = _parse_line(line, where)
        record["id"] = str(record["id"])
        if record["id"] in records:
            raise InputError(
                f"{where}: id {record['id']} stands twice; make the ids unique"
            )
        records[record["id"]] = record
    if not records:
        raise InputError(f"{path}: holds no prompt; give one JSON object a line")
    return list(records.values())


def load_prompts(config: Prompts, root: Path) -> list[Prompt]:
    """Read the prompts of a probe and set them in their template.

    Args:
        config: The probe's `prompts` section.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        The prompts in file order, at most `config.limit`.

    Raises:
        InputError: The source or the template cannot be used.
    """
    template = load_template(config.template, root)
    path = local_path(config.source, root)
    if path is None or not path.is_file():
        raise InputError(f"prompts.source = {config.source}: no such file; give a JSONL")
    return [
        Prompt(
            id=record["id"],
            # Not str.format: a problem or a template may hold other braces.
            text=template.replace("{problem}", str(record["problem"])),
            category=str(record.get("category") or ""),
            record=record,
        )
        for record in read_records(path)[: config.limit]
    ]
