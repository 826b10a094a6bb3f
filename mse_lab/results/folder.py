"""Records: the folder of a run, how far it is, and what belongs in it.

While a run is under way its finished prompts lie in `shards/`, one file each; a new start
goes on from there. At the end they are joined into `pools.npz`, from which every table can
be made again without the model.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mse_lab.errors import InputError
from mse_lab.probe.identity import UNKNOWN
from mse_lab.probe.probe_files import dump_probe, flatten, parse_probe
from mse_lab.probe.schema import Probe
from mse_lab.results.checks import Check, Checks, none_failed
from mse_lab.results.files import write_arrays, write_json, write_table, write_text
from mse_lab.results.integrity import is_there, make_manifest, read, validate
from mse_lab.results.inventory import (
    FILES,
    FROM_MODEL,
    FROM_POOLS,
    FROM_RESULT,
    MANIFEST,
    NEEDED,
    REPEATABLE,
)

if TYPE_CHECKING:
    from mse_lab.estimators import Estimator
    from mse_lab.mse.pools import Pools
    from mse_lab.results.analysis import Analysis
    from mse_lab.results.diagnostics import Diagnostics


# What no folder but a run's has: written first, removed last.
MARKS = ("prompts.sha256", "checkpoint.json", MANIFEST)


def identify_code(estimators: Sequence["Estimator"], reward: str = "") -> dict[str, str]:
    """Name the identities of a user's own code, by what it is; nothing of ours."""
    found = {"reward": reward}
    found |= {f"estimator {one.name}": one.code for one in estimators}
    return {part: code for part, code in found.items() if code}


