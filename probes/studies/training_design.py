"""The design of a study of trainings: its settings, arms and runs."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from mse_lab.config.probe_files import load_probe, parse_as, probe_file
from mse_lab.config.schema import Probe, Section
from mse_lab.errors import InputError, nearest
from mse_lab.project import PROJECT
from mse_lab.records.plain_text import parse_yaml, read_text

EXAMPLE = "probes/studies/tiny-base.yaml"


Positive = Annotated[int, Field(ge=1)]


class Trained(Section):
    """What takes the advantages' place: what `mse_lab.trl.with_baseline` is given."""

    alpha: float | None = None
    lam: float = 0.0
    weights: Literal["equal", "logits", "score"] | None = None
    over: Literal["group", "batch"] = "group"
    own: bool = False  # TRL's own loss and advantages, by its defaults.
    max_grad_norm: Annotated[float, Field(ge=0)] = 0.0  # 0: gradients are not clipped.


# Without a line in `baselines`. ||W||^2 weighs the others' rewards in best-constant-loo.
KNOWN = {
    "grpo": Trained(alpha=0.0, lam=1.0),
    "vanilla": Trained(alpha=0.0),
    "best-constant-loo": Trained(weights="score"),
}


class Base(Section):
    """The arm that all others of its optimiser are compared with; its estimator is grpo."""

    completions_per_step: Positive | None = None  # By default as many as the other arm has.
    group_size: Annotated[int, Field(ge=2)]


class Grid(Section):
    """Runs of one optimiser and estimator: N x G x step sizes x the study's seeds."""

    optimiser: Literal["sgd", "adamw"]
    estimator: str = "grpo"
    completions_per_step: Annotated[list[Positive], Field(min_length=1)]
    group_sizes: Annotated[list[Positive], Field(min_length=1)]
    step_sizes: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_whole_groups(self) -> Self:
        for count in self.completions_per_step:
            for size in self.group_sizes:
                if count % size:
                    raise ValueError(f"group_sizes: {size} does not divide {count}")
        return self


class Settings(Section):
    """A study, as its YAML file has it."""

    probe: str  # Its model, prompts, reward and sampling are what is trained.
    changes: list[str] = Field(default=[])  # To the probe, as `--set` takes them.
    advice: str  # The `advice.json` of a run on this probe.
    steps: Annotated[list[Positive], Field(min_length=1)]  # After which J is measured.
    seeds: Annotated[int, Field(ge=2)]
    first_seed: Annotated[int, Field(ge=0)] = 0  # To train again with others.
    completions: Positive | None = None  # Of each prompt, for J, on common uniforms.
    held_out: str | None = None  # A file: J of its problems that are not trained on, too.
    epochs: bool = False  # TRL shuffles the prompts; else they are drawn with replacement.
    end: str | None = None  # Ends a completion in TRL, in the place of a stop string.
    constants: str | None = None  # The `prompts.csv` of a run on this probe.
    baselines: dict[str, Trained] = Field(default={})
    base: Base
    arms: Annotated[list[Grid], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_rising_steps(self) -> Self:
        if sorted({*self.steps}) != self.steps:
            raise ValueError(f"steps = {self.steps}: each must be larger than the last")
        return self

    @model_validator(mode="after")
    def _knows_its_estimators(self) -> Self:
        for grid in self.arms:
            if grid.estimator not in KNOWN | self.baselines:
                known = nearest(grid.estimator, [*KNOWN, *self.baselines])
                raise ValueError(f"arms: no baseline {grid.estimator}; {known}")
            one = self.trained(grid.estimator)
            pairs = one.over == "group" and (one.lam or one.weights or one.own)
            if pairs and min(grid.group_sizes) < 2:
                name = grid.estimator
                raise ValueError(f"group_sizes: {name} needs groups of two or more")
        return self

    def trained(self, estimator: str) -> Trained:
        """Give what takes the advantages' place."""
        return (KNOWN | self.baselines)[estimator]

    def load_probe(self) -> Probe:
        """Read what is trained."""
        probe = load_probe(probe_file(self.probe, PROJECT), self.changes)
        if probe.sampling.stop not in ([], [self.end]):
            raise InputError(
                f"{self.probe}: TRL knows no sampling.stop; add changes: "
                "['sampling.stop=[]'], and take an advice of that, or name the token that "
                "is to end a completion as end"
            )
        return probe

    @property
    def digest(self) -> str:
        """What the numbers of a run depend on, beside what names the run.

        Keys at their defaults are left out, which a later version may add or remove.
        """
        probe = self.load_probe().model_dump(mode="json", exclude_defaults=True)
        values = [probe, self.steps, self.completions]
        new = self.model_dump(include={"held_out", "epochs", "end"}, exclude_defaults=True)
        if new or self.baselines:
            named = {name: one.model_dump() for name, one in self.baselines.items()}
            values.append(new | named)
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]


class Arm(NamedTuple):
    """What is compared: each arm has its own best step size."""

    optimiser: str
    estimator: str
    completions_per_step: int
    group_size: int


class Run(NamedTuple):
    """One training; these are the columns that name it in `runs.csv`."""

    optimiser: str
    estimator: str
    completions_per_step: int
    group_size: int
    step_size: float
    seed: int

    @property
    def arm(self) -> Arm:
        """Its arm."""
        return Arm(*self[:4])


def base_of(arm: Arm, settings: Settings) -> Arm:
    """Give the arm that an arm is compared with."""
    base = settings.base.model_dump(exclude_none=True)
    return arm._replace(estimator="grpo", **base)


def load_settings(path: Path) -> Settings:
    """Read a study."""
    return parse_as(Settings, parse_yaml(read_text(path), str(path)), str(path), EXAMPLE)


def runs_of(settings: Settings) -> list[Run]:
    """List all runs, seeds outermost: what is done at any time is balanced over arms."""
    return [
        Run(grid.optimiser, grid.estimator, count, size, step_size, seed)
        for seed in range(settings.first_seed, settings.first_seed + settings.seeds)
        for grid in settings.arms
        for count in grid.completions_per_step
        for size in grid.group_sizes
        for step_size in grid.step_sizes
    ]
