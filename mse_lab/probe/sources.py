"""Sources: the rows of a prompt set, from a file or a data set of the Hub.

JSONL is read here, a CSV file by pandas, a Parquet file by pyarrow, everything else by the
library datasets. A data set of the Hub is the snapshot of its repository in the Hub's
cache, where `hf download` puts it too, and is read as a local folder: the library itself
would take any revision that it has seen before.
"""

import importlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError, shorten
from mse_lab.probe.foreign_code import guard, load_extra
from mse_lab.probe.plain_text import STARTS, local_path, parse_json, read_text, reading

_TABLES = (".parquet", ".csv", ".arrow")  # Suffixes of files other than lines of JSON.

TABLE_ROWS_AT_ONCE = 2048  # Rows of a table in memory at once.

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_FILE_SUFFIXES = (".jsonl", ".json", *_TABLES)


def is_one_file(name: str) -> bool:
    """Whether a name is that of a single file, not of a folder or a Hub data set."""
    with reading(Path(name)):
        return name.endswith(_FILE_SUFFIXES) or Path(name).is_file()


def is_hub_name(name: str) -> bool:
    """Whether a name that is not a local path may be a Hub name."""
    return bool(_HUB_NAME.fullmatch(name)) and not is_one_file(name)


class Row(NamedTuple):
    """A row of a source."""

    where: str  # Names it in messages.
    number: int  # Counted from 0.
    values: dict[str, Any]  # Its fields.


class Source(NamedTuple):
    """Where rows come from: the keys of the section `prompts` or `prompts.shots`."""

    section: str
    name: str
    subset: str | None
    split: str | None
    revision: str | None

    def __str__(self) -> str:
        return f"{self.section}.source = {self.name}"

    def guard(self) -> AbstractContextManager[None]:
        """Turn any error of a library into one line."""
        return guard(f"{self}: cannot be read")

    def refuse_keys(self, keys: tuple[str, ...], what: str) -> None:
        """Refuse keys that would be ignored."""
        for key in keys:
            if (value := getattr(self, key)) is not None:
                raise InputError(
                    f"{self.section}.{key} = {value}: {self.name} is {what}; remove the key"
                )


def _lines(path: Path) -> Iterator[Row]:
    # Not splitlines: a text may contain U+2028.
    lines = enumerate(read_text(path).split("\n"), start=1)
    filled = ((at, line) for at, line in lines if line.strip())
    for number, (at, line) in enumerate(filled):
        where = f"{path}, line {at}"
        yield Row(where, number, parse_json(line, where))


def csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file; an empty cell is None, and NA is a text.

    A column of numbers with one such as 001 is of texts.
    """
    import pandas as pd  # Late: few sources need it.

    names = pd.read_csv(path, dtype=str, header=None, nrows=1).loc[0].dropna()
    if not names.is_unique:
        twice = names[names.duplicated()].iloc[0]
        raise InputError(f"{path}: two columns are named {twice}; rename one of them")
    # A type is that of the whole column; integers beside an empty cell stay integers.
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    coded = [name for name in cells if cells[name].str.match(r"[+-]?0\d").any()]
    kinds: Any = {"dtype_backend": "numpy_nullable", "dtype": dict.fromkeys(coded, str)}
    table = pd.read_csv(path, keep_default_na=False, na_values=[""], **kinds)
    table = table.astype(object)
    yield from table.where(table.notna(), None).to_dict("records")


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file."""
    with importlib.import_module("pyarrow.parquet").ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=TABLE_ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _read_dataset(where: Path, source: Source, default_split: str) -> Any:
    """Read a folder or a file other than JSONL."""
    if where.suffix == ".csv" and where.is_file():
        return csv_rows(where)
    if where.suffix == ".parquet" and where.is_file():
        return parquet_rows(where)
    datasets = load_extra("datasets", "data", str(source))
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    split = source.split or default_split
    try:
        if where.is_file():
            files = {"rows": str(where)}
            return datasets.load_dataset("arrow", data_files=files, split="rows")
        if (where / "dataset_dict.json").is_file() or (where / "state.json").is_file():
            source.refuse_keys(("subset",), "a saved data set without subsets")
            saved = datasets.load_from_disk(str(where))
            if not isinstance(saved, datasets.DatasetDict):
                source.refuse_keys(("split",), "a single saved split")
                return saved
            if split not in saved:
                raise ValueError(f"it holds the splits {', '.join(saved)}")
            return saved[split]
        folder = os.path.normpath(where.absolute())
        _refuse_outside_files(folder, datasets.load_dataset_builder(folder, source.subset))
        return datasets.load_dataset(folder, source.subset, split=split)
    except InputError:
        raise
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        # The first sentences name the splits and subsets; the rest repeats the folder.
        reason = str(error).partition("Example of usage")[0].strip()
        raise InputError(
            f"{source}: cannot be read with split {split}, subset {source.subset}: "
            f"{reason}; see {source.section}.split and {source.section}.subset"
        ) from None


def _refuse_outside_files(folder: str, builder: Any) -> None:
    """Refuse a data set whose README, which anybody may have written, names other files.

    Links are not followed: the files in the Hub's cache are links to their content.
    """
    for files in (builder.config.data_files or {}).values():
        for file in map(str, files):
            if not Path(os.path.normpath(file)).is_relative_to(folder):
                raise ValueError(f"its README names {shorten(file)}, outside its folder")


def _plain(value: Any) -> str:
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    raise TypeError(type(value).__name__)


def _dataset_rows(dataset: Any, source: Source) -> Iterator[Row]:
    """Yield the rows; their values are those of JSON."""
    rows = enumerate(dataset)
    while True:
        with source.guard():
            number, values = next(rows, (0, None))
        if values is None:
            return
        where = f"{source.name}, row {number}"
        try:
            text = json.dumps(values, default=_plain)
        except TypeError as error:
            raise InputError(
                f"{where}: has a value other than texts and numbers ({error}); save the "
                "data set without that column and give its folder"
            ) from None
        yield Row(where, number, parse_json(text, where))


def open_rows(source: Source, root: Path, default_split: str) -> tuple[str, Iterator[Row]]:
    """Open a source: its short name, for ids, and its rows, which are read lazily."""
    path = local_path(source.name, root)
    name = Path(source.name).name
    if path is not None and path.is_file():
        source.refuse_keys(("subset", "split", "revision"), "one local file")
        name = path.stem
        if path.suffix not in _TABLES:
            return name, _lines(path)
    elif path is not None:
        source.refuse_keys(("revision",), "a local folder")
    elif not is_hub_name(source.name):
        raise InputError(
            f"{source}: no such file; give a JSONL, or a Hub data set owner/name ({STARTS})"
        )
    else:
        # Before the download: a missing library is refused at once.
        load_extra("datasets", "data", str(source))
        from mse_lab.probe.hub import Repository  # Late: few sources need it.

        key = f"{source.section}.source"
        path = Repository(key, source.name, source.revision, "dataset").fetch()
    with source.guard():
        dataset = _read_dataset(path, source, default_split)
    return name, _dataset_rows(dataset, source)
