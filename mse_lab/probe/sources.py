"""Sources: where the rows of a prompt set come from, a file or a data set of the Hub.

JSONL is read here; everything else by the library datasets. A Hub data set is the snapshot
of its repository in the Hub's cache, where `hf download` puts it too, and is read as a
local folder: what was fetched once is found without a network, and at the very revision
asked for, where the library by itself would take any version that it has seen.
"""

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError
from mse_lab.probe.extras import load_extra
from mse_lab.probe.hub_datasets import fetch_dataset
from mse_lab.probe.own_code import guard
from mse_lab.probe.plain_text import parse_json, read_text
from mse_lab.probe.schema import local_path

# File suffixes that the library datasets reads, and its names for them.
_BUILDERS = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow"}

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_FILE_SUFFIXES = (".jsonl", ".json", *_BUILDERS)


class Source(NamedTuple):
    """Where rows come from, as a probe says it.

    Attributes:
        section: The probe's section, `prompts` or `prompts.shots`, for messages.
        name: A path, or a Hub name.
        subset: The data set's configuration, or None.
        split: The split of a data set.
        revision: The Hub revision, or None for the default branch.
    """

    section: str
    name: str
    subset: str | None
    split: str | None
    revision: str | None


class Row(NamedTuple):
    """A row of a source.

    Attributes:
        where: The file and line, or the data set and row, for messages.
        number: Its place in the source, from 0.
        values: Its fields.
    """

    where: str
    number: int
    values: dict[str, Any]


def _complain(source: Source, key: str, reason: str) -> InputError:
    value = source.name if key == "source" else getattr(source, key)
    return InputError(f"{source.section}.{key} = {value}: {reason}")


def _lines(path: Path) -> Iterator[Row]:
    # Not splitlines: U+2028 may stand in a text.
    lines = read_text(path).split("\n")
    held = [(at, line) for at, line in enumerate(lines, start=1) if line.strip()]
    for number, (at, line) in enumerate(held):
        where = f"{path}, line {at}"
        yield Row(where, number, parse_json(line, where))


def _plain(value: Any) -> str:
    """Turn what JSON lacks, and a text can show, into text."""
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    raise TypeError(type(value).__name__)


def _guard(source: Source) -> AbstractContextManager[None]:
    """Of a damaged file the library raises whatever its own libraries do."""
    return guard(f"{source.section}.source = {source.name}: cannot be read")


def _take_all(dataset: Any, source: Source) -> Iterator[Any]:
    with _guard(source):
        rows = iter(dataset)
    while True:
        with _guard(source):
            values = next(rows, None)
        if values is None:
            return
        yield values


def _dataset_rows(dataset: Any, source: Source) -> Iterator[Row]:
    """Yield the rows with nothing in them but what JSON holds, as a record needs it."""
    for number, values in enumerate(_take_all(dataset, source)):
        where = f"{source.name}, row {number}"
        try:
            text = json.dumps(values, default=_plain)
        except TypeError as error:
            raise InputError(
                f"{where}: holds a value that is no text or number ({error}); "
                "save the set without that column and give its folder"
            ) from None
        yield Row(where, number, parse_json(text, where))


def _read_dataset(where: Path, source: Source, default_split: str) -> Any:
    """Read a folder or a file through the library datasets."""
    datasets = load_extra("datasets", "data", f"{source.section}.source = {source.name}")
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    split = source.split or default_split
    try:
        if where.is_file():
            files = {"rows": str(where)}
            builder = _BUILDERS[where.suffix]
            return datasets.load_dataset(builder, data_files=files, split="rows")
        if (where / "dataset_dict.json").is_file() or (where / "state.json").is_file():
            return _saved_dataset(datasets, where, source, split)
        return datasets.load_dataset(str(where.absolute()), source.subset, split=split)
    except InputError:
        raise
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        # The library's advice repeats the folder; its first sentences name what there is.
        reason = str(error).partition("Example of usage")[0].strip()
        raise _complain(
            source,
            "source",
            f"cannot be read with split {split}, subset {source.subset}: {reason}; "
            f"see {source.section}.split and {source.section}.subset",
        ) from None


def _saved_dataset(datasets: Any, where: Path, source: Source, split: str) -> Any:
    """Read what `save_to_disk` wrote: one split, or a dictionary of splits."""
    saved = datasets.load_from_disk(str(where))
    _refuse_keys(source, ("subset",), "a saved data set without subsets")
    if not isinstance(saved, datasets.DatasetDict):
        _refuse_keys(source, ("split",), "a single saved split")
        return saved
    if split not in saved:
        raise ValueError(f"it holds the splits {', '.join(saved)}")
    return saved[split]


def _refuse_keys(source: Source, keys: tuple[str, ...], what: str) -> None:
    """See that no key is given that would be ignored."""
    for key in keys:
        if getattr(source, key) is not None:
            raise _complain(source, key, f"{source.name} is {what}; remove the key")


def read_rows(source: Source, root: Path, default_split: str) -> tuple[str, Iterator[Row]]:
    """Open a source.

    Args:
        source: Where the rows come from.
        root: Folder that relative paths may start from, beside the working folder.
        default_split: The split of a data set where none is asked for.

    Returns:
        A short name for the source, for ids; and its rows, read as they are taken.

    Raises:
        InputError: There is no such source, or it cannot be read.
    """
    path = local_path(source.name, root)
    name = Path(source.name).name
    if path is not None and path.is_file():
        _refuse_keys(source, ("subset", "split", "revision"), "one local file")
        name = path.stem
        if path.suffix not in _BUILDERS:
            return name, _lines(path)
    elif path is not None:
        _refuse_keys(source, ("revision",), "a local folder")
    elif not _HUB_NAME.fullmatch(source.name) or source.name.endswith(_FILE_SUFFIXES):
        raise _complain(
            source, "source", "no such file; give a JSONL, or a Hub data set owner/name"
        )
    else:
        # Said before anything is fetched: the library, then the data.
        load_extra("datasets", "data", f"{source.section}.source = {source.name}")
        path = fetch_dataset(source.name, source.revision, source.section)
    with _guard(source):
        dataset = _read_dataset(path, source, default_split)
    return name, _dataset_rows(dataset, source)
