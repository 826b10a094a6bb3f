"""Settings as a trainer is given them: a file that is a mapping, words, or typed by hand.

Each reader gives the settings by their names in the table `trainers.yaml`; others keep the
name that they came with. A setting that stands where the trainer does not read it, is
misspelt, or is another trainer's, is refused rather than passed over.
"""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mse_lab.config.trainers import OTHERS, TRAINERS, Trainer
from mse_lab.errors import InputError, shown
from mse_lab.records.plain_text import parse_json, parse_yaml, read_text

TWO_WAYS = (
    "give a mapping by --config (TRL's YAML or JSON, or the resolved YAML that a trainer "
    "saves), or the trainer's own words behind --training"
)

Settings = dict[str, Any]  # By their names in the table, else by those that they have.


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
) -> Iterator[tuple[str, Any]]:
    """Yield nested settings by dotted names; a setting of the table is not gone into."""
    for key, value in values.items():
        name = f"{above}{key}"
        if not isinstance(value, Mapping) or not value or trainer.find(name):
            yield name, normal(value)
        elif name not in trainer.apart:
            yield from _leaves(value, trainer, f"{name}.")


def _letters_apart(one: str, other: str) -> int:
    """Count the letters of two names that the other one lacks.

    >>> _letters_apart("num_generatons", "num_generations"), _letters_apart("bata", "beta")
    (1, 2)
    """
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return len(one) + len(other) - 2 * sum(block.size for block in blocks)


# Of TRL's settings, longer names aside, none is so near to another one.
MOST_LETTERS, LEAST_ALIKE = 4, 0.75


def _refuse_misspelt(spelling: str, known: Iterable[str], where: str) -> None:
    """Refuse a name that hardly differs from a known one, where no words follow it."""
    name = spelling.replace("-", "_")
    for near in difflib.get_close_matches(name, known, cutoff=LEAST_ALIKE):
        end, known_end = (one.rpartition(".")[2] for one in (name, near))
        alike = difflib.get_close_matches(end, [known_end], cutoff=LEAST_ALIKE)
        longer = name.startswith(f"{near}_")
        if alike and not longer and _letters_apart(name, near) <= MOST_LETTERS:
            raise InputError(f"{where}: unknown setting {spelling}; did you mean {near}?")


def _name_of(spelling: str, trainer: Trainer, where: str) -> str:
    """Give a setting's name in the table, its own where it is none of the table's."""
    if name := trainer.find(spelling):
        return name
    for known in trainer.settings:
        if spelling.endswith(f".{known}"):
            section = spelling.removesuffix(f".{known}")
            raise InputError(
                f"{where}: {known} stands in the section {section}, where {trainer.title} "
                "does not look; give the settings of that section alone"
            )
    _refuse_misspelt(spelling, trainer.spellings, where)
    return spelling


def _read_file(path: Path, trainer: Trainer) -> Settings:
    """Read the settings of a file of YAML or JSON, each once."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"{path}: no YAML or JSON; scripts are not read: {TWO_WAYS}")
    read = parse_json if path.suffix == ".json" else parse_yaml
    values = read(read_text(path), str(path))
    if not values or not isinstance(values, Mapping):
        raise InputError(f"{path}: holds no mapping of settings to values; {TWO_WAYS}")
    settings: Settings = {}
    for spelling, value in _leaves(values, trainer):
        name = _name_of(spelling, trainer, str(path))
        if name in settings:
            raise InputError(f"{path}: {name} is set twice; leave one out")
        settings[name] = value
    return settings


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


def _read_words(words: Sequence[str], trainer: Trainer) -> Settings:
    """Find the settings in a trainer's words; of two the last counts, as it does there."""
    settings: Settings = {}
    for spelling, texts in _pairs(words):
        switched_off = trainer.find(re.sub("^no[_-]", "", spelling))
        if not texts and switched_off and not trainer.find(spelling):
            settings[switched_off] = False
            continue
        if spelling.startswith("~") and trainer.find(spelling.lstrip("~")):
            raise InputError(f"--training: {spelling} takes a setting away; give its value")
        values = {spelling: _value_of(texts, spelling, trainer)}
        for name, value in _leaves(values, trainer):
            settings[_name_of(name, trainer, "--training")] = value
    file = settings.get(trainer.file or "")
    return settings if file is None else _read_file(Path(str(file)), trainer) | settings


def read_given(
    config: str | None, words: Sequence[str] | None, trainer: Trainer
) -> Settings:
    """Read what a file and a trainer's words say; the words come first."""
    settings = {} if config is None else _read_file(Path(config), trainer)
    if words is None:
        return settings
    if not words:
        raise InputError("--training: no words; give those of the trainer's command")
    return settings | _read_words(words, trainer)


def read_typed(
    values: Mapping[str, Any], trainer: Trainer
) -> tuple[Settings, tuple[str, ...]]:
    """Find the settings typed by hand, last parts of names too; and say unknown ones."""
    settings, unknown = Settings(), list[str]()
    ends = {name.rpartition(".")[2] for name in trainer.settings}
    for key, value in values.items():
        whole = [name for name in trainer.settings if f".{name}".endswith(f".{key}")]
        if name := trainer.find(key) or (whole[0] if len(whole) == 1 else None):
            settings[name] = normal(value)
        else:
            _refuse_misspelt(key, {*ends, *trainer.spellings}, "training")
            unknown.append(f"{key} = {value}")
    return settings, tuple(unknown)


def refuse_other(names: Iterable[str], trainer: Trainer, where: str) -> None:
    """Refuse settings that are another trainer's."""
    others = {name: f"of {title}, which is not read" for title, name in OTHERS.items()}
    for key, other in TRAINERS.items():
        sizes = (other.size, *other.settings[other.size].also)
        for spelling in (*sizes, other.mark or other.size):
            others.setdefault(spelling, f"of {other.title}; give --trainer {key}")
    for name in names:
        plain = name.replace("-", "_")
        for spelling in (plain, plain.rpartition(".")[2]):
            if spelling in others and not trainer.find(spelling):
                raise InputError(f"{where}: {name} is a setting {others[spelling]}")


def refuse_without_size(settings: Settings, trainer: Trainer, where: str) -> None:
    """Refuse settings of which no group size was read."""
    if trainer.size not in settings:
        raise InputError(
            f"{where}: no {trainer.size}, {trainer.title}'s group size, was read; add it "
            f"(its default is {trainer.settings[trainer.size].default}), or give --G"
        )
