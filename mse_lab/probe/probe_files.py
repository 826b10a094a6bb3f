"""The files of probes: find one, read it, carry out `--set`, validate, write it down."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from mse_lab.console import TYPED
from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.probe.plain_text import (
    fault_of_text,
    parse_yaml,
    read_text,
    reading,
)
from mse_lab.probe.prompt_templates import TEMPLATES
from mse_lab.probe.schema import Probe
from mse_lab.probe.sources import is_one_file

SUFFIXES = (".yaml", ".yml")

# The folder below `probes/` whose files say how probes are trained (`study.py`).
STUDIES = "studies"

Sections = TypeVar("Sections", bound=BaseModel)

# Where a probe may name a file or folder.
_PATHS = (
    ("model", "path"),
    ("model", "adapter"),
    ("prompts", "source"),
    ("prompts", "template"),
    ("prompts", "shots", "source"),
    ("completions",),
)


def _folders(root: Path) -> tuple[Path, Path]:
    """Give the folders of probes: that of the working folder, and the project's."""
    return Path("probes"), root / "probes"


def _is_probe(path: Path) -> bool:
    """Whether a YAML file that may be about anything is a probe."""
    try:
        values = parse_yaml(read_text(path), str(path)) if path.is_file() else None
    except InputError:
        return False
    return isinstance(values, dict) and {"model", "prompts"} <= values.keys()


def probe_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of every probe: those where one works, then the project's.

    They are all below `probes/`, and those in the working folder itself; of two with one
    name the first counts. Each part is in order of the names.
    """
    mine, projects = _folders(root)
    parts = (
        (mine, mine.rglob("*.yaml")),
        (Path(), filter(_is_probe, Path().glob("*.yaml"))),
        (projects, projects.rglob("*.yaml")),
    )
    found: dict[str, Path] = {}
    for folder, paths in parts:
        for path in sorted(paths):
            name = path.relative_to(folder).with_suffix("").as_posix()
            if not name.startswith(f"{STUDIES}/"):
                found.setdefault(name, path)
    yield from found.items()


def probe_file(name: str, root: Path) -> Path:
    """Find a probe: `*.yaml` is a path, `tiny/base` is `probes/tiny/base.yaml`.

    A bare name is looked for in `probes/`, in the working folder itself, and in `probes/`
    of the project.
    """
    mine, projects = _folders(root)
    places = [folder / f"{name}.yaml" for folder in (mine, Path(), projects)]
    for path in [Path(name)] if name.endswith(SUFFIXES) else places:
        with reading(path):
            if "\0" not in name and path.is_file():
                return path
    known = [known_name for known_name, _ in probe_files(root)]
    remedy = nearest(name, known) if known else f"write one: {TYPED} init MODEL PROMPTS"
    raise InputError(f"no probe {shorten(name)}; {remedy}")


def probe_name(path: Path, root: Path) -> str:
    """Name the results folder: the path below `probes/`, else the file's own name."""
    resolved, name = path.resolve(), path.stem
    for folder in (one.resolve() for one in _folders(root)):
        if resolved.is_relative_to(folder):
            name = resolved.relative_to(folder).with_suffix("").as_posix()
            break
    fault = "names no folder; rename it" if {".", ".."} & {*name.split("/")} else ""
    if fault := fault or fault_of_text(name):
        raise InputError(f"{path}: the file's name {fault}")
    return name


