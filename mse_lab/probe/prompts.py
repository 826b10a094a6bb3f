"""Prompts: problems with their reference answers, and the text a model is shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, shorten, shown
from mse_lab.probe.plain_text import fault_of_text
from mse_lab.probe.schema import Fields, Prompts
from mse_lab.probe.sources import Row, Source, read_rows
from mse_lab.probe.templates import load_template

Record = dict[str, Any]

# Characters of an id or a category.
LONGEST_NAME = 500


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes:
        id: Unique in its set; names the prompt's random streams and its row in tables.
        text: What the model is shown, before any chat template.
        category: From the prompt set, or empty.
        record: The whole row of the prompt set, as a reward sees it, and in it `id`,
            `problem`, `answer` and `category` by these names.
    """

    id: str
    text: str
    category: str
    record: Mapping[str, Any]


def _blank(value: Any) -> bool:
    return value is None or str(value).strip() == ""


def _take(row: Row, name: str, fields: Fields) -> Any:
    """Take a field that must be there."""
    field = getattr(fields, name)
    value = row.values.get(field)
    if _blank(value):
        remedy = "fill it in"
        if field not in row.values:
            there = shorten(", ".join(row.values), 500) or "nothing"
            remedy += f", or set prompts.fields.{name} to one of {there}"
        raise InputError(f"{row.where}: {field} is missing or empty; {remedy}")
    return value


def _make_record(row: Row, fields: Fields, identity: str) -> Record:
    """Add our names to a row. Where it has one of them for something else, ours wins."""
    record = row.values | {
        "id": identity,
        "problem": _take(row, "problem", fields),
        "answer": _take(row, "answer", fields),
    }
    if fields.category in row.values:
        record["category"] = row.values[fields.category]
    elif fields.category != "category":
        there = shorten(", ".join(row.values), 500)
        raise InputError(
            f"{row.where}: has no {fields.category}; set prompts.fields.category to one of "
            f"{there}"
        )
    return record


def _category(record: Record) -> str:
    category = record.get("category")
    return "" if category is None else str(category)


def _refuse_unwritable(where: str, name: str, text: str) -> None:
    """See that an id or a category can stand in a line of a table."""
    fault = fault_of_text(text)
    if len(text) > LONGEST_NAME:
        fault = f"is longer than {LONGEST_NAME} characters; shorten it"
    if fault:
        raise InputError(f"{where}: {name} {shown(text)} {fault}")


def _make_records(rows: Iterator[Row], fields: Fields, name: str) -> Iterator[Record]:
    """Turn rows into records, with ids made from the row numbers where there are none."""
    numbered = False
    for row in rows:
        if row.number == 0:
            numbered = fields.id == "id" and "id" not in row.values
        if not numbered:
            identity = str(_take(row, "id", fields))
        elif "id" in row.values:
            raise InputError(
                f"{row.where}: has an id and the first has none; give one to all or to none"
            )
        else:
            identity = f"{name}-{row.number:04d}"
        record = _make_record(row, fields, identity)
        _refuse_unwritable(row.where, "id", identity)
        _refuse_unwritable(row.where, "category", _category(record))
        yield record


def read_records(config: Prompts, root: Path) -> list[Record]:
    """Read the prompt set of a probe.

    Args:
        config: The probe's `prompts` section.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        The rows in their order, at most `config.limit`, with our names for their fields.
        Ids are texts; where the source has none, `<name>-0012` from the row number, counted
        from 0, which `limit` does not change.

    Raises:
        InputError: The source cannot be read, a row is broken, an id stands twice, or
            there is no row.
    """
    source = Source("prompts", config.source, config.subset, config.split, config.revision)
    name, rows = read_rows(source, root, default_split="test")
    records: dict[str, Record] = {}
    taken = list(islice(rows, config.limit))
    for row, record in zip(
        taken, _make_records(iter(taken), config.fields, name), strict=True
    ):
        if record["id"] in records:
            raise InputError(
                f"{row.where}: id {shorten(record['id'])} stands twice; make the ids unique"
            )
        records[record["id"]] = record
    if not records:
        raise InputError(
            f"{config.source}: holds no prompt; give one JSON object a line, or a data set "
            "with rows"
        )
    return list(records.values())


def _shots_source(config: Prompts) -> Source:
    """Resolve where demonstrations come from: what is not said is as for the prompts."""
    shots = config.shots
    if shots.source is not None:
        said = (shots.source, shots.subset, shots.split, shots.revision)
    else:
        said = (
            config.source,
            shots.subset or config.subset,
            shots.split,
            shots.revision or config.revision,
        )
    return Source("prompts.shots", *said)


def _as_compared(problem: Any) -> str:
    """Give what two wordings of one problem share: all but case and white space."""
    return " ".join(str(problem).casefold().split())


def read_shots(config: Prompts, records: list[Record], root: Path) -> list[Record]:
    """Choose the demonstrations of a probe.

    Args:
        config: The probe's `prompts` section.
        records: The measured prompts; none of them becomes a demonstration.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        The first `shots.count` rows of the source, in their order, whose problem is not
        measured and not shown yet, whatever its case and white space.

    Raises:
        InputError: The source cannot be read, or too few rows are left.
    """
    if not config.shots.count:
        return []
    source = _shots_source(config)
    _, rows = read_rows(source, root, default_split="train")
    taken = {_as_compared(record["problem"]) for record in records}
    shots: list[Record] = []
    for row in rows:
        problem = _take(row, "problem", config.fields)
        if _as_compared(problem) in taken:
            continue
        taken.add(_as_compared(problem))
        answer = _take(row, "answer", config.fields)
        shots.append(row.values | {"problem": problem, "answer": answer})
        if len(shots) == config.shots.count:
            return shots
    raise InputError(
        f"prompts.shots.count = {config.shots.count}: {source.name} has {len(shots)} rows "
        "that are not measured; lower prompts.limit, or set prompts.shots.source"
    )


def load_prompts(config: Prompts, root: Path) -> list[Prompt]:
    """Read the prompts of a probe and set them in their template.

    Args:
        config: The probe's `prompts` section.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        The prompts in the order of their source, at most `config.limit`.

    Raises:
        InputError: The source, the template or the demonstrations cannot be used.
    """
    template = load_template(config.template, root)
    if config.shots.count and not template.shot:
        raise InputError(
            f"prompts.shots.count = {config.shots.count}: the template {config.template} "
            "has no place for demonstrations; use word-problem, or add {shots} ... {/shots}"
        )
    records = read_records(config, root)
    shots = read_shots(config, records, root)
    return [
        Prompt(
            id=record["id"],
            text=template.render(str(record["problem"]), shots),
            category=_category(record),
            record=record,
        )
        for record in records
    ]
