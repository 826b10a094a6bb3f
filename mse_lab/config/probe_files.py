"""The files of probes: find, read, change by `--set`, validate and write them.

So are the folders of checkpoints that a trainer saved: found by name alone, so that a wrong
one is refused before torch is loaded.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from mse_lab.config.prompt_templates import TEMPLATES
from mse_lab.config.schema import Probe
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.records.plain_text import fault_of_text, parse_yaml, read_text, reading

PROBE_SUFFIXES = (".yaml", ".yml")

# The files that a folder of a whole model, or of a LoRA adapter, has in transformers' form.
MODEL, ADAPTER = "config.json", "adapter_config.json"

STUDIES = "studies"  # The folder below `probes/` whose settings are not those of probes.

Sections = TypeVar("Sections", bound=BaseModel)

# Keys that may name a file or folder.
_PATHS = (
    ("model", "path"),
    ("model", "adapter"),
    ("prompts", "source"),
    ("prompts", "template"),
    ("completions",),
    ("training", "config"),
)


def _folders(root: Path) -> tuple[Path, Path]:
    """Return the folders of probes: that of the working folder, and the project's."""
    return Path("probes"), root / "probes"


def known_probes(root: Path) -> list[str]:
    """Name the probes that may be meant, those where one works and the project's."""
    here, project = _folders(root)
    files = [
        (folder, path) for folder in (here, project) for path in folder.rglob("*.yaml")
    ]
    files += [(Path(), path) for path in Path().glob("*.yaml")]
    names = {path.relative_to(top).with_suffix("").as_posix() for top, path in files}
    return sorted(name for name in names if not name.startswith((f"{STUDIES}/", ".")))


def probe_file(name: str, root: Path) -> Path:
    """Find a probe: `*.yaml` is a path, `tiny/base` is `probes/tiny/base.yaml`.

    A name is searched for in `probes/`, in the working folder itself, and in `probes/` of
    the project.
    """
    here, project = _folders(root)
    paths = [folder / f"{name}.yaml" for folder in (here, Path(), project)]
    for path in [Path(name)] if name.endswith(PROBE_SUFFIXES) else paths:
        with reading(path):
            if "\0" not in name and path.is_file():
                return path
    if "\0" not in name and (remedy := way_from_checkpoint(Path(name))):
        raise InputError(f"no probe {shorten(name)}; {remedy}")
    remedy = f"write one: {COMMAND_PREFIX} init MODEL PROMPTS"
    if names := known_probes(root):
        remedy = nearest(name, names)
    raise InputError(f"no probe {shorten(name)}; {remedy}")


def way_from_checkpoint(folder: Path) -> str:
    """Say how a checkpoint's folder is measured; empty for any other."""
    if not _is_checkpoint(folder):
        return ""
    return f"a checkpoint folder? write a probe: {COMMAND_PREFIX} init {folder} PROMPTS"


def _is_checkpoint(folder: Path) -> bool:
    with reading(folder):
        return any((folder / name).is_file() for name in (MODEL, ADAPTER))


def _step(path: Path) -> int:
    numbers = re.findall(r"\d+", path.name)
    if not numbers:
        what = "no step in its name; give folders such as checkpoint-10"
    elif not _is_checkpoint(path):
        what = f"neither {MODEL} nor {ADAPTER} in it; give what a trainer saved"
    else:
        return int(numbers[-1])
    raise InputError(f"--checkpoints {path}: {what}")


def find_checkpoints(patterns: Sequence[str]) -> dict[int, Path]:
    """Find folders by name or pattern; the step is the last number in a folder's name."""
    by_step: dict[int, Path] = {}
    for pattern in patterns:
        # A folder's name may look like a pattern.
        names = glob(pattern) or [pattern]  # noqa: PTH207
        folders = [path for path in map(Path, names) if path.is_dir()]
        if not folders:
            raise InputError(
                f"--checkpoints {pattern}: no such folder; give what a trainer saved, "
                "such as 'out/checkpoint-*'"
            )
        for path in folders:
            if by_step.setdefault(step := _step(path), path) != path:
                raise InputError(
                    f"--checkpoints: {by_step[step]} and {path} are both of step {step}; "
                    "give one of them"
                )
    return dict(sorted(by_step.items()))


def at_checkpoint(probe: Probe, path: Path) -> Probe:
    """Give the probe of a checkpoint: the same but for the model, or for its adapter."""
    changes = {"path": str(path), "revision": None}
    if (path / ADAPTER).is_file():
        changes = {"adapter": str(path), "adapter_revision": None}
    return probe.model_copy(update={"model": probe.model.model_copy(update=changes)})


