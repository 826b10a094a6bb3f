"""The section `training` of a probe, of which `training.py` makes a setting."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Training(BaseModel):
    """What the user trains with: a trainer, and settings under its own names.

    All further keys are settings; `probe/training.py` reads them, and the file's.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    trainer: Literal["trl", "verl", "openrlhf"] = "trl"
    config: Annotated[str, Field(min_length=1)] | None = (
        None  # A file of the trainer's settings: YAML, JSON or text.
    )
