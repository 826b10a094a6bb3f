"""Records: read and write `results/`, atomically, so that a kill loses nothing.

While a run is under way its finished prompts lie in `shards/`, one file each; a new start
goes on from there. At the end they are joined into `pools.npz`, from which every table can
be made again without the model.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from mse_lab.errors import InputError
from mse_lab.mse.pools import Pools
from mse_lab.probe.probe_files import dump_probe, flatten, parse_probe
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Check, Checks, hold
from mse_lab.results.diagnostics import Diagnostics
from mse_lab.results.files import write_arrays, write_json, write_table, write_text
from mse_lab.results.intact import (
    FROM_POOLS,
    MANIFEST,
    is_there,
    make_manifest,
    read,
    see_intact,
)

# What a finished run consists of; after the last only the manifest is written.
COMPLETE = ("mse.csv", "prompts.csv", "errors.npz", "pools.npz", "checks.json")

# What stands beside them.
BESIDE = (
    "config.yaml",
    "prompts.sha256",
    "checkpoint.json",
    "environment.json",
    "diagnostics.json",
    "completions.jsonl",
    "laws.csv",
    "by_prompt.csv",
)

# What other commands make of them.
DERIVED = (
    "claims.csv",
    "claims.md",
    "advice.csv",
    "advice.md",
    "advice.png",
    "advice.pdf",
    "report.html",
)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be removed: {error.strerror}; remove it yourself"
        ) from None


class Record:
    """The folder of one run.

    Attributes:
        folder: `results/<probe name>`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Name a file of the folder."""
        return self.folder / name

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return is_there(self.path(name))

    def clear(self) -> None:
        """Remove what an earlier run left, and nothing else in the folder."""
        for name in (*COMPLETE, MANIFEST, *BESIDE, *DERIVED):
            _remove(self.path(name))
        shutil.rmtree(self.path("shards"), ignore_errors=True)

    def refuse_other(
        self, probe: Probe, prompts_digest: str, identity: Mapping[str, str]
    ) -> None:
        """See that what the folder holds, finished or begun, is of this configuration.

        Args:
            probe: The configuration.
            prompts_digest: Hash of its prompts.
            identity: Which checkpoint it is, by part; empty where that is not known yet.

        Raises:
            InputError: It is of another; the message says what differs.
        """
        if not self.is_begun():
            return
        differences = self.differences(probe)
        if not differences and self._prompts_digest() not in ("", prompts_digest):
            also = "" if probe.completions is None else " or the file of completions"
            differences = f"its prompts{also} have changed since"
        changed = [
            part
            for part, there in self._identity().items()
            if identity.get(part) and there and identity[part] != there
        ]
        if not differences and changed:
            differences = f"its checkpoint has changed since: {', '.join(changed)}"
        if differences:
            raise InputError(
                f"{self.folder} belongs to another configuration ({differences}); "
                "use --fresh to start over, or --out for another folder"
            )

    def claim(self, probe: Probe, prompts_digest: str, identity: Mapping[str, str]) -> None:
        """Take the folder for a configuration, its prompts and its checkpoint."""
        _remove(self.path(MANIFEST))
        write_text(self.path("config.yaml"), dump_probe(probe))
        write_text(self.path("prompts.sha256"), prompts_digest + "\n")
        write_json(self.path("checkpoint.json"), dict(identity))

    def _identity(self) -> dict[str, str]:
        return (
            dict(read(self.path("checkpoint.json"))) if self.has("checkpoint.json") else {}
        )

    def _prompts_digest(self) -> str:
        name = "prompts.sha256"
        return str(read(self.path(name))).strip() if self.has(name) else ""

    def configuration(self) -> dict[str, Any]:
        """Read the configuration that the folder belongs to; empty if there is none."""
        return dict(read(self.path("config.yaml"))) if self.has("config.yaml") else {}

    def differences(self, probe: Probe) -> str:
        """Say in what the folder's configuration differs from a probe; empty if in nothing.

        Keys that an older configuration does not have count as their defaults.
        """
        there = self.configuration()
        # With a key that is gone since, it is compared as it stands.
        with suppress(InputError):
            there = parse_probe(there, str(self.folder)).model_dump(mode="json")
        return describe_differences(there, probe.model_dump(mode="json"))

    def is_complete(self) -> bool:
        """Whether the run is finished, its raw errors there."""
        return all(self.has(name) for name in COMPLETE)

    def is_begun(self) -> bool:
        """Whether anything is here of a run, finished or not."""
        kept = self.has_tables() or self.has("pools.npz")
        return kept or self.finished_prompts() > 0

    def damage(self, names: Sequence[str] = (*COMPLETE, *BESIDE)) -> str:
        """Say which file of the result is damaged; empty if none is."""
        try:
            see_intact(self.folder, names)
        except InputError as error:
            return str(error)
        return ""

    def lost(self) -> list[str]:
        """Name what is damaged or missing of what follows from the pools that are here."""
        if not self.has("pools.npz"):
            return []
        return [name for name in FROM_POOLS if not self.has(name) or self.damage([name])]

    def has_tables(self) -> bool:
        """Whether the tables that the figure needs are there."""
        return self.has("mse.csv") and self.has("prompts.csv")

    def read_table(self, name: str) -> pd.DataFrame:
        """Read a table, or the completions, names and ids as texts."""
        return read(self.path(name))

    def read_checks(self) -> Checks:
        """Read the built-in checks and the warnings; none if they are not written."""
        name = "checks.json"
        return read(self.path(name)) if self.has(name) else Checks(True, [])

    def read_diagnostics(self) -> Diagnostics | None:
        """Read what the completions are like; None if an earlier version made the run."""
        name = "diagnostics.json"
        return read(self.path(name)) if self.has(name) else None

    def read_environment(self) -> dict[str, Any]:
        """Read where the run was made."""
        return read(self.path("environment.json"))

    def shard(self, index: int) -> Path:
        """Name the file of one prompt."""
        return self.path(f"shards/{index:06d}.npz")

    def finished_prompts(self) -> int:
        """Count the prompts whose shards are there."""
        return len(list(self.path("shards").glob("*.npz")))

    def write_tables(self, result: Analysis, names: Sequence[str] = FROM_POOLS) -> None:
        """Write what follows from the pools: tables, and raw squared errors."""
        for name in names:
            if name == "errors.npz":
                self._write_errors(result)
            else:
                write_table(self.path(name), getattr(result, Path(name).stem))

    def _write_errors(self, result: Analysis) -> None:
        """Write an array `<estimator>/<group size>` each; none with norms only."""
        errors = result.errors if result.pools.has_cross_products else {}
        arrays = {f"{key.estimator}/{key.group_size}": one for key, one in errors.items()}
        write_arrays(self.path("errors.npz"), arrays)

    def write_pools(self, pools: Pools) -> None:
        """Write the pools, from which all tables follow."""
        write_arrays(self.path("pools.npz"), vars(pools))

    def read_pools(self) -> Pools:
        """Read the pools of a finished run.

        Raises:
            InputError: They are damaged, or of a version that kept something else.
        """
        return read(self.path("pools.npz"))

    def write_checks(self, checks: Sequence[Check], warnings: Sequence[str]) -> None:
        """Write the built-in checks; `ok` marks the whole result."""
        content = Checks(hold(checks), list(checks), list(warnings))
        write_json(self.path("checks.json"), asdict(content))

    def write_completions(self, lines: Iterable[str]) -> None:
        """Write the completions, one JSON object a line."""
        write_text(self.path("completions.jsonl"), "".join(f"{line}\n" for line in lines))

    def write_manifest(self) -> None:
        """Write the checksums of what the run has written."""
        write_json(self.path(MANIFEST), make_manifest(self.folder, (*COMPLETE, *BESIDE)))

    def mark_incomplete(self) -> None:
        """Take away what is written last, before the first file is written anew."""
        for name in (COMPLETE[-1], MANIFEST):
            _remove(self.path(name))

    def drop_shards(self) -> None:
        """Remove the shards of a run that is written."""
        shutil.rmtree(self.path("shards"), ignore_errors=True)


def describe_differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Say which keys of two configurations differ, and how.

    >>> describe_differences({"seed": 0}, {"seed": 1})
    'seed is 0 there, 1 here'
    """
    old, new = flatten(there), flatten(here)
    return ", ".join(
        f"{key} is {old.get(key)} there, {new.get(key)} here"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    )
