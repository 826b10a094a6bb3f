"""Trainers: what their settings amount to, read from the table `trainers.yaml`.

A setting may have several spellings; dashes and underscores are one. Where a trainer is
`like` another one, its rows come over the other's. Beside the table stand the names of all
settings that a trainer has: a name that is one of them is not misspelt.
"""

import itertools
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mse_lab.records.plain_text import parse_yaml, read_text

TABLE = Path(__file__).with_name("trainers.yaml")
NAMES = Path(__file__).with_name("names")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _is_off(value: Any) -> bool:
    """Whether a value switches a setting off.

    >>> [_is_off(value) for value in (None, False, 0.0, {}, "none", 1, "k3")]
    [True, True, True, True, True, False, False]
    """
    return not value or value == "none"


class SettingRow(_Part):
    """A setting: its default, spellings, and which values are counted in."""

    default: Any = None
    same_as: str | None = None
    also: tuple[str, ...] = ()
    takes: tuple[Any, ...] = ()
    elsewhere: tuple[Any, ...] = ()
    many: bool = False
    fine: tuple[Any, ...] | None = None
    with_: str | None = Field(default=None, alias="with")
    probe: str | None = None

    def allows(self, value: Any) -> bool:
        """Whether the gradient stays the estimator's at a value."""
        values = value if isinstance(value, list) else [value]
        if self.fine is None:
            return len(values) < 2
        if _is_off(value):
            return any(map(_is_off, self.fine))
        return all(one in self.fine for one in values)


class WeightsSetting(_Part):
    """The estimator at some values of settings; in a group of one maybe another."""

    when: dict[str, tuple[Any, ...]]
    is_: dict[str, Any] = Field(alias="is")
    alone: dict[str, Any] | None = None

    def holds(self, value: Callable[[str], Any]) -> bool:
        """Whether the settings have the values of this row."""
        return all(value(name) in known for name, known in self.when.items())


class StepAndDraw(NamedTuple):
    """Completions of a step of the optimiser, and of the draw that it takes them from."""

    step: int
    drawn: int
    unit: int  # Both are a multiple of this many.
    passes: int = 1  # How often a draw is gone through before the next one.

    @property
    def distinct(self) -> int:
        """Completions of a step, of which those that it takes twice count once.

        >>> StepAndDraw(step=16, drawn=8, unit=8, passes=2).distinct
        8
        """
        whole, rest = divmod(self.step, self.drawn * self.passes)
        return whole * self.drawn + min(rest, self.drawn)


class Batch(_Part):
    """The batch, as products of settings and of the group size, `size`; in completions."""

    step: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    drawn_in_all: str = ""
    told: str = ""
    unit: tuple[str, ...] = ()
    unless: dict[str, tuple[Any, ...]] = {}
    within: bool = False
    passes: tuple[str, ...] = ()


class Trainer(_Part):
    """A trainer, under the names of its own settings."""

    title: str
    version: str = ""
    names: str | None = None
    size: str
    least: int = 1
    like: str | None = None
    file: str | None = None
    assumed: dict[str, Any] = {}
    settings: dict[str, SettingRow]
    must_be_off: tuple[str, ...] = ()
    estimators: tuple[WeightsSetting, ...] = ()
    length: dict[str, dict[str, str | None]] = {}
    batch: Batch = Batch()
    writes: tuple[str, str] = ("{name}={value}", " ")
    baselines: dict[str, str] = {}
    needs: dict[str, tuple[Any, ...]] = {}

    @cached_property
    def spellings(self) -> dict[str, str]:
        """All names of the table's settings, and which setting each is."""
        rows = self.settings.items()
        return {other: name for name, row in rows for other in (name, *row.also)}

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names of all its settings, those of the table among them."""
        listed = read_text(NAMES / self.names).split() if self.names else ()
        return frozenset(listed) | frozenset(self.spellings)

    def owns(self, name: str) -> bool:
        """Whether a name is one of its settings, of the table or not."""
        return name.replace("-", "_") in self.own_names

    def find(self, name: str) -> str | None:
        """Find the setting that a name stands for; None if it is no row of the table."""
        return self.spellings.get(name.replace("-", "_"))

    def misplaces(self, name: str, known: str) -> bool:
        """Whether a name is a setting's in another section of the trainer's, or in none."""
        section, last = name.partition(".")[0], known.rpartition(".")[2]
        if known.endswith(f".{name}"):
            return "." in name or ".rollout." not in known  # A model's config has such.
        in_section = (one.startswith(f"{section}.") for one in self.own_names)
        return "_" in last and name.endswith(f".{last}") and any(in_section)

    def values_of(self, name: str) -> list[str]:
        """The texts that say, as a setting's value, which estimator or objective it is."""
        rows = [row.when.get(name, ()) for row in self.estimators]
        known = itertools.chain(*rows, self.settings[name].elsewhere)
        return sorted({one for one in known if isinstance(one, str)})

    def write(self, settings: Mapping[str, Any]) -> str:
        """Write settings as they are typed."""
        form, joint = self.writes
        return joint.join(form.format(name=name, value=settings[name]) for name in settings)


def _names_of(trainer: Mapping[str, Any]) -> set[str]:
    return {*read_text(NAMES / trainer["names"]).split()} if "names" in trainer else set()


def _rows(trainer: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Give a trainer's rows: its own, and those of another that it has, too."""
    lost = _names_of(like) - _names_of(trainer)
    both = {name: row for name, row in like.get("settings", {}).items() if name not in lost}
    off = {name: {"fine": (0,)} for name in trainer.get("must_be_off", ())}
    return both | off | trainer["settings"]


def _read_table() -> tuple[dict[str, Trainer], dict[str, str]]:
    table = parse_yaml(read_text(TABLE), str(TABLE))
    others = table.pop("others")
    for name, values in table.items():
        like = table.get(values.get("like"), {})
        table[name] = {**like, **values, "settings": _rows(values, like)}
    marks = {name: title for title, names in others.items() for name in names}
    return {name: Trainer(**values) for name, values in table.items()}, marks


# The trainers; and of others a setting of theirs -> their name.
TRAINERS, OTHERS = _read_table()
