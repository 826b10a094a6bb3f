"""Settings as a trainer is given them: a file that is a mapping, words, or typed by hand.

Files are those that TRL and verl write or read themselves: a mapping in YAML or JSON, the
`config.yaml` of Weights & Biases with a `value` under each name, Hydra's `overrides.yaml`.
Words are nested by the dots in their names, and then read as a file is. Settings have their
names in the table `trainers.yaml`, others those that they came with. A setting that stands
where the trainer does not read it, is misspelt, or is another trainer's, is refused rather
than passed over. Misspelt is a name near to one of the table that is none of the trainer's.
"""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from mse_lab.config.probe_files import leaves, put
from mse_lab.config.trainers import OTHERS, TRAINERS, SettingRow, Trainer
from mse_lab.errors import InputError, nearest, shown
from mse_lab.records.plain_text import parse_json, parse_yaml, read_text

TWO_WAYS = (
    "give a mapping by --config (TRL's YAML or JSON, or the resolved YAML that verl "
    "saves), or the trainer's own words behind --training"
)
OWN_WORDS = "give --G, --completions-per-step and --estimator instead"

# A key of Hydra's command line.
_KEY = re.compile(r"[+~]*[A-Za-z_][\w.@/-]*")

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


# Truth values as TRL's scripts take them, beside true and false.
SWITCHES = {"yes": True, "y": True, "t": True, "no": False, "n": False, "f": False}

# Two names that are alike: a misspelt one, where it is none of the trainer's own.
MOST_LETTERS, LEAST_ALIKE = 4, 0.75


def is_misspelt(name: str, known: str) -> bool:
    """Whether a name hardly differs from a known one, or is its first words.

    >>> [is_misspelt(name, "top_p") for name in ("topp", "top_p_end", "top_max_p", "stop")]
    [True, False, False, False]
    """
    name = name.replace("-", "_").lower()
    if "_" in name.rpartition(".")[2] and known.startswith(name):
        return True
    match = difflib.SequenceMatcher(None, name, known, autojunk=False)
    apart = (len(name) + len(known)) * (1 - match.ratio())
    if round(apart) > MOST_LETTERS or {*known.split("_")} < {*name.split("_")}:
        return False
    match.set_seqs(*(one.rpartition(".")[2] for one in (name, known)))
    return match.ratio() >= LEAST_ALIKE


def _nested(value: Any, row: SettingRow | None) -> Any:
    """Read a value; of a row that takes several a list, and a mapping, as texts, too."""
    is_switch = row and (isinstance(row.default, bool) or row.fine == (0,))
    if is_switch and isinstance(value, str) and value.lower() in SWITCHES:
        return SWITCHES[value.lower()]
    if isinstance(value, str) and value[:1] in ("[", "{"):  # TRL's `to_sanitized_dict`.
        with suppress(InputError):
            read = parse_yaml(value, "a text")
            return read if isinstance(read, dict) or (row and row.many) else value
    return normal(value)


def _collect(values: Mapping[str, Any], trainer: Trainer, where: str) -> Settings:
    """Name nested settings as the table does, each once; refuse what is nearly one."""
    settings: Settings = {}

    def refuse_section(section: str, known: str) -> NoReturn:
        refuse_other([f"{section}.{known}"], trainer, where)
        raise InputError(
            f"{where}: {known} stands in the section {section}, where {trainer.title} does "
            "not look; give the settings of that section alone"
        )

    found = leaves(values, trainer.owns)  # One of the trainer's is not gone into.
    given = [one for one in found if one[1] not in (None, {}) or trainer.owns(one[0])]
    for spelling, value in given:
        inside = leaves(value) if isinstance(value, Mapping) else ()
        for known in filter(None, (trainer.find(name) for name, _ in inside)):
            if known == trainer.size or spelling == trainer.file:  # It would be lost.
                refuse_section(spelling, known)
        name = trainer.find(spelling) or spelling
        if name in settings:
            raise InputError(f"{where}: {name} is set twice; leave one out")
        settings[name] = _nested(value, trainer.settings.get(name))
    for spelling in (name for name, _ in given if not trainer.owns(name)):
        for known, name in trainer.spellings.items():
            if spelling.endswith(f".{known}"):
                if name not in settings:  # Else it may be another program's.
                    refuse_section(spelling.removesuffix(f".{known}"), known)
            elif is_misspelt(spelling, known) or trainer.misplaces(spelling, known):
                line = f"unknown setting {spelling}; did you mean {known}?"
                raise InputError(f"{where}: {line}")
    return settings


