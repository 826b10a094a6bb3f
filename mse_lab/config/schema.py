"""The schema of a probe: which policy is measured, on which prompts, and how.

A value that cannot be used is refused before a model is loaded, in one line with the key,
the value and the remedy. Sections, keys and defaults are those of the YAML file.
"""

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mse_lab.config.trainers import TRAINERS
from mse_lab.errors import nearest, shown


def refuse_truth(value: Any) -> Any:
    """Refuse a truth value for a number: Python counts true as 1."""
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _refuse_mps(value: Any) -> Any:
    if str(value).partition(":")[0] == "mps":
        raise ValueError("Apple's GPUs have no float64, in which scores add up; use cpu")
    return value


# Positive numbers may be texts such as 1e-3: YAML reads them as texts.
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Names = Annotated[list[Text], Field(min_length=1)]
Scale = Annotated[
    float, Field(gt=0, strict=False, allow_inf_nan=False), BeforeValidator(refuse_truth)
]


def _of_form(pattern: str, examples: str) -> AfterValidator:
    """Refuse a text of another form, by examples instead of the pattern."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"give {examples}")
        return text

    return AfterValidator(check)


# Bytes, or a text such as `40GB`.
MemoryLimit = (
    Annotated[
        str,
        _of_form(
            r"(?i) *[0-9]{1,15}(\.[0-9]{1,9})? *([kmgt]i?b)? *",
            "a size such as 40GB or 512 MiB, or a number of bytes",
        ),
    ]
    | Annotated[int, Field(ge=1, lt=2**63)]
)

MOST_COMPLETIONS = 10**6  # The most completions per prompt: all are in memory at once.

# Left out of what is written where it is not set, so that nothing else changes.
IF_SET = Field(exclude_if=lambda value: value is None)


def _is_in_the_table(name: str) -> str:
    if name not in TRAINERS:
        raise ValueError(f"no trainer of the table; {nearest(name, [*TRAINERS])}")
    return name


def _has_a_name(entry: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(entry, dict) and not isinstance(entry.get("name"), str):
        raise ValueError("an entry with parameters needs a name: {name: ..., k: 4}")
    return entry


EstimatorEntry = Annotated[str | dict[str, Any], AfterValidator(_has_a_name)]
Estimators = Annotated[list[EstimatorEntry], Field(min_length=1)]


class Training(BaseModel):
    """What the user trains with: a trainer, and settings under its own names.

    All further keys are settings; `training.py` reads them, and the file's.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    # `other` for one that is not read: its group size is `G`.
    trainer: Annotated[str, AfterValidator(_is_in_the_table)] = "trl"
    config: Text | None = None  # A file of the trainer's settings, YAML or JSON.
    words: list[str] | None = None  # The words that the trainer itself gets.
    completions_per_step: Annotated[int, Field(ge=1)] | None = None  # N, without a batch.
    estimator: Annotated[EstimatorEntry | None, IF_SET] = None  # Not the trainer's weights.

    @model_validator(mode="before")
    @classmethod
    def _is_another_trainer(cls, values: Any) -> Any:
        """Take a group size in this tool's own word for that of a trainer not read."""
        own = isinstance(values, dict) and "G" in values
        return {"trainer": "other", **values} if own else values


class Section(BaseModel):
    """A section of a YAML file, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FreshAdapter(Section):
    """A new LoRA adapter: (alpha / rank) B A is added to each target, A random, B zero."""

    rank: Positive = 8  # Rows of A.
    alpha: Scale = 16.0  # alpha / rank scales the update.
    # Every linear layer but the head, or names of modules.
    target: Literal["all-linear"] | Names = "all-linear"


class Model(Section):
    """The policy."""

    path: Text  # A local checkpoint folder or a Hub name.
    revision: Text | None = None  # The Hub revision; None for the default branch.
    # A LoRA adapter: a folder, a Hub name, or a new one; then only its parameters count.
    adapter: FreshAdapter | Text | None = None
    adapter_revision: Text | None = None  # The Hub revision of a saved adapter.
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    device: Annotated[
        str,
        BeforeValidator(_refuse_mps),
        _of_form("auto|cpu|cuda(:[0-9]{1,3})?", "auto, cpu, cuda or cuda:1"),
    ] = "auto"
    device_map: Literal["auto"] | None = None  # Spreads the layers over all devices.
    # Of the device, such as `40GB`; None for 85% of a GPU's or half of the host's.
    memory: MemoryLimit | None = None
    batch: Positive | None = None  # Drawn at once at most; None for what fits in memory.

    @field_validator("device_map")
    @classmethod
    def _chooses_the_devices(cls, value: str | None, info: ValidationInfo) -> str | None:
        device = info.data.get("device", "auto")
        if value is not None and device != "auto":
            raise ValueError(f"takes all devices; set model.device = auto, not {device}")
        return value


class Fields(Section):
    """The names of a prompt's fields in its source."""

    problem: Text = "problem"
    answer: Text = "answer"  # The reference answer, for the reward.
    id: Text = "id"  # Unique; without a field `id` made from the source and the row number.
    category: Text = "category"  # For tables; optional.


