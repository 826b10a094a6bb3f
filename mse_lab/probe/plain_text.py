"""A user's files: found, and their text, YAML and JSON read within limits.

YAML and JSON both give what JSON has: objects with texts as keys, lists, texts, numbers,
booleans, null. Whatever is nested too deeply, grows when its aliases are written out, or
cannot be written down again is refused before anything is made of it.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from mse_lab.errors import InputError, shorten

# Far beyond what a probe needs, and soon read.
LONGEST_TEXT, MOST_VALUES, DEEPEST = 200_000, 10_000, 50

# Python writes and reads whole numbers of at most 4,300 digits.
_MOST_DIGITS = 4300
_LARGEST = 10**_MOST_DIGITS - 1

# Halves of characters (lone surrogates), which no UTF-8 file can hold.
_HALVES = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")

# What would break a line of a table or of the screen.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def fault_of_text(text: str, *, controls: bool = False) -> str:
    r"""Say why a text, which may hold `controls` or not, cannot be used; empty if it can.

    >>> fault_of_text("a\tb"), fault_of_text("a\tb", controls=True)
    ('holds a control character or line break; take it out', '')
    """
    if _HALVES.search(text):
        return "holds half a character (a lone surrogate); take it out"
    if not controls and _CONTROLS.search(text):
        return "holds a control character or line break; take it out"
    return ""


def _fault(value: Any, depth: int, controls: bool) -> str:
    if depth > DEEPEST:
        return f"nested more than {DEEPEST} deep; write it flatter"
    if isinstance(value, str):
        return fault_of_text(value, controls=controls)
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"a number of more than {_MOST_DIGITS} digits; give a smaller one"
    parts = value if isinstance(value, list) else []
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "a key is no text; put it in quotes"
        parts = [*value, *value.values()]
    return next(filter(None, (_fault(part, depth + 1, controls) for part in parts)), "")


def refuse_unusable(value: Any, where: str, *, controls: bool = False) -> None:
    """See that what YAML or JSON gave can be kept, shown and written down."""
    items = value.items() if isinstance(value, dict) else [("", value)]
    for key, part in items:
        if fault := _fault({key: part}, 0, controls):
            name = f"{shorten(key)}: " if isinstance(key, str) and key else ""
            raise InputError(f"{where}: {name}{fault}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the failures of reading a user's file into one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: cannot be read: {error.reason} at byte {error.start}; use UTF-8"
        ) from None


def read_text(path: Path) -> str:
    """Read a user's UTF-8 file, with or without a byte order mark."""
    with reading(path):
        return path.read_text(encoding="utf-8-sig")


# Said where none of the places has it; `probe_files.load_probe` sees to the first.
STARTS = "paths start from the probe's folder, the working folder or the project's"


def local_path(name: str, root: Path) -> Path | None:
    """Find a path of a probe: from the working folder, else from the project's."""
    for candidate in (Path(name), root / name):
        with reading(candidate):
            if candidate.exists():
                return candidate
    return None


def parse_json(raw: str | bytes, where: str) -> dict[str, Any]:
    """Read a JSON object; `where` says where it stands, for messages."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "surrogateescape")
    try:
        values = json.loads(raw)
    except RecursionError:
        raise InputError(f"{where}: nested too deeply; write it flatter") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "msg", "not UTF-8")
        raise InputError(f"{where}: not valid JSON ({reason}); mend the line") from None
    except ValueError:
        raise InputError(
            f"{where}: holds a number of more than {_MOST_DIGITS} digits; give it as text"
        ) from None
    if not isinstance(values, dict):
        raise InputError(f"{where}: not a JSON object; give one with keys and values")
    # Long lists of tokens are not walked for what their text cannot hold.
    if text.count("[") + text.count("{") > DEEPEST or _ESCAPED_HALF.search(text):
        refuse_unusable(values, where, controls=True)
    return values


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML as JSON has it: dates are texts; sets, binaries and the rest are refused."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [pair for pair in pairs if not pair[0].endswith(":timestamp")]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None
        or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        """Refuse a key that stands twice: the last would count, silently."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"the key {shorten(key.value)} stands twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _refuse_growth(text: str) -> None:
    """See that a document stays small, and shallow, when its aliases are written out."""
    sizes: dict[str | None, int] = {}
    opened: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise InputError(f"*{event.anchor} stands for itself or for nothing")
            count += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, count))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            count += 1
            sizes[anchor] = count - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            sizes[event.anchor] = 1
        if count > MOST_VALUES:
            raise InputError(f"more than {MOST_VALUES} values, its aliases written out")
        if len(opened) > DEEPEST:
            raise InputError(f"nested more than {DEEPEST} deep")


def parse_yaml(text: str, source: str) -> Any:
    """Read one YAML document; `source` is its name, for messages.

    >>> parse_yaml("{since: 2026-01-01, k: 4}", "mine.yaml")
    {'since': '2026-01-01', 'k': 4}
    """
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{source}: longer than {LONGEST_TEXT} characters; shorten it")
    try:
        _refuse_growth(text)
        value = yaml.load(text, Loader=_Loader)
    except InputError as error:
        raise InputError(f"{source}: {error}; write it shorter and flatter") from None
    # Numbers and escapes that Python cannot make anything of are ValueErrors.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise InputError(f"{source}: not valid YAML: {error}") from None
    refuse_unusable(value, source)
    return value
