"""What was read of a GGUF file, kept as a checkpoint for the next command.

To dequantise weights and to convert a tokenizer takes minutes of a large file, to read both
again a second. They lie where the Hub's client keeps such files (`HF_ASSETS_CACHE`, else
`HF_HOME/assets`, else `~/.cache/huggingface/assets`) in `mse_lab/gguf`, a folder for each
file, precision and set of versions that read it. Any of them may be removed at any time.

An entry has its files' digests in `CACHE_MANIFEST`. One that does not agree with them is
neither read nor replaced: whatever has changed it, this did not write it. Entries appear
whole or not at all, and one process writes at a time. What transformers would not read back
as it was (it converts some names of weights, and some classes of tokenizers) is not kept.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import transformers
from filelock import FileLock, Timeout
from huggingface_hub import constants
from safetensors import safe_open

from mse_lab.config.schema import Model
from mse_lab.console import complain
from mse_lab.data.identity import digest
from mse_lab.errors import in_short
from mse_lab.formatting import byte_size
from mse_lab.policy.location import Location

CACHE_MANIFEST = "manifest.json"

# What decides which numbers are read of a file. The first is this module's own.
VERSIONS = {"kept": "1"}
LIBRARIES = ("transformers", "tokenizers", "gguf")

# Reads a tokenizer as its file has it. AutoTokenizer's choice by the model's type would
# replace how a text is split, which a GGUF file may say otherwise.
TOKENIZER = transformers.PreTrainedTokenizerFast


def _key(location: Location, identity: str, config: Model) -> str:
    """Hash all that what is read depends on: the file, the precision, the readers."""
    versions = VERSIONS | {name: metadata.version(name) for name in LIBRARIES}
    return digest([location.gguf, identity, config.dtype, versions])


def _digests(folder: Path) -> dict[str, str]:
    """Hash every file of an entry but its manifest."""
    digests = {}
    for path in sorted(folder.iterdir()):
        if path.name != CACHE_MANIFEST:
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _manifest(key: str, digests: Mapping[str, str]) -> str:
    return json.dumps({"key": key, "sha256": digests}, indent=2) + "\n"


def _describe(tokenizer: Any) -> list[Any]:
    """All that tokens and texts depend on."""
    special = (tokenizer.all_special_tokens, tokenizer.all_special_ids)
    rest = (tokenizer.chat_template, tokenizer.clean_up_tokenization_spaces)
    return [tokenizer.backend_tokenizer.to_str(), *special, *rest, tokenizer.eos_token_id]


def _settings(settings: Any) -> dict[str, Any]:
    left_out = ("_name_or_path", "architectures", "transformers_version")
    values: dict[str, Any] = settings.to_dict()
    return {name: value for name, value in values.items() if name not in left_out}


def _reads_back(part: Path, model: Any, tokenizer: Any) -> bool:
    """Whether the files of an entry give the tokenizer, settings and names they are of."""
    names: set[str] = set()
    for path in part.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            names |= set(file.keys())
    settings = transformers.AutoConfig.from_pretrained(part)
    return (
        names <= model.state_dict().keys()
        and _settings(settings) == _settings(model.config)
        and _describe(TOKENIZER.from_pretrained(part)) == _describe(tokenizer)
    )


class Entry:
    """The place of one GGUF file's weights and tokenizer."""

    def __init__(self, location: Location, identity: str, config: Model) -> None:
        self._key = _key(location, identity, config)
        self._location = location
        self.folder = Path(constants.HF_ASSETS_CACHE, "mse_lab", "gguf", self._key[:32])

    def find(self) -> Location | None:
        """Find what an earlier command kept; say so where it is not as it was kept."""
        try:
            if not self.folder.exists():
                return None
            written = (self.folder / CACHE_MANIFEST).read_text(encoding="utf-8")
            if written == _manifest(self._key, _digests(self.folder)):
                return replace(self._location, local=self.folder, gguf=None)
            reason = "its files have changed"
        except (OSError, UnicodeError) as error:
            reason = in_short(error)
        complain(f"{self.folder} is left out: {reason}; remove it, and it is made anew")
        return None

    def keep(self, model: Any, tokenizer: Any) -> None:
        """Keep a model and its tokenizer; say where, or why not.

        Nothing is said where something stands there, or another process is writing.
        """
        part = self.folder.with_suffix(".part")
        try:
            if self.folder.exists():
                return
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder.with_suffix(".lock"), timeout=0):
                shutil.rmtree(part, ignore_errors=True)  # What a kill has left.
                try:
                    size = self._write(part, model, tokenizer)
                    part.rename(self.folder)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
        except Timeout:
            return
        except Exception as error:  # Of a disk, or of transformers: it may be any.
            complain(f"{self.folder}: weights not kept for next time: {in_short(error)}")
            return
        complain(
            f"weights kept for next time ({byte_size(size)}; remove it whenever you "
            f"like): {self.folder}"
        )

    def _write(self, part: Path, model: Any, tokenizer: Any) -> int:
        """Write an entry's files; return their bytes."""
        part.mkdir()
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        if not _reads_back(part, model, tokenizer):
            raise OSError("transformers would read another model back")
        written = _manifest(self._key, _digests(part))
        (part / CACHE_MANIFEST).write_text(written, encoding="utf-8")
        return sum(path.stat().st_size for path in part.iterdir())