PromptPopulation = Literal["like-these", "these"]


class Prompts(Section):
    """The prompts and the text around them."""

    # A JSONL, Parquet or CSV file, a folder, or a Hub data set `owner/name`.
    source: Text
    subset: Text | None = None  # The data set's configuration, if it has several.
    split: Text | None = None  # The split of a data set; None for `test`.
    revision: Text | None = None  # The Hub revision, best a commit; None for the default.
    fields: Fields = Fields()
    limit: Positive | None = None  # A random sample of so many, by the seed; None for all.
    # `plain`, `few-shot`, `word-problem`, `boxed`, `none`, or a text file with `{problem}`.
    template: Text = "plain"
    chat: bool = False  # Whether the tokenizer's chat template is applied.
    # What the template is given beside the messages, such as {enable_thinking: false}.
    chat_template_kwargs: Annotated[dict[str, Any] | None, IF_SET] = None
    # A random sample of a larger population, or all there are, such as a training set.
    population: Annotated[
        PromptPopulation, Field(exclude_if=lambda name: name == "like-these")
    ] = "like-these"

    @model_validator(mode="after")
    def _has_a_template_for_them(self) -> Self:
        if self.chat_template_kwargs and not self.chat:
            raise ValueError(
                "chat_template_kwargs: without effect where chat = false; set chat = true, "
                "or leave it out"
            )
        return self

    def population_size(self, count: int) -> float:
        """How many prompts there are in all where a source has so many."""
        return count if self.population == "these" else math.inf


class Sampling(Section):
    """The distribution of the completions.

    It is also the policy that is differentiated, so a setting that changes it acts in
    `Policy.scaled`, on which drawing and scores rest.
    """

    temperature: Scale = 1.0  # Divides the logits; part of the policy.
    max_new_tokens: Positive = 8  # Longer ones are draws of the truncated policy.
    # Texts, each of which ends a completion; not written where there are none.
    stop: Annotated[
        list[Text],
        BeforeValidator(lambda stop: [stop] if isinstance(stop, str) else stop),
        Field(exclude_if=lambda stop: not stop),
    ] = []


class Pool(Section):
    """Numbers of completions per prompt."""

    # For the reference gradient, in two halves.
    reference: Annotated[int, Field(ge=4, le=MOST_COMPLETIONS, multiple_of=2)] = 1024
    # For the replicates: a multiple of the largest group size, at least twice that.
    replicate: Annotated[int, Field(ge=1, le=MOST_COMPLETIONS)] = 256


IntervalMethod = Literal["closed-form", "bootstrap"]


class Interval(Section):
    """Confidence intervals."""

    # Variances with Student's tails, or percentiles of a bootstrap of groups or prompts.
    method: IntervalMethod = "closed-form"
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95  # Coverage.
    # Draws of the parametric bootstrap of the reference's noise, and of the bootstrap.
    resamples: Annotated[int, Field(ge=2, le=10**6)] = 2000


class Probe(Section):
    """A model configuration and how it is measured: a whole YAML file."""

    model: Model
    prompts: Prompts
    reward: Text = "integer"
    sampling: Sampling = Sampling()
    # A JSONL of completions from elsewhere; with `reward: supplied` of their rewards, too.
    completions: Text | None = None
    pool: Pool = Pool()
    group_sizes: Annotated[list[Positive], Field(min_length=1)] = [4, 8, 16, 32, 64]
    estimators: Estimators = ["vanilla", "grpo", "oracle"]
    parameters: Literal["all"] | Names = "all"
    interval: Interval = Interval()
    seed: Annotated[int, Field(ge=0, lt=2**128)] = 0
    # What the verdict on group sizes is about; None for TRL's defaults.
    training: Annotated[Training | None, IF_SET] = None

    @property
    def largest_group(self) -> int:
        """The block size: every group size divides it."""
        return max(self.group_sizes)

    @field_validator("group_sizes")
    @classmethod
    def _each_divides_the_largest(cls, sizes: list[int]) -> list[int]:
        largest = max(sizes)
        if odd := [size for size in sizes if largest % size]:
            raise ValueError(
                f"{odd[0]} does not divide the largest, {largest}; use divisors of it"
            )
        if len(set(sizes)) < len(sizes):
            raise ValueError("a size occurs twice; name each once")
        return sorted(sizes)

    @field_validator("parameters")
    @classmethod
    def _each_is_a_pattern(cls, patterns: str | list[str]) -> str | list[str]:
        for pattern in [] if isinstance(patterns, str) else patterns:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                what = f"{shown(pattern)} is not a regular expression: {error}"
                raise ValueError(what) from None
        return patterns

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.reward == "supplied" and self.completions is None:
            raise ValueError(
                "reward = supplied: there is no file to read it from; set completions, or "
                "name another reward"
            )
        largest, size = self.largest_group, self.pool.replicate
        if size % largest or size < 2 * largest:
            raise ValueError(
                f"pool.replicate = {size}: must be a multiple of the largest group size, "
                f"{largest}, and at least two of its blocks; use {2 * largest} or more"
            )
        return self
