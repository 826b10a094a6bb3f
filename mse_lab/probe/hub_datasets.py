"""A data set of the Hugging Face Hub, as a folder: fetched, or found in the cache.

The Hub is asked once, with a time limit and without retries (its client's own take 23
seconds); where it cannot be reached, the cache alone is used.
"""

import importlib
import logging
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError


def _load_client() -> Any:
    """Import the Hub's client; untyped, for its HTTPError is that of its HTTP library."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return importlib.import_module("huggingface_hub")


def _is_in_reach(hub: Any, name: str, revision: str | None, section: str) -> bool:
    """Ask the Hub for a data set and its revision."""
    try:
        limit = hub.constants.HF_HUB_ETAG_TIMEOUT
        hub.HfApi().dataset_info(name, revision=revision, timeout=limit)
    except hub.errors.RevisionNotFoundError:
        raise InputError(
            f"{section}.revision = {revision}: {name} has no such revision; choose one of "
            f"{hub.constants.ENDPOINT}/datasets/{name}/commits/main"
        ) from None
    except hub.errors.RepositoryNotFoundError:
        raise InputError(
            f"{section}.source = {name}: no such file or folder, and no such data set on "
            "the Hub; check the name; if it is private, log in with: hf auth login"
        ) from None
    except hub.errors.HFValidationError as error:
        raise InputError(
            f"{section}.source = {name}: no such file or folder, and no name for the Hub: "
            f"{error}"
        ) from None
    except (hub.errors.HTTPError, OSError):
        return False
    return True


def fetch_dataset(name: str, revision: str | None, section: str) -> Path:
    """Fetch the repository of a data set, as far as it is not in the cache yet.

    Without the Hub, the cached snapshot of the very revision will do, if it is complete.

    Args:
        name: `owner/name`.
        revision: A commit, a branch or a tag; None for the default branch.
        section: The probe's section, for messages.

    Returns:
        The folder of the snapshot.

    Raises:
        InputError: There is no such data set or revision, or it can neither be fetched nor
            found; the message says how to fetch it elsewhere.
    """
    hub = _load_client()
    online = _is_in_reach(hub, name, revision, section)
    try:
        folder = hub.snapshot_download(
            name, repo_type="dataset", revision=revision, local_files_only=not online
        )
    except (hub.errors.HTTPError, OSError, RuntimeError) as error:
        reason = f"cannot be fetched ({error})"
        if not online:
            reason = "not in the local cache, and the Hub cannot be reached"
        at = f" --revision {revision}" if revision else ""
        raise InputError(
            f"{section}.source = {name}: {reason}; where there is a network, fetch it "
            f"with: hf download {name} --repo-type dataset{at}"
        ) from None
    return Path(folder)