def probe_name(path: Path, root: Path) -> str:
    """Name the results folder: the path below `probes/`, else the file's own name."""
    resolved, name = path.resolve(), path.stem
    for folder in (folder.resolve() for folder in _folders(root)):
        if resolved.is_relative_to(folder):
            name = resolved.relative_to(folder).with_suffix("").as_posix()
            break
    fault = fault_of_text(name)
    if {".", ".."} & {*name.split("/")}:
        fault = "names no folder; rename it"
    if fault:
        raise InputError(f"{path}: the file's name {fault}")
    return name


# Settings of engines that change the law of completions, but for some of their values.
LAW = ("top_p", "top_k", "min_p", "repetition_penalty")


def _keys_below(kind: Any, *path: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the path and the keys of every section in a type annotation."""
    for part in get_args(kind):
        yield from _keys_below(part, *path)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield path, list(kind.model_fields)
        for name, field in kind.model_fields.items():
            yield from _keys_below(field.annotation, *path, name)


def _one_line(error: ValidationError, kind: type[BaseModel], source: str) -> InputError:
    """Turn an error of pydantic into one line: an unknown key, else the first."""
    errors, keys = error.errors(include_url=False), dict(_keys_below(kind))
    # A misspelt key is also missing under its name.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    names = {name for section in keys.values() for name in section}
    *above, last = first["loc"] or [""]
    # pydantic also names the alternatives of a type.
    path = [part for part in above if part in names or isinstance(part, int)]
    if first["type"] == "extra_forbidden":
        key = ".".join(map(str, [*path, shorten(str(last))]))
        hint = nearest(str(last), keys[tuple(map(str, path))])
        if path == ["sampling"] and last in LAW:
            hint = "completions of another law than the policy's are not measured"
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
    """Validate the values of a YAML file and fill in the defaults.

    `source` is the file's name and `example` a valid file, both for messages.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{source}: not a mapping of keys to values; see {example}")
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise _one_line(error, kind, source) from None


def parse_probe(values: Any, source: str) -> Probe:
    """Validate a probe and fill in the defaults; `source` is its name, for messages."""
    return parse_as(Probe, values, source, "probes/tiny/base.yaml")


def put(values: dict[str, Any], name: str, value: Any, where: str) -> None:
    """Set a value by a dotted name in nested mappings."""
    *sections, last = name.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise InputError(f"{where}: {section} has no keys; set its value")
    values[last] = value


def assign(values: dict[str, Any], assignment: str) -> None:
    """Apply a `--set dotted.key=value`; the value is YAML."""
    key, equals, text = assignment.partition("=")
    where = f"--set {shorten(assignment)}"
    if not equals:
        raise InputError(f"{where}: not KEY=VALUE; write for example pool.replicate=128")
    put(values, key.strip(), parse_yaml(text, where), where)


def _section(values: Any, *keys: str) -> dict[str, Any]:
    """Return a section of a YAML file's values; an empty one if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _resolve_paths(path: Path, values: Any) -> None:
    """Replace relative paths that exist in the folder of a probe's file."""
    folder, here = path.parent.absolute(), Path.cwd()
    start = folder.relative_to(here) if folder.is_relative_to(here) else folder
    for *sections, key in [] if folder == here else _PATHS:
        section = _section(values, *sections)
        name = section.get(key)
        if isinstance(name, str) and name not in TEMPLATES and not Path(name).is_absolute():
            with reading(folder / name):
                if (folder / name).exists():
                    section[key] = str(start / name)


def _forget_old_source(values: Any, assignments: Sequence[str]) -> None:
    """Remove the keys of a source that an assignment replaces."""
    assigned = {assignment.partition("=")[0].strip() for assignment in assignments}
    for key in ("revision", "subset", "split") if "prompts.source" in assigned else ():
        _section(values, "prompts").pop(key, None)


def load_probe(path: Path, assignments: Sequence[str] = ()) -> Probe:
    """Read a probe's YAML and apply the `--set` assignments, `dotted.key=value`.

    A relative path in the YAML starts from the file's folder if it exists there; a path in
    an assignment does not. An assigned source removes the old one's revision, subset and
    split.
    """
    values = parse_yaml(read_text(path), str(path))
    if isinstance(values, dict):
        _resolve_paths(path, values)
        _forget_old_source(values, assignments)
        for assignment in assignments:
            assign(values, assignment)
    return parse_probe(values, str(path))


def dump_probe(probe: Probe) -> str:
    """Write the resolved configuration as YAML; reading it back gives the same probe."""
    return str(yaml.safe_dump(probe.model_dump(mode="json"), sort_keys=False))


def leaves(
    values: Mapping[str, Any],
    is_whole: Callable[[str], bool] = lambda name: False,
    above: str = "",
) -> Iterator[tuple[str, Any]]:
    """Yield the values of a nested mapping by dotted names; what is whole is one.

    >>> dict(leaves({"pool": {"reference": 8}, "seed": 0}))
    {'pool.reference': 8, 'seed': 0}
    """
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value and not is_whole(name):
            yield from leaves(value, is_whole, f"{name}.")
        else:
            yield name, value
