"""The folder of a run: its files, how each is read, and how far the run is.

Reading, repairing, clearing, and the state of a result all follow from the table of
readers. While a run is under way, each measured prompt is a file in `shards/`, from which a
new start resumes, and `.lock` keeps other starts out. At the end they are joined into
`pools.npz`, from which every table can be made again without the model. An absent file is
no damage: tables are committed without the arrays that they come from.

A reader takes an open file and raises any error where it holds what no run writes. Pandas
and the measurements' own types take long to import and are not needed to list results, so
they are imported where they are used.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from mse_lab.arrays import Arrays
from mse_lab.config.probe_files import dump_probe, leaves, parse_probe
from mse_lab.config.schema import Probe
from mse_lab.console import COMMAND_PREFIX
from mse_lab.data.identity import UNKNOWN_IDENTITY
from mse_lab.errors import InputError
from mse_lab.records.plain_text import parse_yaml
from mse_lab.results.checks import Checks
from mse_lab.results.files import (
    encode,
    is_ours,
    open_intact,
    remove,
    write_bytes,
    write_file,
    write_output,
)

if TYPE_CHECKING:
    import pandas as pd

    from mse_lab.mse.pools import Pools
    from mse_lab.results.analysis import Analysis
    from mse_lab.results.diagnostics import Diagnostics

# The folder of what an advice measured, inside that of its probe's results.
ADVICE = "advice"

START_OVER = "start over with --fresh, or name another folder with --out"
START_OVER_IN_PYTHON = "remove that folder, or name another one with out="

# What to do about a damaged file.
RESTORE = f"restore it, or measure again with {COMMAND_PREFIX} run PROBE --fresh"
REPAIR = f"{COMMAND_PREFIX} run PROBE makes it again from pools.npz"

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category")


# What commands make of a run, which somebody may have, too.
MADE = (
    *("advice.json", "claims.csv", "report.html"),
    *("figure4.png", "figure4.pdf", "phase.png", "phase.pdf"),
    *("ladder.png", "ladder.pdf"),
)


def read_whole_text(file: BinaryIO) -> str:
    """Read a text that ends in a whole line."""
    text = file.read().decode()
    if not text.endswith("\n"):
        raise ValueError("its last line is cut")
    return text


def read_json(file: BinaryIO, schema: Any) -> Any:
    """Read JSON of this schema."""
    try:
        return TypeAdapter(schema).validate_json(file.read())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(": ".join(map(str, [*first["loc"], first["msg"]]))) from None


def read_configuration(file: BinaryIO) -> dict[str, Any]:
    """Read `config.yaml` as it is written; `parse_probe` makes a probe of it."""
    values = parse_yaml(read_whole_text(file), "its text")
    if not isinstance(values, dict):
        raise TypeError("it holds no keys")
    return values


def read_npz(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays, and thereby the checksum that is kept of each."""
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def read_diagnostics(file: BinaryIO) -> "Diagnostics":
    """Read `diagnostics.json`."""
    from mse_lab.results.diagnostics import Diagnostics

    return read_json(file, Diagnostics)


def read_table(file: BinaryIO, columns: Sequence[str], rows: int = 1) -> "pd.DataFrame":
    """Read a table of texts and numbers with these columns, and at least these rows."""
    import pandas as pd

    table = pd.read_csv(
        io.StringIO(read_whole_text(file)),
        dtype=dict.fromkeys(TEXTS, str),
        # A number may be missing; a text may be empty.
        keep_default_na=False,
        na_values=[""],
        index_col=False,
    ).fillna(dict.fromkeys(TEXTS, ""))
    missing = [column for column in columns if column not in table]
    if missing or len(table) < rows:
        raise ValueError(f"no column {missing[0]}" if missing else "no rows")
    table.drop(columns=[*TEXTS], errors="ignore").astype(float)
    return table


def read_pools(file: BinaryIO) -> "Pools":
    """Read the arrays of P prompts; refuse those that do not fit."""
    from mse_lab.mse.pools import Pools

    return Pools.from_arrays(read_npz(file))


_POINT = ("probe", "estimator", "group_size")
_LAW = ("law", "law_low", "law_high")
_MSE = (*_POINT, "replicates", "mse", "mse_low", "mse_high", *_LAW)

# Marks a folder as a run's: what the run measures, by part. Written first, removed last.
MARK = "checkpoint.json"