def _keys_below(kind: Any, *path: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield of the sections among the alternatives of a type their places and keys."""
    for part in get_args(kind):
        yield from _keys_below(part, *path)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield path, list(kind.model_fields)
        for name, field in kind.model_fields.items():
            yield from _keys_below(field.annotation, *path, name)


def _one_line(error: ValidationError, kind: type[BaseModel], source: str) -> InputError:
    """Turn the first complaint of pydantic into the one line a user reads."""
    first, keys = error.errors(include_url=False)[0], dict(_keys_below(kind))
    names = {name for known in keys.values() for name in known}
    *above, last = first["loc"] or [""]
    # Beside keys and places in lists pydantic names the alternatives of a type.
    path = [part for part in above if part in names or isinstance(part, int)]
    if first["type"] == "extra_forbidden":
        key = ".".join(map(str, [*path, shorten(str(last))]))
        hint = nearest(str(last), keys[tuple(map(str, path))])
        return InputError(f"{source}: unknown key {key}; {hint}")
    if last in names or isinstance(last, int):
        path.append(last)
    key = ".".join(map(str, path))
    if first["type"] == "missing":
        return InputError(f"{source}: {key} is missing; add it")
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    what = f"{key} = {shown(first['input'])}: " if key else ""
    return InputError(f"{source}: {what}{message}")


def parse_as(kind: type[Sections], values: Any, source: str, example: str) -> Sections:
    """Validate what a YAML holds, and fill in every default; its name is for messages."""
    if not isinstance(values, Mapping):
        raise InputError(f"{source}: not a mapping of keys to values; see {example}")
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise _one_line(error, kind, source) from None


def parse_probe(values: Any, source: str) -> Probe:
    """Validate a probe, and fill in every default; the source's name is for messages."""
    return parse_as(Probe, values, source, "probes/tiny/base.yaml")


def assign(values: dict[str, Any], assignment: str) -> None:
    """Carry out one `--set dotted.key=value`; the value is YAML."""
    key, equals, text = assignment.partition("=")
    where = f"--set {shorten(assignment)}"
    if not equals:
        raise InputError(f"{where}: not KEY=VALUE; write pool.replicate=128, say")
    *sections, last = key.strip().split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise InputError(f"{where}: {section} holds no keys; set it whole")
    values[last] = parse_yaml(text, where)


def _section(values: Any, *keys: str) -> dict[str, Any]:
    """Give a section of what a YAML holds; an empty one where there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _start_beside(path: Path, values: Any) -> None:
    """Let what a probe's relative paths lead to from its own folder be found there."""
    folder, here = path.parent.absolute(), Path.cwd()
    for *sections, key in [] if folder == here else _PATHS:
        section = _section(values, *sections)
        name = section.get(key)
        if isinstance(name, str) and name not in TEMPLATES:
            with reading(folder / name):
                there = not Path(name).is_absolute() and (folder / name).exists()
            if there:
                inside = folder.is_relative_to(here)
                start = folder.relative_to(here) if inside else folder
                section[key] = str(start / name)


def _forget_old_source(values: Any, assignments: Sequence[str]) -> None:
    """Drop what said where in the old source the rows are, where a new one is set."""
    for section in (("prompts",), ("prompts", "shots")):
        for assignment in assignments:
            key, _, name = assignment.partition("=")
            if key.strip() == ".".join((*section, "source")):
                for part in ("revision", *(("subset", "split") * is_one_file(name))):
                    _section(values, *section).pop(part, None)


def load_probe(path: Path, assignments: Sequence[str] = ()) -> Probe:
    """Read a probe's YAML and carry out the `--set` assignments, `dotted.key=value`.

    A relative path in the YAML starts from its folder where that leads to something, one
    in an assignment does not. An assigned source is another one: the revision of the old,
    and for a single file its subset and split, go with it unless they are assigned, too.
    """
    values = parse_yaml(read_text(path), str(path))
    if isinstance(values, dict):
        _start_beside(path, values)
        _forget_old_source(values, assignments)
        for assignment in assignments:
            assign(values, assignment)
    return parse_probe(values, str(path))


def dump_probe(probe: Probe) -> str:
    """Write the resolved configuration as YAML; reading it back gives the same probe."""
    return yaml.safe_dump(
        probe.model_dump(mode="json"), sort_keys=False, allow_unicode=True
    )


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give a nested mapping dotted keys.

    >>> flatten({"pool": {"reference": 8}, "seed": 0})
    {'pool.reference': 8, 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
