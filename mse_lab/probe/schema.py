"""What a probe may say: every number of a run, frozen and validated.

A probe says which policy is measured, on which prompts, with how many completions. A
value that cannot be used is refused in one line that names the key, the value and the
remedy, before a model is loaded. Sections, keys and defaults are those of the YAML.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mse_lab.errors import shown


class Section(BaseModel):
    """A section of a YAML: frozen, its types as they are written, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not a boolean")
    return value


# What an array can be long; names and paths; sizes, of which texts such as 1e-3, which YAML
# takes for no number, are taken, too.
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Scale = Annotated[
    float, BeforeValidator(_no_boolean), Field(gt=0, strict=False, allow_inf_nan=False)
]

# The most completions of a prompt: all are held at once, and a million leave an error of
# a thousandth.
MOST_COMPLETIONS = 10**6


class FreshAdapter(Section):
    """A new LoRA adapter: W + (alpha / rank) B A beside every target, A random, B zero."""

    rank: Positive = 8  # Rows of A.
    alpha: Scale = 16.0  # Scales the update, over the rank.
    # Every linear layer but the head, or names of modules.
    target: str | Annotated[list[Text], Field(min_length=1)] = "all-linear"

    @field_validator("target")
    @classmethod
    def _names_stand_in_a_list(cls, target: str | list[str]) -> str | list[str]:
        if isinstance(target, str) and target != "all-linear":
            raise ValueError(
                "use all-linear, or a list of modules such as [q_proj, v_proj]"
            )
        return target


def _kind_of_adapter(value: Any) -> str:
    return "dict" if isinstance(value, Mapping | FreshAdapter) else "str-or-null"


# So that a complaint is of the alternative that was meant.
AdapterEntry = Annotated[
    Annotated[Text | None, Tag("str-or-null")] | Annotated[FreshAdapter, Tag("dict")],
    Discriminator(_kind_of_adapter),
]


class Model(Section):
    """Which policy."""

    path: Text  # A local checkpoint folder or a Hub name.
    revision: Text | None = None  # The Hub revision; None for the default branch.
    # A saved LoRA adapter, by folder or Hub name, or a fresh one; then only its parameters
    # count. None trains the model's own.
    adapter: AdapterEntry = None
    adapter_revision: Text | None = None  # The Hub revision of a saved adapter.
    # Precision of the weights and of the forward pass.
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    # `auto` takes CUDA, then MPS, then the CPU.
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?|mps)$")
    device_map: Literal["auto"] | None = None  # Spreads the layers over all devices.
    # What the run may take of the device's memory, such as `40GB`; None for 85% of a
    # GPU's, half of the host's.
    memory: (
        Annotated[str, Field(pattern=r"(?i)^ *[0-9]{1,15}(\.[0-9]{1,9})? *([kmgt]i?b)? *$")]
        | Annotated[int, Field(ge=1, lt=2**63)]
        | None
    ) = None
    # The most completions that are drawn at once; None for as many as the memory holds.
    batch: Positive | None = None

    @field_validator("device_map")
    @classmethod
    def _chooses_the_devices(cls, value: str | None, info: ValidationInfo) -> str | None:
        device = info.data.get("device", "auto")
        if value is not None and device != "auto":
            raise ValueError(
                f"takes all devices; set model.device = auto, not {device}, and choose "
                "among them with CUDA_VISIBLE_DEVICES"
            )
        return value


class Fields(Section):
    """What the source calls the fields of a prompt."""

    problem: Text = "problem"  # What the template shows.
    answer: Text = "answer"  # The reference answer, as the reward reads it.
    # Unique in the set. Where the source has no field `id`, ids are made from its name and
    # the row number; any other field that is named here must be there.
    id: Text = "id"
    category: Text = "category"  # For tables; may be missing.


class Shots(Section):
    """Demonstrations, shown where the template has its `{shots}` ... `{/shots}`.

    They are the first rows of their source that are not measured prompts themselves, the
    same for every prompt, and their fields are called as those of the prompts. Where the
    prompts come from one local file, another split is the file beside it whose name begins
    with it: `train` is `train.jsonl` beside `test.jsonl`.
    """

    count: Annotated[int, Field(ge=0, lt=2**31)] = 0  # How many.
    # Like `prompts.source`; None for the same one, of the same subset and revision.
    source: Text | None = None
    subset: Text | None = None
    split: Text | None = None  # None takes `train`.
    revision: Text | None = None

    @model_validator(mode="after")
    def _says_how_many(self) -> Self:
        given = self.model_dump(exclude={"count"}, exclude_none=True)
        if given and not self.count:
            raise ValueError(f"{next(iter(given))} is given and no count; add count: 4")
        return self