class ResultsFolder:
    """The folder of one run, `results/<probe name>`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Name a file of the folder."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return is_there(self.file(name))

    def read(self, name: str, otherwise: Any = ...) -> Any:
        """Read a file as the inventory says; one that may be missing has an `otherwise`.

        Raises:
            InputError: It is damaged, or missing and may not be.
        """
        if otherwise is ... or self.has(name):
            return read(self.file(name))
        return otherwise

    def _remove(self, *names: str) -> None:
        for path in map(self.file, names):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise InputError(
                    f"{path}: cannot be removed: {error.strerror}; remove it yourself"
                ) from None

    def clear(self) -> None:
        """Remove what an earlier run left, and nothing else in the folder.

        Raises:
            InputError: Something of it cannot be removed.
        """
        self.drop_shards()
        if self.finished_prompts():
            raise InputError(
                f"{self.file('shards')}: cannot be emptied; remove what it holds yourself"
            )
        self._remove(*(name for name in FILES if name not in MARKS), *MARKS)

    def refuse_foreign(self) -> None:
        """See that no file that a run writes is there already and somebody else's.

        Raises:
            InputError: One is.
        """
        if self.has_tables() or any(map(self.has, MARKS)):
            return
        for name in filter(self.has, FILES):
            raise InputError(
                f"{self.file(name)}: is no run's, and a run would write over it; move it, "
                "or choose another folder with --out"
            )

    def refuse_other(
        self, probe: Probe, prompts_digest: str, identity: Mapping[str, str]
    ) -> None:
        """See that what the folder holds, finished or begun, is of this configuration.

        Args:
            probe: The configuration.
            prompts_digest: Hash of its prompts.
            identity: Which checkpoint it is, and which code of the user's own, by part;
                what is not known yet is left out.

        Raises:
            InputError: It is of another; the message says what differs.
        """
        if not self.is_begun():
            return
        digest = self.read("prompts.sha256", prompts_digest).strip()
        also = "" if probe.completions is None else " or the file of completions"
        same = digest == prompts_digest
        self._refuse(self.differences(probe))
        self._refuse("" if same else f"its prompts{also} have changed since")
        self.refuse_changed(identity)

    def _refuse(self, difference: str) -> None:
        if difference:
            raise InputError(
                f"{self.path} belongs to another configuration ({difference}); "
                "use run --fresh to start over, or --out for another folder"
            )

    def refuse_changed(self, identity: Mapping[str, str]) -> None:
        """See that those parts of the folder's identity that are known there are the same.

        Raises:
            InputError: One has changed since, or cannot be compared.
        """
        there = self.read("checkpoint.json", {})
        known = {part: one for part, one in identity.items() if one and there.get(part)}
        for part, one in known.items():
            if one.startswith(UNKNOWN):
                why = one.removeprefix(UNKNOWN)
                self._refuse(f"whether its {part} has changed since cannot be told: {why}")
        changed = ", ".join(part for part, one in known.items() if one != there[part])
        self._refuse(changed and f"it began with another {changed}")

    def take(self, probe: Probe, prompts_digest: str, identity: Mapping[str, str]) -> None:
        """Take the folder for a configuration, its prompts, checkpoint and own code."""
        self._remove(MANIFEST)
        write_text(self.file("prompts.sha256"), prompts_digest + "\n")
        write_json(self.file("checkpoint.json"), dict(identity))
        write_text(self.file("config.yaml"), dump_probe(probe))

    def configuration(self) -> dict[str, Any]:
        """Read the configuration that the folder belongs to; empty if there is none."""
        return self.read("config.yaml", {})

    def differences(self, probe: Probe) -> str:
        """Say in what the folder's configuration differs from a probe; empty if in nothing.

        Keys that an older configuration does not have count as their defaults.
        """
        there = self.configuration()
        # With a key that is gone since, it is compared as it stands.
        with suppress(InputError):
            there = parse_probe(there, str(self.path)).model_dump(mode="json")
        old, new = flatten(there), flatten(probe.model_dump(mode="json"))
        return ", ".join(
            f"{key} is {old.get(key)} there, {new.get(key)} here"
            for key in {**old, **new}
            if old.get(key) != new.get(key)
        )

    def is_complete(self) -> bool:
        """Whether the run is finished, its raw errors there."""
        return all(self.has(name) for name in NEEDED)

    def is_begun(self) -> bool:
        """Whether anything is here of a run, finished or not."""
        kept = self.has_tables() or self.has("pools.npz")
        return kept or self.finished_prompts() > 0

    def has_tables(self) -> bool:
        """Whether the tables that the figure needs are there."""
        return self.has("mse.csv") and self.has("prompts.csv")

    def damage(self, names: Sequence[str] = FROM_POOLS + FROM_MODEL) -> str:
        """Say which file of the result is damaged; empty if none is."""
        try:
            validate(self.path, names)
        except InputError as error:
            return str(error)
        return ""

    def lost(self) -> list[str]:
        """Name what is damaged or missing of what follows from the pools that are here."""
        if not self.has("pools.npz"):
            return []
        return [name for name in FROM_POOLS if not self.has(name) or self.damage([name])]

    def shard(self, index: int) -> Path:
        """Name the file of one prompt."""
        return self.file(f"shards/{index:06d}.npz")

    def finished_prompts(self) -> int:
        """Count the prompts whose shards are there."""
        return len(list(self.file("shards").glob("*.npz")))

    def drop_shard(self, index: int) -> None:
        """Remove what stands in the place of a prompt's shard.

        Raises:
            InputError: It cannot be removed.
        """
        self._remove(str(self.shard(index).relative_to(self.path)))

    def drop_shards(self) -> None:
        """Remove the shards of a run that is written, as far as they can be."""
        folder = self.file("shards")
        for path in folder.glob("*.npz*"):
            with suppress(OSError):
                path.unlink()
        # A link stays, and what is not ours.
        with suppress(OSError):
            folder.rmdir()

    def read_checks(self) -> Checks:
        """Read the built-in checks and the warnings; none if they are not written."""
        return self.read("checks.json", Checks(True, []))

    def read_diagnostics(self) -> "Diagnostics | None":
        """Read what the completions are like; None if an earlier version made the run."""
        return self.read("diagnostics.json", None)

    def write_tables(self, result: "Analysis", names: Sequence[str] = FROM_POOLS) -> None:
        """Write what follows from the pools: tables, and raw squared errors."""
        for name, table in result.tables.items():
            if name in names:
                write_table(self.file(name), table)
        if "errors.npz" in names:
            known = {key: one for key, one in result.errors.items() if one.size}
            arrays = {f"{name}/{size}": one for (name, size), one in known.items()}
            write_arrays(self.file("errors.npz"), arrays)

    def write_pools(self, pools: "Pools") -> None:
        """Write the pools, from which all tables follow."""
        write_arrays(self.file("pools.npz"), vars(pools))

    def write_completions(self, lines: Iterable[str]) -> None:
        """Write the completions, one JSON object a line."""
        write_text(self.file("completions.jsonl"), "".join(f"{line}\n" for line in lines))

    def write_checks(self, checks: Sequence[Check], warnings: Sequence[str]) -> None:
        """Write the built-in checks; `ok` marks the whole result."""
        content = Checks(none_failed(checks), list(checks), list(warnings))
        write_json(self.file("checks.json"), asdict(content))

    def write_manifest(self) -> None:
        """Write the checksums of what the run has written."""
        written = make_manifest(self.path, REPEATABLE)
        write_json(self.file(MANIFEST), written)

    def mark_incomplete(self) -> None:
        """Take away what is written last, before the first file is written anew.

        And what other commands have made of an earlier measurement.
        """
        self._remove("checks.json", *FROM_RESULT)
