"""The user's training: what its settings amount to, by the table `trainers.yaml`.

They are read from a file (`config`), from the words that the trainer itself gets (`words`)
or as they stand in a probe's `training`, and hold for one update a batch, where nothing is
clipped and all importance ratios are one. What else changes a gradient is named in
`Setting.uncounted`; settings that have nothing to do with it are passed over, except those
typed by hand, which are refused. Values and batches that the trainer would refuse are
refused. An `estimator` stands for the trainer's own weights. Without settings it is TRL
with its defaults.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mse_lab.config.given_settings import (
    class_of,
    read_given,
    read_typed,
    refuse_other,
    refuse_without_size,
)
from mse_lab.config.probe_files import parse_as
from mse_lab.config.schema import EstimatorEntry, Probe, Training
from mse_lab.config.trainers import TRAINERS, SettingRow, StepAndDraw, Trainer
from mse_lab.errors import InputError, is_count, nearest, shown


class Setting(NamedTuple):
    """What the user trains with."""

    trainer: str  # One of `TRAINERS`.
    group_size: int
    estimator: EstimatorEntry | None  # None where none of ours computes it.
    named: str  # The settings that say so, under the trainer's names.
    given: bool  # Whether any were read; else they are assumed.
    # Settings that change the gradient, and that no number here counts in.
    uncounted: tuple[str, ...] = ()
    # The setting by which it climbs another objective than the mean reward; empty for none.
    elsewhere: str = ""
    completions_per_step: int | None = None  # N; None where it is not known.
    values: Mapping[str, Any] = {}  # The settings of the table that were given.

    @property
    def batch(self) -> StepAndDraw | None:
        """The batch that the settings say; None where they do not."""
        batch = TRAINERS[self.trainer].batch
        known = batch.is_known(self.values)
        return TRAINERS[self.trainer].count(self.group_size, self.values) if known else None


class _Reading(NamedTuple):
    """Settings to interpret."""

    trainer: Trainer
    values: Mapping[str, Any]  # Those of the table.
    where: str  # Names their source in messages.
    complete: bool  # Whether what is not there is at its default.
    estimator: EstimatorEntry | None  # Weights instead of the trainer's.

    def value(self, name: str) -> Any:
        return self.trainer.value(name, self.values)

    def list(self, names: Iterable[str], default: str = " by default") -> str:
        """Name settings and their values, each once; not those of no value."""
        values = {name: self.value(name) for name in names if name != "size"}
        said = (
            f"{name} = {one}{'' if name in self.values else default}"
            for name, one in values.items()
            if one is not None
        )
        return ", ".join(said)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Name the settings by which it climbs another objective than the mean reward."""
        rows = self.trainer.settings.items()
        return tuple(name for name, row in rows if self.value(name) in row.elsewhere)

    def refuse(self, fault: str) -> InputError:
        return InputError(f"{self.where}: {fault}")

    def mend(self, fault: str) -> InputError:
        """Refuse a batch."""
        processes = "processes" in self.trainer.settings
        return self.refuse(
            f"{fault}; change one{', or give --processes' if processes else ''}"
        )

    def whole(self, name: str) -> int:
        """Read a whole number from 1."""
        value = self.value(name)
        if not is_count(value):
            remedy = ", or --G" if name == self.trainer.size else ""
            raise self.refuse(f"{name} = {shown(value)}: give a number above zero{remedy}")
        return int(value)


def _refuse_values(reading: _Reading) -> None:
    """Refuse values that the trainer does not take, and those that are not worked out."""
    title = reading.trainer.title
    for name, row in reading.trainer.settings.items():
        value, fault = reading.value(name), ""
        if isinstance(value, list) and not row.many:
            fault = "takes one value"
        elif isinstance(value, str) and "${" in value:
            fault = "a reference; give the file with values, which the trainer saves"
        elif row.takes and value not in row.takes:
            known = [one for one in row.takes if isinstance(one, str)]
            fault = f"{title} takes no such; {nearest(str(value), known)}"
        if fault:
            raise reading.refuse(f"{name} = {shown(value)}: {fault}")


def _group_size(reading: _Reading) -> int:
    trainer, size = reading.trainer, reading.whole(reading.trainer.size)
    least = 1 if reading.estimator else trainer.least
    if size < least:
        fault = f"{trainer.title} takes {least} or more"
        raise reading.refuse(f"{trainer.size} = {size}: {fault}")
    row = trainer.match(reading.values)
    if size == 1 and row and row.alone is None and not reading.estimator:
        raise reading.refuse(
            f"{trainer.size} = 1: {reading.list(row.when)} gives no gradient without other "
            "completions of a prompt; give two or more, or another estimator"
        )
    return size


