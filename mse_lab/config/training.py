"""The user's training: what its settings amount to, by the table `trainers.yaml`.

They are read from a file (`config`), from the words that the trainer itself gets (`words`)
or as they stand in a probe's `training`, and hold for one update a batch, where nothing is
clipped and all importance ratios are one. What else changes a gradient is named in
`Setting.uncounted`, as are words that no setting of the trainer's has; settings that have
nothing to do with it are passed over, but refused where typed by hand. So are values and
batches that the trainer would refuse. An `estimator` stands for the trainer's own weights.
Without settings it is TRL with its defaults.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse
from typing import Any

from mse_lab.config.given_settings import (
    class_of,
    is_misspelt,
    read_given,
    read_typed,
    refuse_other,
    refuse_without_size,
)
from mse_lab.config.probe_files import parse_as
from mse_lab.config.schema import EstimatorEntry, Probe, Training
from mse_lab.config.trainers import (
    TRAINERS,
    SettingRow,
    StepAndDraw,
    Trainer,
    WeightsSetting,
)
from mse_lab.errors import LARGEST_SIZE, InputError, is_count, nearest, shown


@dataclass(frozen=True)
class Setting:
    """What the user trains with: a trainer's settings, and what they amount to."""

    trainer: str  # One of `TRAINERS`.
    values: Mapping[str, Any]  # The settings of the table that were given.
    where: str = "training"  # Names their source in messages.
    given: bool = False  # Whether any were read; else they are assumed.
    complete: bool = False  # Whether a setting that is not there is at its default.
    weights: EstimatorEntry | None = None  # Instead of the trainer's own.
    stated: int | None = None  # N, where no settings say it.
    probe: Probe | None = None  # What sampling and adapter are compared with.
    foreign: tuple[str, ...] = ()  # Words that name none of the trainer's settings.

    @property
    def table(self) -> Trainer:
        """The trainer's part of the table."""
        return TRAINERS[self.trainer]

    def value(self, name: str) -> Any:
        """Give a setting's value, its default where it is not given."""
        row = self.table.settings[name]
        if self.values.get(name) is None and row.same_as:
            return self.value(row.same_as)
        return self.values.get(name, row.default)

    @property
    def needs(self) -> str:
        """What is typed so that a baseline of one's own is what it is; may be nothing."""
        needed = self.table.needs.items()
        others = {one: of[0] for one, of in needed if self.value(one) not in of}
        return self.table.write(others)

    def whole(self, name: str) -> int:
        """Give a setting that is a whole number from 1; a group's has an end."""
        value, is_size = self.value(name), name == self.table.size
        if not is_count(value) or (is_size and value > LARGEST_SIZE):
            other = f" to {LARGEST_SIZE}, or --G" if is_size else ""
            raise self.refuse(f"{name} = {shown(value)}: give a whole number from 1{other}")
        return int(value)

    def say(self, names: Iterable[str], default: str = " by default") -> str:
        """Name settings and their values, each once; not those of no value."""
        values = {name: self.value(name) for name in names if name != "size"}
        said = (
            f"{name} = {one}{'' if name in self.values else default}"
            for name, one in values.items()
            if one is not None
        )
        return ", ".join(said)

    def refuse(self, fault: str) -> InputError:
        """Say in one line what is wrong with the settings."""
        return InputError(f"{self.where}: {fault}")

    def mend(self, fault: str) -> InputError:
        """Say in one line what is wrong with the batch."""
        untold = {"processes"} & self.table.settings.keys() - self.values.keys()
        return self.refuse(f"{fault}; change one{', or give --processes' * len(untold)}")

    @property
    def group_size(self) -> int:
        """G, the completions of a group."""
        return self.whole(self.table.size)

    @property
    def elsewhere(self) -> str:
        """The setting by which it climbs another objective than the mean reward, if any."""
        rows = self.table.settings.items()
        return self.say(name for name, row in rows if self.value(name) in row.elsewhere)

    @property
    def matched(self) -> WeightsSetting | None:
        """The row of the trainer's own weights; None where none of ours are those."""
        return next((row for row in self.table.estimators if row.holds(self.value)), None)

    @property
    def estimator(self) -> EstimatorEntry | None:
        """The weights, and how the loss weights tokens; None where none of ours does."""
        entry, row = self.weights, self.matched
        if entry is None and row is not None:
            entry = row.is_ if self.group_size > 1 else row.alone or row.is_
        if entry is None or self.elsewhere:
            return None
        named = {"name": entry} if isinstance(entry, str) else entry
        lengths = (kinds[self.value(name)] for name, kinds in self.table.length.items())
        if (length := next(lengths, None)) == "micro-batch":
            step = self.completions_per_step or self.counts.step
            kinds = {1: "sequence", step: "token-batch"}
            if (length := kinds.get(self.whole(self.table.batch.unit[0]))) is None:
                return None
        return entry if length is None else {"length": length, **named}

    @property
    def named(self) -> str:
        """The settings that say what is trained with, under the trainer's names."""
        rows = [self.matched] if self.matched else self.table.estimators
        weighing = [] if self.weights else [one for row in rows for one in row.when]
        steps = self.table.batch.step if self.batch else ()
        names = [self.table.size, *weighing, *self.table.length, *steps]
        said = self.say(names, default="")
        return f"{said}, estimator = {self.weights}" if self.weights else said

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Settings that change the gradient, and that no number here counts in."""
        unknown = (f"{name} (none of {self.table.title}'s)" for name in self.foreign)
        return (*_several_updates(self), *_uncounted(self), *unknown) if self.given else ()

    @property
    def drawing(self) -> tuple[str, ...]:
        """The settings that say how many completions are drawn together."""
        batch = self.table.batch
        in_all = self.values.get(batch.drawn_in_all) is not None
        return (batch.drawn_in_all,) if in_all else batch.drawn

    @property
    def told_twice(self) -> list[str]:
        """Settings that say it in two ways; none where they say it in one."""
        batch = self.table.batch
        own = [one for one in batch.drawn if one not in batch.unit]
        given = [one for one in own if self.values.get(one) is not None]
        return [*self.drawing, *given] if given and self.drawing != batch.drawn else []

    @cached_property
    def counts(self) -> StepAndDraw:
        """The completions of a batch, at the defaults of what is not given."""
        batch, size = self.table.batch, self.table.size
        step, drawn, unit, passes = (
            math.prod(self.whole(size if name == "size" else name) for name in names)
            for names in (batch.step, self.drawing, batch.unit, batch.passes)
        )
        if any(self.value(name) in off for name, off in batch.unless.items()):
            unit, step = 1, min(step, drawn) if batch.within else step
        return StepAndDraw(step, drawn, unit, passes)

    @property
    def batch(self) -> StepAndDraw | None:
        """The batch that the settings say; None where they do not."""
        batch = self.table.batch
        names = (*batch.step, *batch.drawn, batch.drawn_in_all)
        known = any(self.values.get(name) is not None for name in names)
        return self.counts if known else None

    @property
    def completions_per_step(self) -> int | None:
        """N, the completions of a step; None where it is not known."""
        return self.batch.distinct if self.batch else self.stated


def _refuse_values(setting: Setting) -> None:
    """Refuse values that the trainer does not take, and those that are not worked out."""
    trainer = setting.table
    for name, row in trainer.settings.items():
        value, fault = setting.value(name), ""
        takes = row.takes or tuple(trainer.length.get(name, ()))
        if isinstance(value, list) and not row.many:
            fault = "takes one value"
        elif isinstance(value, str) and "${" in value:
            fault = "a reference; give the file with values, which the trainer saves"
        elif takes and value not in takes:
            hint = nearest(str(value).lower(), [*map(str, takes)])
            fault = f"{trainer.title} takes no such; {hint}"
        elif isinstance(value, str) and setting.weights is None:
            known, low = trainer.values_of(name), value.lower()
            if value not in known and any(is_misspelt(low, one) for one in known):
                fault = f"{nearest(low, known)}; give --estimator if it is your own"
        if fault:
            raise setting.refuse(f"{name} = {shown(value)}: {fault}")


def _settle(setting: Setting) -> Setting:
    """Take from a file that tells the draw twice what it tells of the processes."""
    batch, values, twice = setting.table.batch, setting.values, setting.told_twice
    if not twice:
        return setting
    drawn = setting.whole(batch.drawn_in_all)
    each = math.prod(setting.whole(name) for name in batch.drawn if name != batch.told)
    count = values.get(batch.told) or max(drawn // each, 1)
    if each * count != drawn:
        raise setting.mend(
            f"{setting.say(twice)}: they disagree ({setting.say(batch.drawn)})"
        )
    rest = {name: value for name, value in values.items() if name != batch.drawn_in_all}
    return replace(setting, values={**rest, batch.told: count})


def _refuse_batch(setting: Setting) -> None:
    """Refuse a group or batch that the trainer would refuse, or that takes groups apart."""
    trainer, batch, size = setting.table, setting.table.batch, setting.group_size
    if size < trainer.least and setting.weights is None:
        fault = f"{trainer.title} takes {trainer.least} or more"
        raise setting.refuse(f"{trainer.size} = {size}: {fault}")
    if setting.told_twice:
        both = setting.say(setting.told_twice)
        raise setting.refuse(f"{both}: {trainer.title} takes one of them; leave one out")
    counts, groups = setting.counts, f"no whole groups of {trainer.size} = {size}"
    faults = {
        groups: counts.drawn % size,
        f"no multiple of {counts.unit}": counts.drawn % counts.unit,
        f"fewer than the {counts.step:,} of a step ({setting.say(batch.step[:1])})": (
            batch.within and counts.step > counts.drawn
        ),
    }
    for fault in [fault for fault, holds in faults.items() if holds and setting.batch]:
        said = setting.say([*setting.drawing, *batch.unit])
        raise setting.mend(
            f"{counts.drawn:,} completions are drawn together ({said}), {fault}, which "
            f"{trainer.title} refuses"
        )
    step, stated = setting.completions_per_step, setting.stated
    if stated not in (None, step):
        named = setting.say(batch.step)
        fault = f"completions_per_step = {stated}, but a step has {step} ({named})"
        if step and stated % step:  # No number of processes makes it that.
            raise setting.refuse(f"{fault}; change one")
        raise setting.mend(fault)
    if step is not None and step % size:
        raise setting.mend(f"a step has {step} completions, {groups}")


def _several_updates(setting: Setting) -> Iterator[str]:
    """Say where a batch is stepped on more than once, and by which settings."""
    batch, counts = setting.table.batch, setting.counts
    updates = counts.passes * counts.drawn / counts.step
    drawing, stepping = setting.drawing, batch.step
    both = {*drawing} & {*stepping}
    named = [one for one in (*drawing, *stepping) if one not in both]
    named += batch.passes if counts.passes != 1 else ()
    apart = counts.step % (counts.drawn * counts.passes)  # A later one takes the rest.
    if (updates > 1 or apart) and {*named} & {*setting.values}:
        many = f"{math.ceil(updates)} updates a batch"
        yield f"{many if updates > 1 else 'updates within a batch'} ({setting.say(named)})"


def _difference(row: SettingRow, value: Any, probe: Probe | None) -> str | None:
    """Say how a setting is not the probe's, or changes the gradient; None if neither."""
    if row.probe is None or probe is None:
        return None if row.allows(value) else ""
    section, _, key = row.probe.partition(".")
    of_probe = getattr(getattr(probe, section), key)
    said = f"'s {key} is {of_probe}"
    alike = (value or None) == (of_probe or None)
    if key == "adapter":
        alike, said = row.allows(value) or of_probe is not None, " has no adapter"
    return None if alike else f" (the probe{said})"