# How each file that a run writes is read; the pools are written last.
TABLES: dict[str, Callable[[BinaryIO], Any]] = {
    "mse.csv": partial(read_table, columns=_MSE),
    "laws.csv": partial(read_table, columns=(*_POINT, *_LAW), rows=0),
    "prompts.csv": partial(read_table, columns=("prompt", "category", "value")),
}
READERS: dict[str, Callable[[BinaryIO], Any]] = {
    **TABLES,
    "errors.npz": read_npz,
    "config.yaml": read_configuration,
    MARK: partial(read_json, schema=dict[str, str]),
    "environment.json": partial(read_json, schema=dict[str, Any]),
    "diagnostics.json": read_diagnostics,
    "completions.jsonl": read_whole_text,
    "checks.json": partial(read_json, schema=Checks),
    "pools.npz": read_pools,
}

# Those that are made again where they are lost. `prompts.csv` has columns besides that the
# pools do not know.
FROM_POOLS = ("mse.csv", "laws.csv", "errors.npz")
# Those that answers are read from: `checks.json` keeps their digests.
SEALED = (*TABLES, "pools.npz")
# Without these a run is not finished.
NEEDED = (*TABLES, "errors.npz", "checks.json", "pools.npz")


def remedy(path: Path) -> str:
    """Say what to do about a file that is damaged, or not the run's."""
    repairable = path.name in FROM_POOLS and path.with_name("pools.npz").exists()
    return REPAIR if repairable else RESTORE


def read_intact(path: Path) -> Any:
    """Read a file of a result; refuse one that is damaged."""
    with open_intact(path, remedy(path)) as opened:
        return READERS[path.name](opened)


