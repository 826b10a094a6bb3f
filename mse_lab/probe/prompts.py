"""Prompts: problems with their reference answers, and the text a model is shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, shorten, shown
from mse_lab.probe.plain_text import fault_of_text, local_path, reading
from mse_lab.probe.prompt_templates import Template, load_template
from mse_lab.probe.schema import Fields, Prompts
from mse_lab.probe.sources import Row, Source, read_rows

Record = dict[str, Any]

# Characters of an id or a category.
LONGEST_NAME = 500


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes:
        id: Unique in its set; names the prompt's random streams and its row in tables.
        text: What the model is shown, before any chat template.
        record: The whole row of the prompt set, as a reward sees it, and in it `id`,
            `problem`, `answer` and `category` by these names.
    """

    id: str
    text: str
    category: str
    record: Mapping[str, Any]


def _choose(row: Row, name: str) -> str:
    there = shorten(", ".join(row.values), 500) or "nothing"
    return f"set prompts.fields.{name} to one of {there}"


def _take(row: Row, name: str, fields: Fields) -> Any:
    """Take a field that must be there."""
    field = getattr(fields, name)
    value = row.values.get(field)
    if value is None or not str(value).strip():
        remedy = "" if field in row.values else f", or {_choose(row, name)}"
        raise InputError(f"{row.where}: {field} is missing or empty; fill it in{remedy}")
    return value


def _category(record: Record) -> str:
    category = record.get("category")
    return "" if category is None else str(category)


def _make_record(row: Row, fields: Fields, identity: str, answered: bool) -> Record:
    """Add our names to a row. Where it has one of them for something else, ours wins."""
    record = row.values | {"id": identity, "problem": _take(row, "problem", fields)}
    if answered:
        record["answer"] = _take(row, "answer", fields)
    if fields.category in row.values:
        record["category"] = row.values[fields.category]
    elif fields.category != "category":
        remedy = _choose(row, "category")
        raise InputError(f"{row.where}: has no {fields.category}; {remedy}")
    for name, text in (("id", identity), ("category", _category(record))):
        # It is to stand in a line of a table.
        fault = fault_of_text(text)
        if len(text) > LONGEST_NAME:
            fault = f"is longer than {LONGEST_NAME} characters; shorten it"
        if fault:
            raise InputError(f"{row.where}: {name} {shown(text)} {fault}")
    return record


def _make_records(
    rows: Iterable[Row], fields: Fields, name: str, *, answered: bool = True
) -> Iterator[Record]:
    seen: set[str] = set()
    numbered = False
    for row in rows:
        if row.number == 0:
            numbered = fields.id == "id" and "id" not in row.values
        if numbered and "id" in row.values:
            raise InputError(
                f"{row.where}: has an id and the first has none; give one to all or to none"
            )
        identity = f"{name}-{row.number:04d}" if numbered else str(_take(row, "id", fields))
        record = _make_record(row, fields, identity, answered)
        if identity in seen:
            raise InputError(
                f"{row.where}: id {shorten(identity)} stands twice; make the ids unique"
            )
        seen.add(identity)
        yield record


def read_records(config: Prompts, root: Path) -> list[Record]:
    """Read the prompt set of a probe, in its order, with our names for the fields.

    Ids are texts; where the source has none, `<name>-0012` from the row number, counted
    from 0, which `limit` does not change.
    """
    source = Source("prompts", config.source, config.subset, config.split, config.revision)
    name, rows = read_rows(source, root, default_split="test")
    records = list(_make_records(islice(rows, config.limit), config.fields, name))
    if not records:
        raise InputError(
            f"{config.source}: holds no prompt; give one JSON object a line, or a data set "
            "with rows"
        )
    return records


def _split_beside(path: Path, split: str) -> Path:
    """Find the file of another split: its name begins with it, and it lies beside."""
    with reading(path.parent):
        beside = [one for one in path.parent.iterdir() if one.suffix == path.suffix]
    found = [one for one in beside if one.name.startswith(split)]
    if len(found) == 1:
        return found[0]
    there = f"{len(found)} files" if found else "no file"
    raise InputError(
        f"prompts.shots.split = {split}: {there} {split}*{path.suffix} beside {path}; "
        "set prompts.shots.source"
    )


def _shots_source(config: Prompts, root: Path) -> Source:
    """Say where demonstrations come from: what is not said is as for the prompts."""
    shots = config.shots
    subset, split, revision = shots.subset, shots.split, shots.revision
    name = shots.source or config.source
    if shots.source is None:
        subset, revision = subset or config.subset, revision or config.revision
        path = local_path(name, root)
        if split and path is not None and path.is_file():
            name, split = str(_split_beside(path, split)), None
    return Source("prompts.shots", name, subset, split, revision)


def _as_compared(problem: Any) -> str:
    """Give what two wordings of one problem share: all but case and white space."""
    return " ".join(str(problem).casefold().split())


def read_shots(config: Prompts, records: list[Record], root: Path) -> list[Record]:
    """Choose the demonstrations of a probe, none of which is measured.

    They are the first rows of their source whose problem is not among the `records` and
    not shown yet, whatever its case and white space.
    """
    source = _shots_source(config, root)
    _, rows = read_rows(source, root, default_split="train")
    taken = {_as_compared(record["problem"]) for record in records}
    shots: list[Record] = []
    for row in rows:
        problem = _take(row, "problem", config.fields)
        if _as_compared(problem) in taken:
            continue
        taken.add(_as_compared(problem))
        answer = _take(row, "answer", config.fields)
        shots.append({"problem": problem, "answer": answer})
        if len(shots) == config.shots.count:
            return shots
    raise InputError(
        f"prompts.shots.count = {config.shots.count}: {source.name} has {len(shots)} rows "
        "that are not measured; lower prompts.limit, or set prompts.shots.source"
    )


def load_prompts(config: Prompts, root: Path) -> list[Prompt]:
    """Read the prompts of a probe, in the order of their source, and fill their template.

    Relative paths start from the working folder, or else from the project's, `root`.
    """
    template = load_template(config.template, root)
    if config.shots.count and not template.shot:
        raise InputError(
            f"prompts.shots.count = {config.shots.count}: the template {config.template} "
            "has no place for demonstrations; use word-problem, or add {shots} ... {/shots}"
        )
    records = read_records(config, root)
    shots = read_shots(config, records, root) if config.shots.count else []
    return _render(records, template, shots)


def _render(
    records: Sequence[Record], template: Template, shots: Sequence[Record]
) -> list[Prompt]:
    texts = (template.render(str(record["problem"]), shots) for record in records)
    return [
        Prompt(record["id"], text, _category(record), record)
        for text, record in zip(texts, records, strict=True)
    ]


def take_prompts(given: Iterable[Any], template: str, *, answered: bool) -> list[Prompt]:
    """Make prompts of what is in memory: texts, or mappings with `problem`.

    Args:
        given: As the rows of a prompt set; a text is its problem.
        template: As in a probe.
        answered: Whether each must have its `answer`, which a reward of ours reads.
    """
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    rows = list(given) if several else []
    if not all(isinstance(row, str | Mapping) for row in rows) or not rows:
        raise InputError(
            f"prompts = {shown(given)}: give texts, mappings with problem and answer, or a "
            "data frame of them"
        )
    taken = [
        Row(f"prompts[{at}]", at, {"problem": row} if isinstance(row, str) else dict(row))
        for at, row in enumerate(rows)
    ]
    records = list(_make_records(taken, Fields(), "prompt", answered=answered))
    return _render(records, load_template(template, Path()), [])