def _uncounted(setting: Setting) -> Iterator[str]:
    """Name what changes the gradient; what a probe has, too, is compared with it."""
    rows, probe = setting.table.settings, setting.probe
    for name, row in rows.items():
        value, is_set = setting.value(name), name in setting.values
        acts = row.with_ is None or setting.value(row.with_)
        compared = probe is not None and row.probe is not None
        unknown = value is None and row.fine is None and not is_set
        if not acts or (compared and (unknown or not (setting.complete or is_set))):
            continue
        if (differs := _difference(row, value, probe)) is not None:
            yield f"{name} = {value}{'' if is_set else ' (default)'}{differs}"
    adapters = [name for name, row in rows.items() if row.probe == "model.adapter"]
    without = all(rows[name].allows(setting.value(name)) for name in adapters)
    if probe and probe.model.adapter is not None and setting.complete and without:
        yield f"no {adapters[0]} (the probe has an adapter)"


def find_setting(training: Training | None, probe: Probe | None = None) -> Setting:
    """Say what a probe's `training` amounts to; TRL's defaults without one.

    Sampling and adapter are compared with those of a `probe`, if it is given.
    """
    training = training or Training()
    where = training.config or ("training" if training.words is None else "--training")
    read = read_given(training.config, training.words, TRAINERS[training.trainer])
    extra = training.model_extra or {}
    trainer = TRAINERS[name := class_of([*read, *extra], training.trainer, where)]
    refuse_other([*read, *extra], trainer, where)
    typed = read_typed(extra, trainer)
    whole = (read or trainer.assumed) | typed
    refuse_without_size(whole, trainer, where)
    if not trainer.estimators and training.estimator is None:
        raise InputError(f"{where}: of {trainer.title} no estimator; give --estimator")
    setting = Setting(
        trainer=name,
        values={key: one for key, one in whole.items() if key in trainer.settings},
        where=where,
        given=bool(read or typed or training.estimator),
        complete=bool(read),
        weights=training.estimator,
        stated=training.completions_per_step,
        probe=probe,
        foreign=() if training.config else tuple(filterfalse(trainer.owns, read)),
    )
    if training.config is not None or trainer.file in read:
        setting = _settle(setting)
    _refuse_values(setting)
    _refuse_batch(setting)
    return setting


