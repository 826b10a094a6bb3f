"""Values: the kinds that the keys of a probe have."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _refuse_truth(value: Any) -> Any:
    if isinstance(value, bool):  # Python counts true as 1.
        raise ValueError("should be a number")
    return value


# Positive numbers may be texts such as 1e-3: YAML reads them as texts.
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Names = Annotated[list[Text], Field(min_length=1)]
Scale = Annotated[
    float, Field(gt=0, strict=False, allow_inf_nan=False), BeforeValidator(_refuse_truth)
]

# Bytes, or a text such as `40GB`.
Memory = (
    Annotated[str, Field(pattern=r"(?i)^ *[0-9]{1,15}(\.[0-9]{1,9})? *([kmgt]i?b)? *$")]
    | Annotated[int, Field(ge=1, lt=2**63)]
)

MOST_COMPLETIONS = 10**6  # The most completions per prompt: all are in memory at once.

# Left out of what is written where it is not set, so that nothing else changes.
IF_SET = Field(exclude_if=lambda value: value is None)


class Training(BaseModel):
    """What the user trains with: a trainer, and settings under its own names.

    All further keys are settings; `probe/training.py` reads them, and the file's.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    trainer: Literal["trl", "ms-swift", "verl", "openrlhf", "nemo-rl"] = "trl"
    config: Text | None = None  # A file of the trainer's settings, YAML or JSON.
    words: list[str] | None = None  # The words that the trainer itself gets.
    completions_per_step: Annotated[int, Field(ge=1)] | None = None  # N, without a batch.
