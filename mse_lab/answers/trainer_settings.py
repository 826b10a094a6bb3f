"""Trainers' settings: what a recommended group size is called in each of them."""

from typing import NamedTuple


class TrainerSetting(NamedTuple):
    """A trainer, and where it takes the group size from; `{size}` stands for that."""

    trainer: str
    setting: str
    older: str = ""

    def at(self, size: int) -> str:
        """Write the setting for a group size."""
        return self.setting.format(size=size)

    def line(self, size: int) -> str:
        """Write it with the trainer's name, and as older versions call it."""
        older = f" (older versions: {self.older.format(size=size)})" if self.older else ""
        return f"{self.trainer}: {self.at(size)}{older}"


TRAINER_SETTINGS = (
    TrainerSetting("TRL", "GRPOConfig(num_generations={size})"),
    TrainerSetting("verl", "actor_rollout_ref.rollout.n={size}"),
    TrainerSetting(
        "OpenRLHF",
        "--rollout.n_samples_per_prompt {size}",
        older="--n_samples_per_prompt {size}",
    ),
)
