"""Which checkpoint it is: the Hub's commit, or a hash of the folder.

A resumed run must not go on with other weights than it began with. A folder's hash covers
the names, sizes and content of the files that decide what the policy computes, not their
dates. A large folder is sampled, every tensor of it: training one changes it nearly
everywhere, so that a sample sees it.
"""

import hashlib
import json
from collections.abc import Iterator
from operator import index
from pathlib import Path
from typing import BinaryIO

from mse_lab.policy.hub import Location, look_up
from mse_lab.probe.schema import Model

DECISIVE = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja", ".tiktoken")
TRAINER = ("trainer_state.json", "training_args.bin", "optimizer.bin", "scheduler.bin")

# A folder of at most this many bytes is hashed whole, within a second.
WHOLE_BYTES = 2**28

# Of a tensor in a larger one so many pieces of so many bytes are hashed, evenly spaced.
PIECES = 16
PIECE_BYTES = 2**12

Span = tuple[int, int]


def fingerprint(folder: Path) -> str:
    """Hash a checkpoint's folder.

    Args:
        folder: The checkpoint, or a saved adapter.

    Returns:
        `sha256:` and the hash, or `sampled-sha256:` where the folder is large.
    """
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in DECISIVE and path.name not in TRAINER and path.is_file()
    )
    whole = sum(path.stat().st_size for path in files) <= WHOLE_BYTES
    digest = hashlib.sha256()
    for path in files:
        digest.update(json.dumps([path.name, path.stat().st_size]).encode())
        with path.open("rb") as file:
            for start, end in _spans(file, path, whole=whole):
                file.seek(start)
                digest.update(file.read(end - start))
    return f"{'' if whole else 'sampled-'}sha256:{digest.hexdigest()}"


def _spans(file: BinaryIO, path: Path, *, whole: bool) -> Iterator[Span]:
    """Yield the parts of a file that are hashed, as offsets."""
    size = path.stat().st_size
    if whole:
        for start in range(0, size, 2**20):
            yield start, min(start + 2**20, size)
    elif path.suffix == ".safetensors":
        yield from _spans_of_tensors(file, size) or _pieces(0, size)
    else:
        yield from _pieces(0, size)


def _spans_of_tensors(file: BinaryIO, size: int) -> list[Span]:
    """List the header of a safetensors file and pieces of each of its tensors.

    Nothing is listed of a broken file: loading it will say so.
    """
    first = 8 + int.from_bytes(file.read(8), "little")
    try:
        header = json.loads(file.read(first - 8)) if first <= size else {}
        spans = [(0, first)]
        for name, tensor in sorted(header.items()):
            if name != "__metadata__":
                start, end = (index(offset) for offset in tensor["data_offsets"])
                spans += _pieces(first + start, first + end)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    sound = all(0 <= start <= end <= size for start, end in spans)
    return spans if sound else []


def _pieces(start: int, end: int) -> Iterator[Span]:
    """Yield evenly spaced pieces of a part, the first and the last bytes among them."""
    if end - start <= PIECES * PIECE_BYTES:
        yield start, end
        return
    for piece in range(PIECES):
        place = start + (end - start - PIECE_BYTES) * piece // (PIECES - 1)
        yield place, place + PIECE_BYTES


def identify(location: Location, file: str = "config.json") -> str:
    """Name what a location holds: its commit on the Hub, or the hash of its folder.

    Args:
        location: Where it lies.
        file: A file that it has.

    Returns:
        The name; empty for a Hub name that is not in the cache.
    """
    if location.is_local:
        try:
            return fingerprint(Path(location.where))
        except OSError as error:
            name = Path(error.filename or "a file").name
            raise location.refuse(
                f"{name}: {error.strerror}", "give files that may be read"
            ) from None
    cached = location.file(file)
    # The cache keeps a commit's files in `snapshots/<commit>`.
    return cached.parent.name if cached is not None else ""


def identify_model(config: Model, root: Path) -> dict[str, str]:
    """Name the checkpoints of a configuration without loading them or asking the Hub.

    Args:
        config: The configuration.
        root: Folder that relative paths may start from, beside the working folder.

    Returns:
        `model`, and `adapter` where one is saved -> name; empty where neither folder nor
        cache has it.
    """
    model = look_up("model.path", config.path, config.revision, root)
    identities = {"model": identify(model)}
    if isinstance(config.adapter, str):
        name, revision = config.adapter, config.adapter_revision
        adapter = look_up("model.adapter", name, revision, root)
        identities["adapter"] = identify(adapter, "adapter_config.json")
    return identities