def read_training(values: Mapping[str, Any] | None) -> Setting:
    """Say what a mapping, as in a probe's `training`, amounts to."""
    example = "{'trainer': 'trl', 'num_generations': 8}"
    given = {} if values is None else values
    return find_setting(parse_as(Training, given, "training", example))


DEFAULT = find_setting(None)  # TRL as it comes.


def fits(setting: Setting, size: int) -> bool:
    """Whether the batch as it is, where it is known, holds whole groups of a size."""
    if (batch := setting.batch) is None or size < setting.table.least:
        return False
    return not (batch.distinct % size or batch.drawn % size)


def batch_for(setting: Setting, size: int) -> str:
    """Write the batch for another group size that it `fits`, if it is counted in groups.

    A step keeps its completions; the text is empty where no setting changes.

    >>> used = {"trainer": "verl", "n": 4, "train_batch_size": 512}
    >>> batch_for(read_training(used), 8).split()[0]
    'data.train_batch_size=256'
    """
    if (batch := setting.batch) is None:
        return ""
    counted = {setting.table.batch.drawn: batch.drawn, setting.table.batch.step: batch.step}
    groups = {one[0]: count // size for one, count in counted.items() if "size" in one}
    changed = [name for name in groups if groups[name] != setting.value(name)]
    return setting.table.write({name: groups[name] for name in changed})
