"""The identity of a checkpoint: the Hub's commit, or a hash of the folder.

A resumed run must not continue with other weights. A folder's hash covers the names, sizes
and content of the files that decide what the policy computes, not their dates. What the
loaded model answers is told apart besides (`answers.py`).
"""

import hashlib
import json
from pathlib import Path

from mse_lab.config.schema import Model
from mse_lab.policy.location import Location, find_location

DECISIVE = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja", ".tiktoken")
TRAINER = ("trainer_state.json", "training_args.bin", "optimizer.bin", "scheduler.bin")

BLOCK = 2**20  # Bytes that are read at a time.


def fingerprint(folder: Path) -> str:
    """Hash a folder."""
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in DECISIVE and path.name not in TRAINER and path.is_file()
    )
    digest = hashlib.sha256()
    for path in files:
        digest.update(json.dumps([path.name, path.stat().st_size]).encode())
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def identify_checkpoint(location: Location, file: str = "config.json") -> str:
    """Identify a checkpoint by its commit (empty if not cached) or its folder's hash."""
    if location.commit:
        return location.commit
    if location.folder is None:
        cached = location.cached(file)
        # The cache keeps a commit's files in `snapshots/<commit>`.
        return cached.parent.name if cached is not None else ""
    try:
        return fingerprint(location.folder)
    except OSError as error:
        name = Path(error.filename or "a file").name
        raise location.refuse(
            f"{name}: {error.strerror}", "give files that may be read"
        ) from None


def identify_model(config: Model, root: Path) -> dict[str, str]:
    """Identify the `model` and a saved `adapter`, without asking the Hub."""
    model = find_location("model.path", config.path, config.revision, root)
    identities = {"model": identify_checkpoint(model)}
    if isinstance(config.adapter, str):
        adapter = find_location(
            "model.adapter", config.adapter, config.adapter_revision, root
        )
        identities["adapter"] = identify_checkpoint(adapter, "adapter_config.json")
    return identities
