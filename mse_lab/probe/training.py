"""The user's training: what its settings amount to, by the table `trainers.yaml`.

They are read from a file (`config`), from the words that the trainer itself gets (`words`)
or as they stand in a probe's `training`, and hold for one update a batch, where nothing is
clipped and all importance ratios are one. What else changes a gradient is named in
`Setting.uncounted`; settings that have nothing to do with it are passed over, except those
typed by hand. A batch that the trainer would refuse is refused. Without settings it is TRL
with its defaults.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError, shown
from mse_lab.probe.given_settings import (
    Given,
    Settings,
    dialect_of,
    read_file,
    read_typed,
    read_words,
    refuse_other,
    refuse_without_size,
)
from mse_lab.probe.probe_files import parse_as
from mse_lab.probe.schema import EstimatorEntry, Probe, Training
from mse_lab.probe.trainers import TRAINERS, Trainer


class StepAndDraw(NamedTuple):
    """Completions of a step of the optimiser, and of the draw that it takes them from."""

    step: int
    drawn: int
    unit: int  # Both are a multiple of this many.


class Setting(NamedTuple):
    """What the user trains with."""

    trainer: str  # One of `TRAINERS`.
    group_size: int
    estimator: EstimatorEntry | None  # None where none of ours computes it.
    named: str  # The settings that say so, under the trainer's names.
    given: bool  # Whether any were read; else they are assumed.
    # Settings that change the gradient, and that no number here allows for.
    uncounted: tuple[str, ...] = ()
    completions_per_step: int | None = None  # N; None where it is not known.
    values: Mapping[str, Any] = {}  # The settings of the table that were given.

    @property
    def batch(self) -> StepAndDraw | None:
        """The batch that the settings say; None where they do not."""
        trainer = TRAINERS[self.trainer]
        if not trainer.knows_batch(self.values):
            return None
        return _multiply(trainer, self.group_size, self.values)


class _Reading(NamedTuple):
    """Settings to interpret."""

    trainer: Trainer
    found: Settings
    where: str  # Names their source in messages.
    complete: bool = False  # Whether what is not there is at its default.

    @property
    def values(self) -> dict[str, Any]:
        rows = self.trainer.settings
        return {name: one.value for name, one in self.found.items() if name in rows}

    def value(self, name: str) -> Any:
        return self.trainer.value(name, self.values)

    def list(self, names: Iterable[str]) -> str:
        """Name settings and their values, each once; not those of no value."""
        values = {name: self.value(name) for name in names}
        return ", ".join(str(Given(*one)) for one in values.items() if one[1] is not None)

    def refuse(self, fault: str) -> InputError:
        return InputError(f"{self.where}: {fault}")

    def whole(self, name: str) -> int:
        """Read a whole number from 1."""
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            remedy = ", or --G" if name == self.trainer.size else ""
            raise self.refuse(f"{name} = {shown(value)}: give a number above zero{remedy}")
        return value


def _multiply(trainer: Trainer, size: int, values: Mapping[str, Any]) -> StepAndDraw:
    """Work the batch out; what its settings are was looked at before."""
    batch = trainer.batch
    free = any(trainer.value(name, values) == off for name, off in batch.unless.items())
    step = trainer.multiply(batch.step, size, values)
    drawn = trainer.multiply(batch.drawn, size, values)
    if batch.drawn_in_all and values.get(batch.drawn_in_all) is not None:
        drawn = values[batch.drawn_in_all]
    unit = 1 if free else trainer.multiply(batch.unit, size, values)
    return StepAndDraw(min(step, drawn) if batch.within and free else step, drawn, unit)


def _drawing(reading: _Reading) -> list[str]:
    """Name the settings that say how many completions are drawn together."""
    batch, given = reading.trainer.batch, reading.values
    if batch.drawn_in_all is None or given.get(batch.drawn_in_all) is None:
        return [one for one in batch.drawn if one != "size"]
    return [batch.drawn_in_all]


def _refuse_batch(reading: _Reading, size: int) -> None:
    """Refuse a batch that the trainer would refuse."""
    trainer, batch = reading.trainer, reading.trainer.batch
    names = [*batch.step, *_drawing(reading), *batch.unit, batch.passes]
    for name in names:
        if name and name != "size":
            reading.whole(name)
    twice = [one for one in batch.drawn if one in reading.values and one in batch.typed]
    if batch.drawn_in_all in _drawing(reading) and twice:
        both = reading.list([*_drawing(reading), *twice])
        raise reading.refuse(f"{both}: {trainer.title} takes one of them; leave one out")
    if not trainer.knows_batch(reading.values):
        return
    found = _multiply(trainer, size, reading.values)
    said = reading.list([*_drawing(reading), *batch.unit])
    said = f"{found.drawn:,} completions are drawn together ({said})"
    faults = {
        f"no whole groups of {trainer.size} = {size}": found.drawn % size,
        f"no multiple of {found.unit}": found.drawn % found.unit,
        f"no multiple of the {found.step:,} of a step ({reading.list(batch.step[:1])})": (
            batch.whole and found.drawn % found.step
        ),
        f"fewer than the {found.step:,} of a step ({reading.list(batch.step[:1])})": (
            batch.within and found.step > found.drawn
        ),
    }
    for fault, holds in faults.items():
        if holds:
            refused = f"{said}, {fault}, which {trainer.title} refuses"
            raise reading.refuse(f"{refused}; {_mend(trainer)}")


def _mend(trainer: Trainer) -> str:
    processes = ", or give --processes" if "processes" in trainer.settings else ""
    return f"change one{processes}"


def _completions(reading: _Reading, size: int, stated: Any) -> int | None:
    """Find N, the completions of a step: whole groups; None where it is not known."""
    trainer = reading.trainer
    if stated is not None and (not isinstance(stated, int) or stated < 1):
        raise reading.refuse(f"completions_per_step = {stated}: give a number above zero")
    found = stated
    if trainer.knows_batch(reading.values):
        found = _multiply(trainer, size, reading.values).step
    if stated not in (None, found):
        raise reading.refuse(
            f"completions_per_step = {stated}, but a step has {found} "
            f"({reading.list(one for one in trainer.batch.step if one != 'size')}); "
            f"{_mend(trainer)}"
        )
    if found is not None and found % size:
        raise reading.refuse(
            f"a step has {found} completions, no whole groups of {trainer.size} = {size}; "
            f"{_mend(trainer)}"
        )
    return found


def _several_updates(reading: _Reading, size: int) -> Iterator[str]:
    """Say where a batch is stepped on more than once, and by which settings."""
    batch, values = reading.trainer.batch, reading.values
    found = _multiply(reading.trainer, size, values)
    passes = reading.value(batch.passes) if batch.passes else 1
    updates = passes * found.drawn / found.step
    drawing, stepping = _drawing(reading), [one for one in batch.step if one != "size"]
    both = {*drawing} & {*stepping}
    named = [one for one in [*drawing, *stepping] if one not in both]
    named += [batch.passes] if batch.passes and passes != 1 else []
    if updates > 1 and {*named} & {*values}:
        yield f"{math.ceil(updates)} updates a batch ({reading.list(named)})"


def _uncounted(reading: _Reading, probe: Probe | None) -> Iterator[str]:
    """Name what changes the gradient; what a probe has, too, is compared with it."""
    trainer = reading.trainer
    for name, row in trainer.settings.items():
        value = reading.value(name)
        said = str(reading.found.get(name, Given(name, f"{value} (default)")))
        if not all(reading.value(other) for other in row.with_):
            continue
        if probe and row.probe and not (reading.complete or name in reading.found):
            continue
        if row.probe is None or probe is None:
            if not row.allows(value):
                yield said
        elif row.probe == "model.adapter":
            if not row.allows(value) and probe.model.adapter is None:
                yield f"{said} (the probe has no adapter)"
        elif isinstance(value, int | float):
            section, _, key = row.probe.partition(".")
            of_probe = getattr(getattr(probe, section), key)
            if value != of_probe:
                yield f"{said} (the probe's {key} is {of_probe})"
    rows = [name for name, row in trainer.settings.items() if row.probe == "model.adapter"]
    without = all(trainer.settings[name].allows(reading.value(name)) for name in rows)
    if probe and probe.model.adapter is not None and reading.complete and without:
        yield f"no {rows[0]} (the probe has an adapter)"


def _interpret(
    name: str, reading: _Reading, stated: Any, probe: Probe | None, *, given: bool
) -> Setting:
    """Say what settings amount to; `stated` are the completions of a step, if given."""
    trainer, values = reading.trainer, reading.values
    for key, row in trainer.settings.items():
        if row.only and reading.value(key) not in row.only:
            raise reading.refuse(f"{reading.found[key]}: no training in groups")
    size = reading.whole(trainer.size)
    if size < trainer.least:
        fault = f"{trainer.title} takes {trainer.least} or more"
        raise reading.refuse(f"{trainer.size} = {size}: {fault}")
    _refuse_batch(reading, size)
    found = trainer.match(values)
    rows = [found] if found else trainer.estimators
    says = [trainer.size, *(one for weights in rows for one in weights.when)]
    says += [trainer.length.setting] if trainer.length.setting else []
    if trainer.knows_batch(values):
        says += [one for one in trainer.batch.step if one != "size"]
    uncounted = [*_several_updates(reading, size), *_uncounted(reading, probe)]
    return Setting(
        trainer=name,
        group_size=size,
        estimator=trainer.estimator(size, values),
        named=reading.list(says),
        given=given,
        uncounted=tuple(uncounted) if given else (),
        completions_per_step=_completions(reading, size, stated),
        values=values,
    )


def _read(training: Training) -> tuple[str, Settings, Settings, tuple[str, ...]]:
    """Read a training: its trainer, what a mapping or words say, and what is typed."""
    name = training.trainer
    found: Settings = {}
    if training.config is not None:
        found = read_file(Path(training.config), TRAINERS[name])
    if training.words is not None:
        if not training.words:
            raise InputError("--training: no words; give those of the trainer's command")
        found |= read_words(training.words, TRAINERS[name])
    if (dialect := dialect_of(name, found)) != name:
        return _read(training.model_copy(update={"trainer": dialect}))
    typed, unknown = read_typed(training.model_extra or {}, TRAINERS[name])
    return name, found, typed, unknown


def find_setting(training: Training | None, probe: Probe | None = None) -> Setting:
    """Say what a probe's `training` amounts to; TRL's defaults without one.

    Sampling and adapter are compared with those of a `probe`, if it is given.
    """
    if training is None:
        return DEFAULT
    name, found, typed, unknown = _read(training)
    trainer, given = TRAINERS[name], bool(found or typed or unknown)
    where = training.config or ("training" if training.words is None else "--training")
    refuse_other(found, trainer, where)
    whole = found | typed
    if found or not trainer.default_is_a_group:
        refuse_without_size(whole, trainer, where)
    if not found:
        assumed = {key: Given(key, one) for key, one in trainer.assumed.items()}
        whole = assumed | whole
    reading = _Reading(trainer, whole, where, bool(found))
    stated = training.completions_per_step
    setting = _interpret(name, reading, stated, probe, given=given)
    return setting._replace(uncounted=(*setting.uncounted, *unknown))


def interpret(name: str, values: Mapping[str, Any]) -> Setting:
    """Say what the arguments of a live trainer amount to, by its own names.

    What a probe has, too, is left out: the live policy is the one that is measured.
    """
    rows = TRAINERS[name].settings
    known = {key: Given(key, one) for key, one in values.items() if key in rows}
    found = {key: one for key, one in known.items() if rows[key].probe is None}
    return _interpret(name, _Reading(TRAINERS[name], found, name), None, None, given=True)


def read_training(values: Mapping[str, Any] | None) -> Setting:
    """Say what a mapping, as in a probe's `training`, amounts to."""
    if values is None:
        return DEFAULT
    example = "{'trainer': 'trl', 'num_generations': 8}"
    return find_setting(parse_as(Training, values, "training", example))


