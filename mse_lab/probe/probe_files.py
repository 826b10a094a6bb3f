"""The files of probes: find one, read it, carry out `--set`, validate, write it down."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.probe.plain_text import (
    fault_of_text,
    parse_yaml,
    read_text,
    reading,
    refuse_unusable,
)
from mse_lab.probe.schema import Probe


def probe_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of every probe below `probes/`, in order of the names."""
    folder = root / "probes"
    for path in sorted(folder.rglob("*.yaml")):
        yield path.relative_to(folder).with_suffix("").as_posix(), path


def probe_file(name: str, root: Path) -> Path:
    """Find a probe: `tiny/base` is `probes/tiny/base.yaml`; `*.yaml` is a path."""
    is_path = name.endswith((".yaml", ".yml"))
    path = Path(name) if is_path else root / "probes" / f"{name}.yaml"
    with reading(path):
        found = "\0" not in name and path.is_file()
    if not found:
        known = [known_name for known_name, _ in probe_files(root)]
        raise InputError(f"no probe {shorten(name)}; {nearest(name, known)}")
    return path


def probe_name(path: Path, root: Path) -> str:
    """Name the results folder: the path below `probes/`, else the file's own name."""
    folder = (root / "probes").resolve()
    resolved, name = path.resolve(), path.stem
    if resolved.is_relative_to(folder):
        name = resolved.relative_to(folder).with_suffix("").as_posix()
    if fault := fault_of_text(name):
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


_KEYS = dict(_keys_below(Probe))
_NAMES = {name for keys in _KEYS.values() for name in keys}


def _one_line(error: ValidationError, source: str) -> InputError:
    """Turn the first complaint of pydantic into the one line a user reads."""
    first = error.errors(include_url=False)[0]
    *above, last = first["loc"] or [""]
    # Beside keys and places in lists pydantic names the alternatives of a type.
    path = [part for part in above if part in _NAMES or isinstance(part, int)]
    if first["type"] == "extra_forbidden":
        key = ".".join(map(str, [*path, shorten(str(last))]))
        hint = nearest(str(last), _KEYS[tuple(map(str, path))])
        return InputError(f"{source}: unknown key {key}; {hint}")
    if last in _NAMES or isinstance(last, int):
        path.append(last)
    key = ".".join(map(str, path))
    if first["type"] == "missing":
        return InputError(f"{source}: {key} is missing; add it")
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    what = f"{key} = {shown(first['input'])}: " if key else ""
    return InputError(f"{source}: {what}{message}")


def parse_probe(values: Any, source: str) -> Probe:
    """Validate what a YAML holds, and fill in every default; its name is for messages."""
    if not isinstance(values, Mapping):
        raise InputError(
            f"{source}: not a mapping of keys to values; see probes/tiny/base.yaml"
        )
    refuse_unusable(values, source)
    try:
        return Probe.model_validate(dict(values))
    except ValidationError as error:
        raise _one_line(error, source) from None


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


def load_probe(path: Path, assignments: Sequence[str] = ()) -> Probe:
    """Read a probe's YAML and carry out the `--set` assignments, `dotted.key=value`."""
    values = parse_yaml(read_text(path), str(path))
    if isinstance(values, dict):
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
