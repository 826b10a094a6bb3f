"""The section `training` of a probe, of which `training.py` makes a setting."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from mse_lab.probe.values import Text


class Training(BaseModel):
    """What the user trains with: a trainer, and settings under its own names.

    All further keys are settings; `probe/training.py` reads them, and the file's.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    trainer: Literal["trl", "verl", "openrlhf"] = "trl"
    config: Text | None = None  # A file of the trainer's settings: YAML, JSON or text.
