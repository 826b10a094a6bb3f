"""Where a checkpoint lies: a local folder, or a name on the Hugging Face Hub.

The Hub is asked once, with a time limit and without retries, before anything is loaded.
What it refuses becomes one line with its remedy; where it cannot be reached, the local
cache alone is used.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants, errors

# The base of the HTTP client's errors, whichever client this version of the Hub's uses.
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

from mse_lab.errors import LONGEST_QUOTE, InputError, in_short, shorten
from mse_lab.probe.plain_text import STARTS, local_path, reading


@dataclass(frozen=True)
class Location:
    """Where a checkpoint lies: a folder, or a name on the Hub.

    Attributes:
        key: The configuration's key that names it, such as `model.path`.
        name: The name, as the configuration has it.
        revision: The Hub's; None for the default branch, or a folder.
        online: Whether what is missing may be fetched from the Hub.
    """

    key: str
    name: str
    where: str
    revision: str | None
    online: bool

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of the user's."""
        return Path(self.where).is_dir()

    @property
    def download(self) -> str:
        """The command that fetches it into the cache."""
        pinned = f" --revision {self.revision}" if self.revision else ""
        return f"hf download {self.where}{pinned}"

    @property
    def options(self) -> dict[str, str | bool | None]:
        """Arguments of every `from_pretrained`; code that comes with it is never run."""
        return {
            "revision": self.revision,
            "local_files_only": not self.online,
            "trust_remote_code": False,
        }

    @property
    def folder(self) -> Path:
        """The folder that holds its files, the cache's where it lies on the Hub."""
        known = (self.file(name) for name in ("config.json", "adapter_config.json"))
        return next((path.parent for path in known if path), Path(self.where))

    def file(self, name: str) -> Path | None:
        """Find one of its files on this machine, or None."""
        if self.is_local:
            path = Path(self.where) / name
            return path if path.is_file() else None
        try:
            found = huggingface_hub.try_to_load_from_cache(
                self.where, name, revision=self.revision
            )
        except errors.HFValidationError:
            return None
        return Path(found) if isinstance(found, str) else None

    def refuse(self, reason: object, remedy: str) -> InputError:
        """Say in one line what is wrong with it."""
        name = shorten(self.name, LONGEST_QUOTE)
        return InputError(f"{self.key} = {name}: {reason}; {remedy}")

    def incomplete(self, reason: str) -> InputError:
        """Say that something is wrong with its files, or that some are missing."""
        if self.is_local:
            adapter = self.key == "model.adapter"
            whole = "adapter of model.path" if adapter else "checkpoint"
            return self.refuse(reason, f"give a whole {whole}")
        if self.online:
            return self.refuse(reason, f"try again, or fetch it with: {self.download}")
        return self.absent(f"not whole in the local cache ({reason})")

    def damaged(self, file: str, reason: str) -> InputError:
        """Say what is wrong with one of its files."""
        return self.incomplete(f"{file} cannot be loaded: {reason}")

    def absent(self, reason: str) -> InputError:
        """Say that it is not here, and cannot be fetched now."""
        remedy = f"where there is a network, fetch it with: {self.download}"
        return self.refuse(reason, remedy)


class InMemory(Location):
    """A model that is in memory: it has no files."""

    @classmethod
    def of(cls, model: object) -> "InMemory":
        """Stand for a model in messages."""
        return cls("model", type(model).__name__, os.devnull, None, online=False)

    def damaged(self, file: str, reason: str) -> InputError:
        """Say what went wrong when it was run; no file is to blame."""
        return self.refuse(f"cannot be run: {reason}", "see that model(input_ids) works")


def look_up(key: str, name: str, revision: str | None, root: Path) -> Location:
    """Say whether a name is that of a folder, which may be entered, without the Hub."""
    on_hub = Location(key, name, name, revision, online=True)
    try:
        path = local_path(name, root)
        if path is None:
            return on_hub
        with reading(path):
            next(path.iterdir(), None)
            (path / "config.json").is_file()  # may it be entered
    except InputError as error:
        raise on_hub.refuse(error, "give a folder that may be read") from None
    return Location(key, name, str(path), None, online=False)


def locate(
    key: str, name: str, revision: str | None, root: Path, file: str = "config.json"
) -> Location:
    """Find what a key names: a folder with that file, or a name that Hub or cache know."""
    location = look_up(key, name, revision, root)
    if location.is_local:
        if location.file(file) is not None:
            return location
        wanted = "give a checkpoint's folder"
        if key == "model.path" and location.file("adapter_config.json"):
            wanted = "a saved adapter is named by model.adapter, and its base by model.path"
        raise location.refuse(f"no {file} in it", wanted)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise location.refuse("no such folder", f"give a checkpoint or Hub name ({STARTS})")
    obstacle = _obstacle(location, file)
    if obstacle and location.file(file) is None:
        raise location.absent(f"no such folder, not in the local cache, and {obstacle}")
    return replace(location, online=not obstacle)


def _obstacle(location: Location, file: str) -> str:
    """Ask the Hub for a file; say why it cannot be had now, or nothing if it can."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    limit = constants.HF_HUB_ETAG_TIMEOUT
    try:
        url = huggingface_hub.hf_hub_url(location.where, file, revision=location.revision)
        huggingface_hub.get_hf_file_metadata(url, timeout=limit)
    except (errors.HFValidationError, errors.HfHubHTTPError) as error:
        if location.file(file) is None:
            raise _answer(location, error, file) from None
        return f"the Hub answers: {in_short(error)}"
    except (HTTPError, OSError) as error:
        if "Timeout" in type(error).__name__:
            return f"the Hub does not answer within {limit} s (HF_HUB_ETAG_TIMEOUT)"
        return f"the Hub cannot be reached ({in_short(error)})"
    return ""


def _answer(location: Location, error: Exception, file: str) -> InputError:
    page = f"{constants.ENDPOINT}/{location.where}"
    log_in = "log in with: hf auth login"
    answers = {
        errors.HFValidationError: ("no such folder, and no Hub name", "give a checkpoint"),
        # Before the next, of whose kind it is.
        errors.GatedRepoError: ("its owner grants access", f"ask at {page}, then {log_in}"),
        errors.RepositoryNotFoundError: (
            "no such folder, and no such model on the Hub",
            f"check the name; if it is private, {log_in}",
        ),
        errors.RevisionNotFoundError: (
            f"no revision {location.revision} of it on the Hub",
            f"choose one of {page}/commits/main",
        ),
        errors.EntryNotFoundError: (
            f"no {file} in it on the Hub",
            "give a checkpoint in transformers' format",
        ),
    }
    known = (answer for kind, answer in answers.items() if isinstance(error, kind))
    other = (f"the Hub answers: {in_short(error)}", "try again later")
    return location.refuse(*next(known, other))
