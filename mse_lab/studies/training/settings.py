"""A training study: which probe is trained, how, and what is asked of it; a YAML file.

The keys of an arm are those of the study itself, the main grid: an arm says what differs.
Every (group size, seed) of an arm is a separate training run.

    theta_i = theta_{i-1} + eta_i g_hat,   eta_i = eta, or eta / (i + offset),

Algorithm 1 of arXiv 2603.01162, N = `budget` completions a step, B = N/G prompts.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from mse_lab.errors import InputError, nearest, shorten
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.probe.plain_text import fault_of_text, parse_yaml, read_text
from mse_lab.probe.probe_files import STUDIES, SUFFIXES, assign, parse_as
from mse_lab.probe.schema import EstimatorEntry, Section
from mse_lab.probe.values import IF_SET, MOST_COMPLETIONS, Positive, Scale, Text

EXAMPLE = "probes/studies/group-size.yaml"
# Names of arms that no study can give.
MAIN, PILOT = "main", "pilot"

Sizes = Annotated[list[Positive], Field(min_length=1)]
FewPrompts = Annotated[int, Field(ge=4, le=1024)]


class Training(Section):
    """How one arm is trained."""

    probe: Text  # Its model, prompts, reward and sampling are what is trained.
    budget: Positive = 128  # N, completions a step.
    group_sizes: Sizes = Field(default=[2, 4, 8, 16, 32, 64])  # Divisors of the budget.
    steps: Positive = 100
    # Runs of each group size, with the seeds 0, 1, ...
    seeds: Annotated[int, Field(ge=1, le=10**4)] = 16
    # In Algorithm 1's scale; for `adamw` its learning rate.
    eta: Annotated[Scale, Field(le=10**6)] = 0.03
    optimiser: Literal["sgd", "adamw"] = "sgd"
    schedule: Literal["constant", "inverse"] = "constant"
    offset: Annotated[int, Field(ge=0, le=10**9)] = 0  # Of the inverse schedule.
    prompts: Literal["iid", "epochs"] = "iid"  # With replacement, or each once an epoch.
    estimator: EstimatorEntry = "grpo"  # Whose weights the completions have.
    micro_batch: Positive | None = None  # Completions in a backward pass; None for N.

    def _check_divisors(self, sizes: Sequence[int], key: str) -> None:
        for size in sizes:
            if self.budget % size:
                raise ValueError(
                    f"{key}: {size} does not divide the budget, {self.budget}; use "
                    "divisors of it"
                )

    @model_validator(mode="after")
    def _divides(self) -> Self:
        self._check_divisors(self.group_sizes, "group_sizes")
        if len(set(self.group_sizes)) < len(self.group_sizes):
            raise ValueError("group_sizes: a size stands twice; name each once")
        if self.budget % (self.micro_batch or self.budget):
            raise ValueError(
                f"micro_batch = {self.micro_batch}: must divide the budget, {self.budget}"
            )
        return self


def trained_estimator(training: Training) -> Estimator:
    """Look up the estimator of an arm, and check that it suits its group sizes.

    Raises:
        InputError: It does not, or it needs what no training knows.
    """
    sizes = training.group_sizes
    fewest = training.budget // max(sizes)
    [estimator] = find_estimators([training.estimator], sorted(sizes), fewest)
    if estimator.knows_value or estimator.learns_baseline:
        raise InputError(
            f"estimator: {estimator.name} looks at what no training knows; use "
            "best-constant-loo, or grpo"
        )
    return estimator


class Evaluation(Section):
    """When the mean reward J is measured, and how well."""

    steps: Sizes = Field(default=[15, 30, 60, 100])
    completions: Positive = 256  # Of each prompt, on uniforms common to all runs.
    # The first so many of either set; None for all.
    prompts: Annotated[Positive | None, IF_SET] = None
    # Another prompt set, in the template of the probe's: J at the end, beside the other.
    held_out: Text | None = None


class Prediction(Section):
    """How G* is predicted before anything is trained for the verdict."""

    group_sizes: Sizes = Field(default=[4, 32])  # Of the pilot trainings.
    seeds: Annotated[int, Field(ge=2, le=10**4)] = 4  # Pilots of each.
    prompts: Positive | None = None  # The first of the probe's prompts; None for all.
    # Completions a prompt for c1 and c3, at step 0 and at those of the evaluation.
    reference: Annotated[int, Field(ge=4, le=MOST_COMPLETIONS, multiple_of=2)] = 256
    replicate: Annotated[int, Field(ge=4, le=MOST_COMPLETIONS, multiple_of=2)] = 64


class Study(Training):
    """The main grid, what is measured of it, and the arms: a whole YAML file."""

    evaluation: Evaluation = Evaluation()
    prediction: Prediction = Prediction()
    tolerance: Scale = 0.02  # The most that J at the predicted G may miss of the best.
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95  # Of intervals and tests.
    # Name -> what differs from the main grid.
    arms: dict[Text, dict[str, Any]] = Field(default={})

    @model_validator(mode="after")
    def _compares_what_is_trained(self) -> Self:
        self._check_divisors(self.prediction.group_sizes, "prediction.group_sizes")
        if len(self.group_sizes) < 2:
            raise ValueError("group_sizes: a study compares two or more; add one")
        steps = self.evaluation.steps
        if sorted(set(steps)) != steps or steps[-1] != self.steps:
            raise ValueError(
                f"evaluation.steps = {steps}: must rise to the last step; end with "
                f"{self.steps}"
            )
        return self


@dataclass(frozen=True)
class Arm:
    """One arm of a study, all of its settings resolved."""

    name: str
    training: Training
    evaluation: Evaluation
    prediction: Prediction | None = None  # Of pilots.

    @property
    def digest(self) -> str:
        """What the numbers of a run depend on, but for its group size and seed; hashed."""
        parts = (self.training, self.evaluation, self.prediction)
        values = [
            part.model_dump(mode="json", exclude={"group_sizes", "seeds"})
            for part in parts
            if part is not None
        ]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Run:
    """One training run of an arm."""

    arm: Arm
    group_size: int
    seed: int

    @property
    def name(self) -> str:
        """Name its file."""
        return f"{self.arm.name}-G{self.group_size}-seed{self.seed}"


def _training(study: Study) -> Training:
    """Take the settings of the main grid."""
    return Training(**study.model_dump(include=set(Training.model_fields)))


def _arm(study: Study, name: str, changes: Mapping[str, Any], source: str) -> Arm:
    where = f"{source}: arms.{shorten(name)}"
    fault = fault_of_text(name) or ("holds a /" if "/" in name else "")
    if name in (MAIN, PILOT):
        fault = "is taken; give another"
    if fault:
        raise InputError(f"{where}: its name {fault}")
    training = parse_as(
        Training, _training(study).model_dump() | dict(changes), where, EXAMPLE
    )
    if training.steps != study.steps:
        raise InputError(f"{where}: steps = {training.steps}: is of the whole study")
    return Arm(name, training, study.evaluation)


def arms_of(study: Study, source: str = "study") -> list[Arm]:
    """Resolve the main grid and the arms, in their order.

    Raises:
        InputError: An arm's keys or values cannot be used.
    """
    arms = [_arm(study, name, changes, source) for name, changes in study.arms.items()]
    return [Arm(MAIN, _training(study), study.evaluation), *arms]


def arms_that_differ_in(study: Study, key: str) -> list[Arm]:
    """List the main grid and the arms that differ from it in this key alone, by its value.

    Seeds and group sizes may differ, too.
    """
    arms, free = arms_of(study), {key, "seeds", "group_sizes"}
    main = arms[0].training.model_dump(exclude=free)
    alike = [arm for arm in arms if arm.training.model_dump(exclude=free) == main]
    return sorted(alike, key=lambda arm: getattr(arm.training, key))


def runs_of(arms: Sequence[Arm]) -> Iterator[Run]:
    """Yield every run: the main grid's, then those of all arms, seeds outermost.

    So what is there at any time is balanced over group sizes and arms.
    """
    for together in (arms[:1], arms[1:]):
        for seed in range(max((arm.training.seeds for arm in together), default=0)):
            for arm in together:
                if seed < arm.training.seeds:
                    yield from (Run(arm, size, seed) for size in arm.training.group_sizes)


def find_run(arms: Sequence[Arm], name: str) -> Run:
    """Find a run by its name, such as main-G8-seed0.

    Raises:
        InputError: There is none of that name.
    """
    runs = {run.name: run for run in runs_of(arms)}
    if name not in runs:
        raise InputError(f"no run {shorten(name)}; {nearest(name, sorted(runs))}")
    return runs[name]


def study_file(name: str, root: Path) -> Path:
    """Find a study: `*.yaml` is a path, `name` is `probes/studies/name.yaml`."""
    folders = [Path("probes") / STUDIES, root / "probes" / STUDIES]
    paths = [folder / f"{name}.yaml" for folder in folders]
    for path in [Path(name)] if name.endswith(SUFFIXES) else paths:
        if "\0" not in name and path.is_file():
            return path
    names = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    raise InputError(f"no study {shorten(name)}; {nearest(name, sorted(names))}")


def load_study(
    path: Path, assignments: Sequence[str] = (), *, quick: bool = False
) -> Study:
    """Read a study's YAML, apply the `--set` assignments, and check its arms.

    With `quick` it is the main grid alone: 3 seeds, at most 60 steps, 2 pilots each.

    Raises:
        InputError: A key or a value cannot be used.
    """
    values, source = parse_yaml(read_text(path), str(path)), str(path)
    for assignment in assignments if isinstance(values, dict) else ():
        assign(values, assignment)
    study = parse_as(Study, values, source, EXAMPLE)
    study = shortened(study) if quick else study
    arms_of(study, source)
    return study


def shortened(study: Study) -> Study:
    """Cut a study down to some ten minutes: the main grid of a few seeds and steps."""
    last = min(study.steps, 60)
    steps = [step for step in study.evaluation.steps if step < last] + [last]
    return study.model_copy(
        update={
            "arms": {},
            "seeds": min(study.seeds, 3),
            "steps": last,
            "evaluation": study.evaluation.model_copy(update={"steps": steps}),
            "prediction": study.prediction.model_copy(update={"seeds": 2}),
        }
    )


def dump_study(study: Study) -> str:
    """Write the resolved settings as YAML; reading them back gives the same study."""
    return yaml.safe_dump(
        study.model_dump(mode="json"), sort_keys=False, allow_unicode=True
    )
