"""Settings as a trainer is given them: a file that is a mapping, words, or typed by hand.

Each reader gives the settings by their names in the table `trainers.yaml`; others keep the
name that they came with. A setting that stands where the trainer does not read it, or that
is another trainer's, is refused rather than passed over.
"""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError, shown
from mse_lab.probe.plain_text import parse_json, parse_yaml, read_text
from mse_lab.probe.trainers import OTHERS, TRAINERS, Trainer

TWO_WAYS = (
    "give a mapping by --config (TRL's YAML or JSON, or the resolved YAML that a trainer "
    "saves), or the trainer's own words behind --training"
)

CHECKPOINT_SUFFIXES = (".bin", ".pt", ".pkl", ".pickle")


class Given(NamedTuple):
    """A setting as it was given."""

    spelling: str
    value: Any

    def __str__(self) -> str:
        return f"{self.spelling} = {self.value}"


Settings = dict[str, Given]


def normal(value: Any) -> Any:
    """Read texts that are numbers, truth values or nothing, as trainers do.

    >>> [normal(text) for text in ("1e-3", "16", "True", "null", "none", "grpo")]
    [0.001, 16, True, None, 'none', 'grpo']
    """
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value in ("None", "null", ""):
        return None
    for kind in (int, float):
        try:
            if math.isfinite(number := kind(value)):
                return number
        except ValueError:
            continue
    return value


def _leaves(
    values: Mapping[str, Any], trainer: Trainer, above: str = ""
) -> Iterator[Given]:
    """Yield nested settings by dotted names; a setting of the table is not gone into."""
    for key, value in values.items():
        name = f"{above}{key}"
        if not isinstance(value, Mapping) or not value or trainer.find(name):
            yield Given(name, normal(value))
        elif name not in trainer.apart:
            within = "" if name in trainer.sections else f"{name}."
            yield from _leaves(value, trainer, within)


def _refuse_nested(name: str, trainer: Trainer, where: str) -> None:
    for known in trainer.settings:
        if name.endswith(f".{known}"):
            section = name.removesuffix(f".{known}")
            raise InputError(
                f"{where}: {known} stands in the section {section}, where {trainer.title} "
                "does not look; give the settings of that section alone"
            )


def read_mapping(values: Mapping[str, Any], trainer: Trainer, where: str) -> Settings:
    """Find the settings of a mapping, each once; `where` names it in messages."""
    found: Settings = {}
    for given in _leaves(values, trainer):
        name = trainer.find(given.spelling)
        if name is None:
            _refuse_nested(given.spelling, trainer, where)
        elif name in found:
            raise InputError(
                f"{where}: {found[name]} and {given} are one setting; leave one out"
            )
        found[name or given.spelling] = given
    return found


def read_file(path: Path, trainer: Trainer) -> Settings:
    """Read the settings of a file of YAML or JSON."""
    if path.suffix in CHECKPOINT_SUFFIXES:
        raise InputError(f"{path}: a pickle, which is not read; {TWO_WAYS}")
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"{path}: no YAML or JSON; scripts are not read: {TWO_WAYS}")
    read = parse_json if path.suffix == ".json" else parse_yaml
    values = read(read_text(path), str(path))
    if values is not None and not isinstance(values, Mapping):
        raise InputError(f"{path}: not a mapping of settings to values; {TWO_WAYS}")
    if not values:
        raise InputError(f"{path}: holds no settings; {TWO_WAYS}")
    return read_mapping(values, trainer, str(path))


