"""The folder of a run: what it holds, which run it belongs to, and how far that is.

While a run is under way, each measured prompt is a file in `shards/`, from which a new
start resumes. At the end they are joined into `pools.npz`, from which every table can be
made again without the model.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mse_lab.arrays import Arrays
from mse_lab.config.probe_files import dump_probe, flatten, parse_probe
from mse_lab.config.schema import Probe
from mse_lab.data.identity import UNKNOWN_IDENTITY
from mse_lab.errors import InputError
from mse_lab.results.checks import Check, Checks, none_failed
from mse_lab.results.files import (
    encode,
    is_ours,
    remove,
    write_bytes,
    write_file,
    write_output,
)
from mse_lab.results.inventory import (
    FROM_POOLS,
    MADE,
    MARK,
    NEEDED,
    READERS,
    SEALED,
    TABLES,
    read_intact,
    remedy,
)

if TYPE_CHECKING:
    from mse_lab.results.analysis import Analysis


# The folder of what an advice measured, inside that of its probe's results.
ADVICE = "advice"

START_OVER = "start over with --fresh, or name another folder with --out"
START_OVER_IN_PYTHON = "remove that folder, or name another one with out="


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
        """Read a file as the inventory says; give the default if it is absent.

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

    @property
    def when(self) -> str:
        """When it was measured."""
        date = self.read("environment.json", {}).get("date")
        return f"on {date}" if date else "earlier"

    def write(self, name: str, content: Any) -> None:
        """Write a file of the inventory: a table, JSON, arrays or a text, by its suffix."""
        if name in MADE:
            write_output(self.file(name), encode(name, content))
        else:
            assert name in READERS
            write_file(self.file(name), content)

    def clear(self) -> None:
        """Remove the files of an earlier run, and nothing else in the folder."""
        self.drop_shards()
        if self.finished_prompts():
            raise InputError(
                f"{self.file('shards')}: cannot be emptied; remove what it holds yourself"
            )
        self._remove_made()
        for name in sorted(READERS, key=MARK.__eq__):
            remove(self.file(name))

    def _remove_made(self) -> None:
        """Remove what commands have made of a run."""
        for name in MADE:
            if is_ours(self.file(name)):
                remove(self.file(name))

    def refuse_foreign(self) -> None:
        """Refuse a folder that is no run's if a run would overwrite somebody's file in it.

        What other commands make may be there without a run: they make it of the project's
        run of this name.
        """
        if self.has(MARK) and (self.has_tables() or is_ours(self.file(MARK))):
            return
        foreign = [name for name in READERS if self.has(name)]
        foreign += [n for n in MADE if self.has(n) and not is_ours(self.file(n))]
        for name in [*foreign, *["shards"] * bool(self.finished_prompts())]:
            raise InputError(
                f"{self.file(name)}: is no run's, and a run would write over it; move it, "
                "or choose another folder with --out"
            )

    def refuse_other(self, probe: Probe, identity: Mapping[str, str]) -> None:
        """Refuse a folder whose run, finished or begun, is of another configuration.

        The identity is that of all that is measured, by part, as far as it is known.
        """
        if self.is_begun():
            self.refuse_probe(probe)
            self.refuse_changed(identity)

    def refuse_probe(self, probe: Probe) -> None:
        """Refuse a folder whose run is of another probe, for which no model is needed."""
        if self.is_begun():
            pairs = self.differences(probe).items()
            self._refuse(
                ", ".join(f"{key} is {old} there, {new} here" for key, (old, new) in pairs)
            )

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
        and stays: what a model answers differs in the last bit between processors. What
        commands have made of them stays, too, and else goes: it may be another run's.
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
        old, new = flatten(written), flatten(probe.model_dump(mode="json"))
        free = ("training", *["prompts.population"][self.has_tables() :])
        return {
            key: (old.get(key), new.get(key))
            for key in {**old, **new}
            if old.get(key) != new.get(key) and not key.startswith(free)
        }

    def is_complete(self) -> bool:
        """Whether the run is finished, and its raw results are there."""
        return all(self.has(name) for name in NEEDED)

    def is_begun(self) -> bool:
        """Whether the folder holds anything that a run has measured."""
        return self.has_tables() or self.has("pools.npz") or self.finished_prompts() > 0

    def has_tables(self) -> bool:
        """Whether the tables are there that the figure needs."""
        return self.has("mse.csv") and self.has("prompts.csv")

    def lost(self) -> list[str]:
        """Name the files that are missing or damaged, and follow from the pools here."""
        if not self.has("pools.npz"):
            return []
        return [name for name in FROM_POOLS if not self._is_sound(name)]

    def _is_sound(self, name: str) -> bool:
        """Whether a file is there and can be read."""
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

    def write_tables(self, result: "Analysis", names: Sequence[str] = FROM_POOLS) -> None:
        """Write the files that follow from the pools: tables, and raw squared errors."""
        for name, table in result.tables.items():
            if name in names:
                self.write(name, table)
        if "errors.npz" in names:
            arrays = {
                f"{estimator}/{size}": errors
                for (estimator, size), errors in result.errors.items()
                if errors.size
            }
            self.write("errors.npz", arrays)

    def write_end(
        self, checks: Sequence[Check], warnings: Sequence[str], pools: Arrays
    ) -> None:
        """Write the checks, then the pools, without which a run is not finished."""
        content = encode("pools.npz", pools)
        seals = self._seals(TABLES) | {"pools.npz": hashlib.sha256(content).hexdigest()}
        found = Checks(none_failed(checks), list(checks), list(warnings), seals)
        self.write("checks.json", asdict(found))
        write_bytes(self.file("pools.npz"), content)

    def seal(self, names: Iterable[str]) -> None:
        """Keep in `checks.json` the digests of these files, of those that are there."""
        checks = self.read_checks()
        seals = checks.seals | self._seals(names)
        self.write("checks.json", asdict(replace(checks, seals=seals)))