def _settle(reading: _Reading) -> _Reading:
    """Take from a file that tells the draw twice what it tells of the processes."""
    batch, values = reading.trainer.batch, reading.values
    twice = [one for one in batch.drawn if one in batch.typed]
    whole, told = batch.drawn_in_all, batch.told
    given = [one for one in (whole, *twice) if one and values.get(one) is not None]
    if whole not in given or len(given) < 2 or not told:
        return reading
    each = math.prod(reading.whole(name) for name in batch.drawn if name != told)
    count = values.get(told) or max(reading.whole(whole) // each, 1)
    if each * count != values[whole]:
        raise reading.mend(
            f"{reading.list(given)}: they disagree ({reading.list(batch.drawn)})"
        )
    rest = {name: value for name, value in values.items() if name != whole}
    return reading._replace(values={**rest, told: count})


def _refuse_batch(reading: _Reading, size: int) -> None:
    """Refuse a batch that the trainer would refuse."""
    trainer, batch = reading.trainer, reading.trainer.batch
    drawing = batch.drawing(reading.values)
    for name in (*batch.step, *drawing, *batch.unit, *batch.passes):
        if name != "size":
            reading.whole(name)
    twice = [one for one in batch.drawn if one in reading.values and one in batch.typed]
    if batch.drawn_in_all in drawing and twice:
        both = reading.list([*drawing, *twice])
        raise reading.refuse(f"{both}: {trainer.title} takes one of them; leave one out")
    if not batch.is_known(reading.values):
        return
    counts, step = trainer.count(size, reading.values), reading.list(batch.step[:1])
    faults = {
        f"no whole groups of {trainer.size} = {size}": counts.drawn % size,
        f"no multiple of {counts.unit}": counts.drawn % counts.unit,
        f"fewer than the {counts.step:,} of a step ({step})": (
            batch.within and counts.step > counts.drawn
        ),
    }
    for fault in (fault for fault, holds in faults.items() if holds):
        said = reading.list([*drawing, *batch.unit])
        raise reading.mend(
            f"{counts.drawn:,} completions are drawn together ({said}), {fault}, which "
            f"{trainer.title} refuses"
        )


def _completions(reading: _Reading, size: int, stated: int | None) -> int | None:
    """Find N, the completions of a step: whole groups; None where it is not known."""
    trainer, step = reading.trainer, stated
    if trainer.batch.is_known(reading.values):
        step = trainer.count(size, reading.values).distinct
    if stated not in (None, step):
        named = reading.list(trainer.batch.step)
        raise reading.mend(
            f"completions_per_step = {stated}, but a step has {step} ({named})"
        )
    if step is not None and step % size:
        raise reading.mend(
            f"a step has {step} completions, no whole groups of {trainer.size} = {size}"
        )
    return step


def _several_updates(reading: _Reading, size: int) -> Iterator[str]:
    """Say where a batch is stepped on more than once, and by which settings."""
    batch, counts = reading.trainer.batch, reading.trainer.count(size, reading.values)
    updates = counts.passes * counts.drawn / counts.step
    drawing, stepping = batch.drawing(reading.values), [*batch.step]
    both = {*drawing} & {*stepping}
    named = [one for one in (*drawing, *stepping) if one not in both]
    named += batch.passes if counts.passes != 1 else ()
    if updates > 1 and {*named} & {*reading.values}:
        yield f"{math.ceil(updates)} updates a batch ({reading.list(named)})"


def _difference(row: SettingRow, value: Any, probe: Probe | None) -> str | None:
    """Say how a setting is not the probe's, or changes the gradient; None if neither."""
    if row.probe is None or probe is None:
        return None if row.allows(value) else ""
    if row.probe == "model.adapter":
        alike = row.allows(value) or probe.model.adapter is not None
        return None if alike else " (the probe has no adapter)"
    section, _, key = row.probe.partition(".")
    of_probe = getattr(getattr(probe, section), key)
    unknown = value is None and row.fine is None
    alike = unknown or (value or None) == (of_probe or None)
    return None if alike else f" (the probe's {key} is {of_probe})"


def _uncounted(reading: _Reading, probe: Probe | None) -> Iterator[str]:
    """Name what changes the gradient; what a probe has, too, is compared with it."""
    rows = reading.trainer.settings
    for name, row in rows.items():
        value, is_set = reading.value(name), name in reading.values
        acts = row.with_ is None or reading.value(row.with_)
        compared = probe is not None and row.probe is not None
        if not acts or (compared and not (reading.complete or is_set)):
            continue
        if (differs := _difference(row, value, probe)) is not None:
            yield f"{name} = {value}{'' if is_set else ' (default)'}{differs}"
    adapters = [name for name, row in rows.items() if row.probe == "model.adapter"]
    without = all(rows[name].allows(reading.value(name)) for name in adapters)
    if probe and probe.model.adapter is not None and reading.complete and without:
        yield f"no {adapters[0]} (the probe has an adapter)"


def _estimator(reading: _Reading, size: int) -> EstimatorEntry | None:
    """Find the weights and lengths that a training computes; None if none of ours does."""
    trainer, entry = reading.trainer, reading.estimator
    if reading.elsewhere:
        return None
    if entry is None:
        return trainer.estimator(size, reading.values)
    named = {"name": entry} if isinstance(entry, str) else entry
    whole = trainer.with_length(named, reading.values)
    return entry if whole == named else whole


def _named(reading: _Reading) -> str:
    """Name the settings that say what is trained with."""
    trainer = reading.trainer
    matched = trainer.match(reading.values)
    rows = [matched] if matched else trainer.estimators
    weighing = [] if reading.estimator else [one for row in rows for one in row.when]
    steps = trainer.batch.step if trainer.batch.is_known(reading.values) else ()
    said = reading.list([trainer.size, *weighing, *trainer.length, *steps], default="")
    return f"{said}, estimator = {reading.estimator}" if reading.estimator else said


def find_setting(training: Training | None, probe: Probe | None = None) -> Setting:
    """Say what a probe's `training` amounts to; TRL's defaults without one.

    Sampling and adapter are compared with those of a `probe`, if it is given.
    """
    training = training or Training()
    name = training.trainer
    where = training.config or ("training" if training.words is None else "--training")
    read = read_given(training.config, training.words, TRAINERS[name])
    trainer = TRAINERS[name := class_of(read, name)]
    typed = read_typed(training.model_extra or {}, trainer)
    refuse_other(read, trainer, where)
    whole = read | typed
    if read or not trainer.default_is_a_group:
        refuse_without_size(whole, trainer, where)
    if not trainer.estimators and training.estimator is None:
        raise InputError(f"{where}: of {trainer.title} no estimator; give --estimator")
    if not read:
        whole = trainer.assumed | whole
    values = {key: one for key, one in whole.items() if key in trainer.settings}
    reading = _Reading(trainer, values, where, bool(read), training.estimator)
    if training.config is not None or trainer.file in read:
        reading = _settle(reading)
    _refuse_values(reading)
    size = _group_size(reading)
    _refuse_batch(reading, size)
    given = bool(read or typed or training.estimator)
    uncounted = (*_several_updates(reading, size), *_uncounted(reading, probe))
    return Setting(
        trainer=name,
        group_size=size,
        estimator=_estimator(reading, size),
        named=_named(reading),
        given=given,
        uncounted=uncounted if given else (),
        elsewhere=reading.list(reading.elsewhere),
        completions_per_step=_completions(reading, size, training.completions_per_step),
        values=reading.values,
    )


def interpret(
    name: str, values: Mapping[str, Any], estimator: EstimatorEntry | None = None
) -> Setting:
    """Say what the arguments of a live trainer amount to, by its own names.

    What a probe has, too, is left out: the live policy is the one that is measured. An
    `estimator` stands for the trainer's own weights.
    """
    name = class_of(values, name)
    rows = TRAINERS[name].settings
    known = {
        key: one for key, one in values.items() if key in rows and rows[key].probe is None
    }
    return find_setting(Training(trainer=name, estimator=estimator, **known))


def read_training(values: Mapping[str, Any] | None) -> Setting:
    """Say what a mapping, as in a probe's `training`, amounts to."""
    example = "{'trainer': 'trl', 'num_generations': 8}"
    given = {} if values is None else values
    return find_setting(parse_as(Training, given, "training", example))


DEFAULT = find_setting(None)  # TRL as it comes.


class Change(NamedTuple):
    """What to set for another group size."""

    settings: Mapping[str, int]  # The group size, and what of the batch changes with it.
    completions_per_step: int | None  # N afterwards.
    line: str  # The settings as they are typed.
    batch: str  # Of these, what changes beside the group size.


def fits(setting: Setting, size: int) -> bool:
    """Whether the batch as it is holds whole groups of a size."""
    if size < TRAINERS[setting.trainer].least:
        return False
    if (batch := setting.batch) is None:
        return not (setting.completions_per_step or 0) % size
    return not (batch.distinct % size or batch.drawn % size)


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
        known = name in setting.values or row.default is not None
        if known and trainer.value(name, setting.values) != value:
            settings[name] = value
    others = {name: value for name, value in settings.items() if name != trainer.size}
    step = batch._replace(step=step, drawn=drawn).distinct
    return Change(settings, step, trainer.write(settings), trainer.write(others))
