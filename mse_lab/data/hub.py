"""The Hugging Face Hub: what is fetched of it, or found in the local cache.

Files that were fetched once are found without a network, and only at the revision that is
asked for. What `snapshot_download` says where it fails becomes one line.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import huggingface_hub
from huggingface_hub import errors

# The base of the HTTP client's errors, whichever client this version of the Hub's uses.
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
from tqdm import tqdm

from mse_lab.errors import LONGEST_QUOTE, InputError, in_short, shorten

# Files of a model, and weights that are fetched where it has none in the former.
MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken")
OTHER_WEIGHTS = "*.bin"


class _NoBar(tqdm):  # type: ignore[misc]
    """A progress bar that is not shown: of files that are there already."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options | {"disable": True})


@dataclass(frozen=True)
class Repository:
    """A repository of the Hub."""

    key: str  # The probe's key that names it, such as `model.path`.
    name: str  # Its name, as the probe has it.
    revision: str | None = None  # A branch, tag or commit; None for the default branch.
    kind: Literal["model", "dataset"] = "model"  # What it holds.

    @property
    def download(self) -> str:
        """The command that fetches it into the cache."""
        kind = "" if self.kind == "model" else f" --repo-type {self.kind}"
        pinned = f" --revision {self.revision}" if self.revision else ""
        return f"hf download {self.name}{kind}{pinned}"

    def refuse(self, reason: object, remedy: str) -> InputError:
        """Say in one line why it cannot be used."""
        name = shorten(self.name, LONGEST_QUOTE)
        return InputError(f"{self.key} = {name}: {reason}; {remedy}")

    def cached(self, file: str) -> Path | None:
        """Find one of its files in the local cache, or None."""
        try:
            path = huggingface_hub.try_to_load_from_cache(
                self.name, file, revision=self.revision, repo_type=self.kind
            )
        except errors.HFValidationError:
            return None
        return Path(path) if isinstance(path, str) else None

    def fetch(self) -> Path:
        """Fetch it, or find it in the local cache; return its folder.

        Of a model nothing in folders is fetched, and weights in one format alone.
        """
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        if self.kind == "dataset":
            return self._fetch(None)
        folder = self._fetch([*MODEL_FILES])
        if any(folder.glob("*.safetensors")):
            return folder
        return self._fetch([*MODEL_FILES, OTHER_WEIGHTS])

    def _fetch(self, patterns: list[str] | None) -> Path:
        known = self.cached("config.json" if self.kind == "model" else "README.md")
        try:
            folder = huggingface_hub.snapshot_download(
                self.name,
                repo_type=self.kind,
                revision=self.revision,
                allow_patterns=patterns,
                ignore_patterns=None if patterns is None else ["*/*"],
                tqdm_class=None if known is None else _NoBar,
            )
        except (HTTPError, OSError, RuntimeError, ValueError) as error:
            remedy = f"check it, or fetch it where there is a network: {self.download}"
            reason = f"no such file or folder, and of the Hub: {in_short(error)}"
            raise self.refuse(reason, remedy) from None
        return Path(folder)