def _of_wandb(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Take settings out of the `value` under which Weights & Biases keeps each.

    >>> _of_wandb({"wandb_version": 1, "beta": {"desc": None, "value": 0.1}})
    {'beta': 0.1}
    >>> _of_wandb({"actor": {"value": 1, "n": 2}})
    {'actor': {'value': 1, 'n': 2}}
    """
    kept = {
        name: entry["value"]
        for name, entry in values.items()
        if isinstance(entry, Mapping) and {"value"} <= {*entry} <= {"value", "desc"}
    }
    others = {*values} - {*kept} - {"wandb_version"}
    kept.pop("_wandb", None)
    return values if others or not kept else kept


def _read_file(path: Path, trainer: Trainer) -> Settings:
    """Read the settings of a file of YAML or JSON, each once."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"{path}: no YAML or JSON; scripts are not read: {TWO_WAYS}")
    read = parse_json if path.suffix == ".json" else parse_yaml
    values = read(read_text(path), str(path))
    if isinstance(values, list) and values and all(map(_is_override, values)):
        return _read_words(values, trainer, str(path))
    if not values or not isinstance(values, Mapping):
        raise InputError(f"{path}: holds no mapping of settings to values; {TWO_WAYS}")
    return _collect(_of_wandb(values), trainer, str(path))


def _is_override(word: Any) -> bool:
    """Whether a line of Hydra's `overrides.yaml` sets or deletes something."""
    key, equals, _ = word.partition("=") if isinstance(word, str) else ("", "", "")
    return bool(_KEY.fullmatch(key)) and bool(equals or key.startswith("~"))


def _pairs(words: Sequence[str], where: str) -> list[tuple[str, list[str]]]:
    """Take `key=value`, `--key value ...` and `--key=value` apart."""
    pairs: list[tuple[str, list[str]]] = []
    is_open = False
    for word in words:
        key, equals, value = word.partition("=")
        if _is_override(word) or re.fullmatch(r"--?[A-Za-z_][\w.-]*", key):
            pairs.append((key.lstrip("-+").replace("-", "_"), [value] if equals else []))
            is_open = not equals
        elif is_open:
            pairs[-1][1].append(word)
        else:
            raise InputError(
                f"{where}: {shown(word)} is neither key=value nor --key value; give the "
                "words that follow the name of the trainer's program"
            )
    return pairs


def _value_of(texts: Sequence[str], where: str) -> Any:
    """Read the words behind a name, none for a switch."""
    first, last = (texts[0][:1], texts[0][-1:]) if len(texts) == 1 else ("", "")
    if first in ("[", "{") or (first in ("'", '"') and first == last):  # Hydra's.
        blank = ": " if first == "{" else ":"  # Hydra's mappings need none.
        return parse_yaml(re.sub(r":(?! )", blank, texts[0]), where)
    values = [normal(text) for text in texts]
    return values if len(values) > 1 else values[0] if values else True


def _read_words(words: Sequence[str], trainer: Trainer, where: str) -> Settings:
    """Find the settings in a trainer's words; of two the last counts, as it does there."""
    nested: dict[str, Any] = {}
    for name, texts in _pairs(words, where):
        more = re.findall(r"\s[-+~]*([A-Za-z_][\w.@/-]*)=", " ".join(texts))
        for other in filter(trainer.owns, more if trainer.find(name) else ()):
            # By a shell's quotes; the name of a run may be any text.
            raise InputError(f"{where}: {name} and {other} are one word; part them")
        switched_off = trainer.find(name.removeprefix("no_"))
        if not texts and switched_off and not trainer.find(name):
            put(nested, switched_off, False, where)
        elif not name.startswith("~"):
            put(nested, name, _value_of(texts, f"{where}: {name}"), where)
        elif trainer.find(name.lstrip("~")):
            raise InputError(f"{where}: {name} takes a setting away; give its value")
    settings = _collect(nested, trainer, where)
    file = settings.get(trainer.file or "")
    return settings if file is None else _read_file(Path(str(file)), trainer) | settings


def read_given(
    config: str | None, words: Sequence[str] | None, trainer: Trainer
) -> Settings:
    """Read what a file and a trainer's words say; the words come first."""
    if (config, words) != (None, None) and trainer.names is None:
        option = "--training" if config is None else config
        raise InputError(f"{option}: {trainer.title} is not read; {OWN_WORDS}")
    settings = {} if config is None else _read_file(Path(config), trainer)
    if words is None:
        return settings
    if not words:
        raise InputError("--training: no words; give those of the trainer's command")
    return settings | _read_words(words, trainer, "--training")


def read_typed(values: Mapping[str, Any], trainer: Trainer) -> Settings:
    """Find the settings typed by hand, last parts of names too; refuse others."""
    settings = Settings()
    for key, value in values.items():
        whole = [name for name in trainer.settings if f".{name}".endswith(f".{key}")]
        name = trainer.find(key) or (whole[0] if len(whole) == 1 else None)
        if name is None:
            what = f"training: {key}"
            if trainer.owns(key):
                raise InputError(f"{what} has no effect on the answer; leave it out")
            ends = {one.rpartition(".")[2] for one in trainer.settings}
            hint = nearest(key, sorted({*ends, *trainer.spellings}))
            raise InputError(f"{what} is no setting of {trainer.title}; {hint}")
        settings[name] = normal(value)
    return settings


def class_of(names: Iterable[str], key: str, where: str) -> str:
    """Name the trainer whose class has settings: TRL's RLOO where GRPO has not all."""
    own, given = TRAINERS[key], {*names}
    for other, trainer in TRAINERS.items():
        if trainer.like == key and (theirs := given & (trainer.own_names - own.own_names)):
            if ours := given & (own.own_names - trainer.own_names):
                raise InputError(
                    f"{where}: {min(theirs)} is a setting of {trainer.title} alone, "
                    f"{min(ours)} one that it has not; leave one out"
                )
            return other
    return key


def refuse_other(names: Collection[str], trainer: Trainer, where: str) -> None:
    """Refuse settings that are another trainer's.

    A model or a user may have one of such a name, too, so of another package's they are
    refused only where there is no group size.
    """
    for name in (name.replace("-", "_") for name in names if not trainer.owns(name)):
        is_of = f"{where}: {name} is a setting of"
        for key, other in TRAINERS.items():
            foreign = other.size == trainer.size or trainer.size not in names
            if foreign and other.owns(name):
                raise InputError(f"{is_of} {other.title}; give --trainer {key}")
        if title := OTHERS.get(name, OTHERS.get(name.rpartition(".")[2])):
            raise InputError(f"{is_of} {title}, which is not read; {OWN_WORDS}")


def refuse_without_size(settings: Settings, trainer: Trainer, where: str) -> None:
    """Refuse settings of which no group size was read, unless all are the trainer's own.

    Then its default holds, if that is a group.
    """
    own, default = all(map(trainer.owns, settings)), trainer.settings[trainer.size].default
    if trainer.size not in settings and not (own and default > 1):
        raise InputError(
            f"{where}: no {trainer.size}, the group size of {trainer.title}, was read; add "
            f"it (its default is {default}), or give --G"
        )