# TRL as it comes.
DEFAULT = _interpret("trl", _Reading(TRAINERS["trl"], {}, "TRL"), None, None, given=False)


class Change(NamedTuple):
    """What to set for another group size."""

    settings: Mapping[str, int]  # The group size, and what of the batch changes with it.
    completions_per_step: int | None  # N afterwards.
    line: str  # The settings as they are typed.
    batch: str  # Of these, what changes beside the group size.


def fits(setting: Setting, size: int) -> bool:
    """Whether the batch as it is holds whole groups of a size."""
    batch = setting.batch or StepAndDraw(setting.completions_per_step or 0, 0, 1)
    enough = size >= TRAINERS[setting.trainer].least
    return enough and not (batch.step % size or batch.drawn % size)


def change_to(setting: Setting, size: int) -> Change:
    """Say what to set for a group size, so that the trainer takes it.

    A batch that does not fit grows to the next one that does, and its draws with it.

    >>> used = {"per_device_train_batch_size": 4, "num_generations": 4}
    >>> change_to(read_training(used), 16)[1:3]
    (16, 'num_generations=16, gradient_accumulation_steps=4')
    """
    trainer, batch = TRAINERS[setting.trainer], setting.batch
    settings = {trainer.size: size}
    stated = setting.completions_per_step
    if batch is None:
        stated = stated and math.ceil(stated / size) * size
        return Change(settings, stated, trainer.write(settings), "")
    whole = math.lcm(batch.unit, size)
    step, drawn = (math.ceil(count / whole) * whole for count in batch[:2])
    if fits(setting, size):
        step, drawn = batch[:2]
    elif batch.drawn % batch.step == 0:
        drawn = step * (batch.drawn // batch.step)
    counts = {"step": step, "drawn": drawn, "unit": batch.unit, "size": size}
    for name, (count, *divisors) in trainer.batch.typed.items():
        value = counts[count] // math.prod(counts[one] for one in divisors)
        row = trainer.settings[name]
        known = name in setting.values or row.default is not None or row.fills
        if known and trainer.value(name, setting.values) != value:
            settings[name] = value
    others = {name: value for name, value in settings.items() if name != trainer.size}
    return Change(settings, step, trainer.write(settings), trainer.write(others))