def _pairs(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Take `key=value`, `--key value ...` and `--key=value` apart."""
    pairs: list[tuple[str, list[str]]] = []
    is_open = False
    for word in words:
        key, equals, value = word.partition("=")
        bare = equals and re.fullmatch(r"[+~]*[A-Za-z_][\w.@/-]*", key)
        if bare or re.match(r"--?[A-Za-z_]", word):
            pairs.append((key.lstrip("-+"), [value] if equals else []))
            is_open = not equals
        elif is_open:
            pairs[-1][1].append(word)
        else:
            raise InputError(
                f"--training: {shown(word)} is neither key=value nor --key value; give the "
                "words that follow the name of the trainer's program"
            )
    return pairs


def _value_of(texts: Sequence[str], name: str, trainer: Trainer) -> Any:
    """Read the words behind a name, none for a switch."""
    known = trainer.find(name)
    if len(texts) > 1 and known and not trainer.settings[known].many:
        raise InputError(f"--training: {name} {' '.join(texts)}: takes one value")
    values = [normal(text) for text in texts]
    if len(texts) == 1 and texts[0][:1] in ("[", "{"):  # A list or a mapping of Hydra's.
        return parse_yaml(texts[0], f"--training: {name}")
    return values if len(values) > 1 else values[0] if values else True


def read_words(words: Sequence[str], trainer: Trainer) -> Settings:
    """Find the settings in a trainer's words; of two the last counts, as it does there."""
    found: Settings = {}
    for name, texts in _pairs(words):
        switched_off = trainer.find(re.sub("^no[_-]", "", name))
        if not texts and switched_off and not trainer.find(name):
            found[switched_off] = Given(switched_off, False)
            continue
        if name.startswith("~") and trainer.find(name.lstrip("~")):
            raise InputError(f"--training: {name} takes a setting away; give its value")
        values = {name: _value_of(texts, name, trainer)}
        for given in _leaves(values, trainer):
            known = trainer.find(given.spelling)
            if known is None:
                _refuse_nested(given.spelling, trainer, "--training")
            found[known or given.spelling] = given
    file = found.get(trainer.file or "")
    return found if file is None else read_file(Path(str(file.value)), trainer) | found


def read_typed(
    values: Mapping[str, Any], trainer: Trainer
) -> tuple[Settings, tuple[str, ...]]:
    """Find the settings typed by hand, last parts of names too; and unknown ones."""
    found, unknown = dict[str, Given](), list[str]()
    for key, value in values.items():
        whole = [name for name in trainer.settings if f".{name}".endswith(f".{key}")]
        name = trainer.find(key) or (whole[0] if len(whole) == 1 else None)
        if name is not None:
            found[name] = Given(key, normal(value))
            continue
        ends = {name.rpartition(".")[2] for name in trainer.settings}
        known = [*ends, *trainer.settings]
        if close := difflib.get_close_matches(key, known, n=1, cutoff=0.8):
            raise InputError(f"training: unknown setting {key}; did you mean {close[0]}?")
        unknown.append(str(Given(key, value)))
    return found, tuple(unknown)


def refuse_other(found: Iterable[str], trainer: Trainer, where: str) -> None:
    """Refuse settings that are another trainer's."""
    others = {name: f"of {title}, which is not read" for title, name in OTHERS.items()}
    for key, other in TRAINERS.items():
        for spelling in (other.size, *other.settings[other.size].also):
            others.setdefault(spelling, f"of {other.title}; give --trainer {key}")
    for name in found:
        plain = name.replace("-", "_")
        for spelling in (plain, plain.rpartition(".")[2]):
            if spelling in others and not trainer.find(spelling):
                raise InputError(f"{where}: {name} is a setting {others[spelling]}")


def refuse_without_size(found: Mapping[str, Given], trainer: Trainer, where: str) -> None:
    """Refuse settings of which no group size was read."""
    if trainer.size in found:
        return
    ends = {name.rpartition(".")[2]: name for name in found}
    last = trainer.size.rpartition(".")[2]
    close = difflib.get_close_matches(last, [*ends], n=1, cutoff=0.8)
    hint = f"; is {ends[close[0]]} meant?" if close else ""
    raise InputError(
        f"{where}: no {trainer.size}, {trainer.title}'s group size, was read{hint}; add it "
        f"(its default is {trainer.settings[trainer.size].default}), or give --G"
    )


def dialect_of(name: str, found: Iterable[str]) -> str:
    """Name the trainer that settings are of: one that is like it may have a mark."""
    names = {one.replace("-", "_") for one in found}
    like = [key for key, one in TRAINERS.items() if one.like == name and one.mark in names]
    return like[0] if like else name
