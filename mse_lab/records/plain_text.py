"""A user's files: find them, and read their text, YAML and JSON.

YAML and JSON both give the values of JSON: mappings, lists, texts, numbers, booleans, null.
A value that cannot be written to a results file is refused when it is read.
"""

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from mse_lab.errors import InputError, in_short, shorten

TABLES = (".parquet", ".csv")  # Suffixes of files other than lines of JSON.

# Control characters, line breaks and lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def fault_of_text(text: str) -> str:
    r"""Say why a text cannot stand in a table or a path; empty if it can.

    >>> fault_of_text("arithmetic-001"), fault_of_text("a\tb")
    ('', 'holds a control character, a line break or half a character; take it out')
    """
    if _UNPRINTABLE.search(text):
        return "holds a control character, a line break or half a character; take it out"
    return ""


def refuse_utf16(path: Path | str, head: bytes) -> None:
    """Refuse a text whose first bytes are those of UTF-16 or UTF-32."""
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in head[:4]:
        raise InputError(f"{path}: is UTF-16 or UTF-32; save it as UTF-8")


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn an error of reading a user's file, or of its values, into one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        refuse_utf16(path, error.object[:4])
        raise InputError(
            f"{path}: cannot be read: {error.reason} at byte {error.start}; use UTF-8"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply; write it flatter") from None
    except OverflowError as error:
        raise InputError(
            f"{path}: a number or date out of range ({in_short(error)}); take it out"
        ) from None


def read_text(path: Path) -> str:
    """Read a user's UTF-8 file, with or without a byte order mark."""
    with reading(path):
        return path.read_text(encoding="utf-8-sig")


# For messages about a path that does not exist. `probe_files.load_probe` searches the first
# of these folders, `local_path` the others.
STARTS = "paths start from the probe's folder, the working folder or the project's"


def local_path(name: str, root: Path) -> Path | None:
    """Find a path of a probe: from the working folder, else from the project's."""
    for candidate in (Path(name), root / name):
        with reading(candidate):
            if candidate.exists():
                return candidate
    return None


def is_hub_name(name: str) -> bool:
    """Whether a name that is not a local path may be a Hub name."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return False
    with reading(name):
        # A single file is no data set.
        return not (name.endswith((".jsonl", ".json", *TABLES)) or Path(name).is_file())


def _refuse_unwritable(value: Any) -> None:
    """Refuse what no JSON in UTF-8 can hold: sets, dates, lone surrogates."""
    json.dumps(value, ensure_ascii=False).encode()


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; refuse a key that occurs twice: one value would be lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {shorten(twice)} occurs twice")
    return values


def read_object(raw: str | bytes) -> dict[str, Any] | str:
    """Read a JSON object, of text or UTF-8; where it is none, say why."""
    try:
        text = raw if isinstance(raw, str) else raw.removeprefix(BOM_UTF8).decode()
        values = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        return f"not valid JSON ({getattr(error, 'msg', '') or in_short(error)})"
    return values if isinstance(values, dict) else "not a JSON object"


def parse_json(raw: str | bytes, where: str) -> dict[str, Any]:
    """Read a JSON object that can be written again; `where` is for messages."""
    values = read_object(raw)
    try:
        _refuse_unwritable(values)
    except (ValueError, RecursionError) as error:
        values = f"not valid JSON ({in_short(error)})"
    if isinstance(values, str):
        raise InputError(f"{where}: {values}; repair it")
    return values


def step_into(value: Any, key: str) -> Any:
    """Take a value of a mapping, of a list by its place, or of each mapping in a list.

    >>> [step_into([{"a": 1}, {"a": 2}], key) for key in ("a", "0", "b", "2")]
    [[1, 2], {'a': 1}, [None, None], None]
    """
    if isinstance(value, list) and key.isdecimal():
        return value[int(key)] if int(key) < len(value) else None
    if isinstance(value, list):
        mappings = all(isinstance(one, Mapping) for one in value)
        return [one.get(key) for one in value] if mappings else None
    return value.get(key) if isinstance(value, Mapping) else None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML in which dates are texts; an alias, or a key that occurs twice, is refused."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [pair for pair in pairs if not pair[0].endswith(":timestamp")]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases: with aliases of aliases a short file grows without bound."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="an alias (*); write its value instead",
                problem_mark=self.peek_event().start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        """Refuse a key that occurs twice: the last value would count, silently."""
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                problem = f"the key {shorten(key.value)} occurs twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            keys.add(str(key.value))
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """Refuse what YAML 1.1 reads otherwise than people: 010 is 8, 1:30 is 90."""
        if re.match("[-+]?0[0-7_]+$", node.value) or ":" in node.value:
            problem = f"{shorten(node.value)} is no plain number; write decimal digits"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        read = {"int": self.construct_yaml_int, "float": self.construct_yaml_float}
        return read[node.tag.rpartition(":")[2]](node)


for _kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _Loader.construct_number)


def parse_yaml(text: str, source: str) -> Any:
    """Read one YAML document; `source` is its name, for messages.

    >>> parse_yaml("{since: 2026-01-01, k: 4}", "mine.yaml")
    {'since': '2026-01-01', 'k': 4}
    """
    try:
        value = yaml.load(text, Loader=_Loader)
        _refuse_unwritable(value)
    except RecursionError:
        raise InputError(f"{source}: nested too deeply; write it flatter") from None
    # Numbers and escapes that Python cannot read are ValueErrors.
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{source}: not valid YAML: {error}") from None
    return value
