"""The Hugging Face Hub: asked once, with a time limit and without retries.

A refusal of the Hub becomes one line with its remedy. Where the Hub cannot be reached, the
local cache is used: files that were fetched once are found without a network, and only at
the revision that is asked for.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import huggingface_hub
from huggingface_hub import constants, errors

# The base of the HTTP client's errors, whichever client this version of the Hub's uses.
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

from mse_lab.errors import LONGEST_QUOTE, InputError, in_short, shorten


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

    def absent(self, reason: str) -> InputError:
        """Say that it is not on this machine and cannot be fetched now."""
        remedy = f"where there is a network, fetch it with: {self.download}"
        return self.refuse(reason, remedy)

    def cached(self, file: str) -> Path | None:
        """Find one of its files in the local cache, or None."""
        try:
            path = huggingface_hub.try_to_load_from_cache(
                self.name, file, revision=self.revision, repo_type=self.kind
            )
        except errors.HFValidationError:
            return None
        return Path(path) if isinstance(path, str) else None

    def ask(self, file: str) -> str:
        """Ask the Hub for a file; return why it cannot be fetched now, empty if it can."""
        if constants.HF_HUB_OFFLINE:
            return "HF_HUB_OFFLINE is set"
        limit = constants.HF_HUB_ETAG_TIMEOUT
        try:
            url = huggingface_hub.hf_hub_url(
                self.name, file, repo_type=self.kind, revision=self.revision
            )
            huggingface_hub.get_hf_file_metadata(url, timeout=limit)
        except errors.HFValidationError:
            reason = "no such file or folder, and not a valid Hub name"
            raise self.refuse(reason, "check the name") from None
        except errors.HfHubHTTPError as error:
            if self.kind == "dataset" and isinstance(error, errors.EntryNotFoundError):
                return ""  # The data set is there, without a README.
            if self.cached(file) is None:
                raise self._refusal(error, file) from None
            return f"the Hub answers: {in_short(error)}"
        except (HTTPError, OSError) as error:
            if "Timeout" in type(error).__name__:
                return f"the Hub does not answer within {limit} s (HF_HUB_ETAG_TIMEOUT)"
            return f"the Hub cannot be reached ({in_short(error)})"
        return ""

    def _refusal(self, error: Exception, file: str) -> InputError:
        folder = "" if self.kind == "model" else f"{self.kind}s/"
        at = f" at revision {self.revision}" if self.revision else ""
        absent = errors.RepositoryNotFoundError, errors.RevisionNotFoundError
        if not isinstance(error, (*absent, errors.EntryNotFoundError)):
            return self.refuse(f"the Hub answers: {in_short(error)}", "try again later")
        return self.refuse(
            f"no such file or folder, and the Hub has no {file} of it{at} "
            f"({type(error).__name__})",
            f"check name and revision at {constants.ENDPOINT}/{folder}{self.name}; if it "
            "is private or gated, log in with: hf auth login",
        )

    def fetch(self) -> Path:
        """Fetch the whole repository, or find it in the local cache; return its folder."""
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        obstacle = self.ask("README.md")
        try:
            folder = huggingface_hub.snapshot_download(
                self.name,
                repo_type=self.kind,
                revision=self.revision,
                local_files_only=bool(obstacle),
            )
        except (HTTPError, OSError, RuntimeError) as error:
            reason = f"cannot be fetched ({in_short(error)})"
            if obstacle:
                reason = f"not in the local cache, and {obstacle}"
            raise self.absent(reason) from None
        return Path(folder)