class Prompts(Section):
    """Which prompts, and the text around them."""

    # A JSONL file with `id`, `problem`, `answer` and optionally `category` a line; a Hub
    # data set `owner/name`; or a local folder, parquet, CSV or Arrow file. All but JSONL
    # are read by the library datasets, of the extra `data`.
    source: Text
    subset: Text | None = None  # The data set's configuration, where it has several.
    split: Text | None = None  # The split of a data set; None takes `test`.
    revision: Text | None = None  # The Hub revision, best a commit; None for the default.
    fields: Fields = Fields()
    limit: Positive | None = None  # Only the first so many; None for all.
    # `plain`, `few-shot`, `word-problem`, `boxed`, `none`, or a text file with `{problem}`.
    template: Text = "plain"
    shots: Shots = Shots()
    chat: bool = False  # Whether the text goes through the tokenizer's chat template.


class Sampling(Section):
    """The distribution that is sampled from and differentiated."""

    temperature: Scale = 1.0  # Divides the logits; part of the policy.
    # A completion is cut there, a valid draw of the truncated policy.
    max_new_tokens: Positive = 8


class Pool(Section):
    """Completions per prompt."""

    # For the reference gradient, in two halves.
    reference: Annotated[int, Field(ge=4, le=MOST_COMPLETIONS, multiple_of=2)] = 1024
    # For the replicates; a whole number, two or more, of blocks of the largest group size.
    replicate: Annotated[int, Field(ge=1, le=MOST_COMPLETIONS)] = 256


class Interval(Section):
    """Intervals."""

    level: Annotated[float, Field(gt=0, lt=1)] = 0.95  # Coverage.
    # Draws of the parametric bootstrap of the reference's noise.
    resamples: Annotated[int, Field(ge=100, le=10**6)] = 2000
    # The half-width that is wanted, relative to the MSE, of every point of the MSE curves:
    # `plan` says whether the pools are large enough. Changes no result.
    width: Scale = 0.1


def _has_a_name(entry: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(entry, dict) and not isinstance(entry.get("name"), str):
        raise ValueError("an entry with parameters needs a name: {name: ..., k: 4}")
    return entry


EstimatorEntry = Annotated[str | dict[str, Any], AfterValidator(_has_a_name)]
Estimators = Annotated[list[EstimatorEntry], Field(min_length=1)]


class Probe(Section):
    """One model configuration and how it is measured: a whole YAML file.

    With `completions`, a JSONL file (`policy/supplied_completions.py`), they are read
    instead of drawn, and `reward: supplied` takes their rewards from it too. A relative
    path starts from the YAML's folder where that leads to something, else from the working
    folder, else from the project's.
    """

    model: Model
    prompts: Prompts
    reward: Text = "integer"
    sampling: Sampling = Sampling()
    completions: Text | None = None
    pool: Pool = Pool()
    group_sizes: Annotated[list[Positive], Field(min_length=1)] = [4, 8, 16, 32, 64]
    estimators: Estimators = ["vanilla", "grpo", "oracle"]
    parameters: Literal["all"] | Annotated[list[Text], Field(min_length=1)] = "all"
    interval: Interval = Interval()
    seed: Annotated[int, Field(ge=0, lt=2**128)] = 0

    @property
    def largest_group(self) -> int:
        """The block size: every group size divides it."""
        return max(self.group_sizes)

    @field_validator("group_sizes")
    @classmethod
    def _each_divides_the_largest(cls, sizes: list[int]) -> list[int]:
        largest = max(sizes)
        for size in sizes:
            if largest % size:
                raise ValueError(
                    f"{size} does not divide the largest, {largest}; use divisors of it"
                )
        if len(set(sizes)) < len(sizes):
            raise ValueError("a size stands twice; name each once")
        return sorted(sizes)

    @field_validator("parameters")
    @classmethod
    def _each_is_a_pattern(cls, patterns: str | list[str]) -> str | list[str]:
        for pattern in [] if isinstance(patterns, str) else patterns:
            try:
                re.compile(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(
                    f"{shown(pattern)} is not a regular expression: {error}"
                ) from None
        return patterns

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.reward == "supplied" and self.completions is None:
            raise ValueError(
                "reward = supplied: there is no file to read it from; give completions, or "
                "name another reward"
            )
        largest, size = self.largest_group, self.pool.replicate
        if size % largest or size < 2 * largest:
            raise ValueError(
                f"pool.replicate = {size}: must be a multiple of the largest group size, "
                f"{largest}, and at least two of its blocks; use {2 * largest} or more"
            )
        return self