class ResultsFolder:
    """The folder of one run, `results/<probe name>`."""

    def __init__(self, path: Path, remedy: str = START_OVER) -> None:
        self.path = path
        self._remedy = remedy  # What to do about results of something else.

    def file(self, name: str) -> Path:
        """Give the path of a file in the folder."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return self.file(name).exists()

    def read(self, name: str, default: Any = ...) -> Any:
        """Read a file; give the default if it is absent.

        One that is sealed is refused if it is not the one that the run wrote.
        """
        path = self.file(name)
        if default is not ... and not self.has(name):
            return default
        content = read_intact(path)
        seals = self.read_checks().seals if name in SEALED else {}
        if name in seals and self._seals([name])[name] != seals[name]:
            raise InputError(
                f"{path}: not as the run wrote it, by its digest in checks.json; "
                f"{remedy(path)}"
            )
        return content

    def _seals(self, names: Iterable[str]) -> dict[str, str]:
        """Hash those of some files that are there."""
        files = {name: self.file(name) for name in names if self.has(name)}
        return {
            name: hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in files.items()
        }

    @property
    def name(self) -> str:
        """The name of the probe that was measured here."""
        if self.has_tables():
            return str(read_intact(self.file("mse.csv"))["probe"].iloc[0])
        return self.path.name

    def write(self, name: str, content: Any) -> None:
        """Write a table, JSON, arrays or a text, by the name's suffix."""
        if name in MADE:
            write_output(self.file(name), encode(name, content))
        else:
            write_file(self.file(name), content)

    def clear(self) -> None:
        """Remove the files of an earlier run, and nothing else in the folder."""
        self.drop_shards()
        self._remove_made()
        for name in sorted(READERS, key=MARK.__eq__):
            remove(self.file(name))

    def _remove_made(self) -> None:
        """Remove what commands have made of a run."""
        for path in filter(is_ours, map(self.file, MADE)):
            remove(path)

    def refuse_foreign(self) -> None:
        """Refuse a folder that is no run's if a run would overwrite a file in it."""
        if self.has(MARK) and (self.has_tables() or self._is_sound(MARK)):
            return
        shards = ["shards"] if self.finished_prompts() else []
        for name in [*filter(self.has, READERS), *shards]:
            raise InputError(
                f"{self.file(name)}: is no run's, and a run would write over it; move it, "
                "or choose another folder with --out"
            )

    def refuse_other(self, probe: Probe, identity: Mapping[str, str] | None = None) -> None:
        """Refuse a folder whose run, finished or begun, is of another configuration.

        The identity is that of all that is measured, by part, as far as it is known.
        """
        if self.is_begun():
            pairs = self.differences(probe).items()
            self._refuse(
                ", ".join(f"{key} is {old} there, {new} here" for key, (old, new) in pairs)
            )
            self.refuse_changed(identity or {})

    def _refuse(self, difference: str) -> None:
        if difference:
            raise InputError(
                f"{self.path} belongs to another configuration ({difference}); "
                f"{self._remedy}"
            )

    def refuse_changed(self, identity: Mapping[str, str]) -> None:
        """Refuse an identity of which a part differs from that in the folder."""
        written = self.read(MARK, {})
        both = {part: now for part, now in identity.items() if now and written.get(part)}
        for part, now in both.items():
            if now.startswith(UNKNOWN_IDENTITY):
                why = now.removeprefix(UNKNOWN_IDENTITY)
                self._refuse(f"whether its {part} has changed since is not known: {why}")
        changed = ", ".join(part for part, now in both.items() if now != written[part])
        if changed:
            self._refuse(f"it began with another {changed}")

    def begin(self, probe: Probe, identity: Mapping[str, str]) -> None:
        """Begin a run: write its configuration and the identity of all that it measures.

        Where tables are there already, such as committed ones, theirs has been compared,
        and stays: what a model answers differs in the last bit between processors. So does
        the advice on them; without any it may be on another run, and would be read.
        """
        if not self.is_begun():
            self._remove_made()
        if not self.has_tables():
            self.write(MARK, dict(identity))
        self.write("config.yaml", dump_probe(probe))

    def differences(self, probe: Probe) -> dict[str, tuple[Any, Any]]:
        """Give the values of keys in which the folder's configuration and a probe differ.

        A key that an older configuration lacks counts as its default. The training, and
        before tables are made the population, may differ.
        """
        written = self.read("config.yaml", {})
        with suppress(InputError):  # A key that no longer exists is compared as it is.
            written = parse_probe(written, str(self.path)).model_dump(mode="json")
        old, new = (dict(leaves(each)) for each in (written, probe.model_dump(mode="json")))
        free = ("training", *["prompts.population"][self.has_tables() :])
        return {
            key: (old.get(key), new.get(key))
            for key in {**old, **new}
            if old.get(key) != new.get(key) and not key.startswith(free)
        }

    def is_complete(self) -> bool:
        """Whether the run is finished, and its raw results are there."""
        return all(map(self.has, NEEDED))

    def is_begun(self) -> bool:
        """Whether the folder holds anything that a run has measured."""
        return self.has_tables() or self.has("pools.npz") or self.finished_prompts() > 0

    def has_tables(self) -> bool:
        """Whether the tables are there that the figure needs."""
        return self.has("mse.csv") and self.has("prompts.csv")

    def lost(self) -> list[str]:
        """Name the files that are missing or damaged, and follow from pools."""
        return [name for name in FROM_POOLS if not self._is_sound(name)]

    def _is_sound(self, name: str) -> bool:
        with suppress(InputError):
            self.read(name)
            return True
        return False

    def finished_prompts(self) -> int:
        """Count the prompts whose shards are there."""
        return len(list(self.file("shards").glob("*.npz")))

    def drop_shards(self) -> None:
        """Remove all measurements of prompts, as far as that is possible."""
        folder = self.file("shards")
        for path in folder.glob("*.npz*"):
            with suppress(OSError):
                path.unlink()
        # A link stays, and so do files that are not ours.
        with suppress(OSError):
            folder.rmdir()

    def read_checks(self) -> Checks:
        """Read the built-in checks and the warnings; none if the file is absent."""
        return self.read("checks.json", Checks(True, []))

    def write_tables(self, result: "Analysis", names: Sequence[str]) -> None:
        """Write those of these files that follow from the pools."""
        arrays = {
            f"{estimator}/{size}": errors
            for (estimator, size), errors in result.errors.items()
            if errors.size
        }
        for name, content in {**result.tables, "errors.npz": arrays}.items():
            if name in names:
                self.write(name, content)

    def write_end(self, noted: Checks, pools: Arrays) -> None:
        """Write the checks, then the pools, without which a run is not finished."""
        content = encode("pools.npz", pools)
        seals = {"pools.npz": hashlib.sha256(content).hexdigest()}
        self.seal(TABLES, replace(noted, seals=seals))
        write_bytes(self.file("pools.npz"), content)

    def seal(self, names: Iterable[str], noted: Checks | None = None) -> None:
        """Keep in `checks.json` the digests of these files, of those that are there."""
        noted = noted or self.read_checks()
        seals = noted.seals | self._seals(names)
        self.write("checks.json", asdict(replace(noted, seals=seals)))
