"""Trainers' settings: those that compute the recommended estimator, and other estimators.

The recommended one is GRPO-type: weights Z_i minus the mean of the others, scores summed
over tokens. TRL's mean-centred weights are (G-1)/G times these, and TRL divides its loss by
the longest completion allowed; both are factors, which the learning rate absorbs. The
settings hold for one update a batch, where nothing is clipped. With one completion a prompt
verl's rloo subtracts nothing and OpenRLHF's reinforce the batch's mean; TRL refuses it. The
settings are those of TRL 1.16, verl's main branch (core_algos.py at 5b98636) and the
OpenRLHF whose options are dotted; in earlier versions they were --n_samples_per_prompt,
--advantage_estimator, --init_kl_coef.
"""

from typing import NamedTuple


class TrainerSetting(NamedTuple):
    """A trainer, its settings with `{size}` for the group size, and what differs there."""

    trainer: str
    setting: str
    note: str = ""

    def at(self, size: int) -> str:
        """Write the settings for a group size."""
        return self.setting.format(size=size)

    def line(self, size: int) -> str:
        """Write the settings for a group size, and what differs."""
        return f"{self.at(size)} ({self.note})" if self.note else self.at(size)


TRAINER_SETTINGS = (
    TrainerSetting(
        "TRL",
        'GRPOConfig(num_generations={size}, scale_rewards="none", loss_type="dr_grpo", '
        "beta=0.0)",
    ),
    TrainerSetting(
        "verl",
        "actor_rollout_ref.rollout.n={size} algorithm.adv_estimator=rloo "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum",
    ),
    TrainerSetting(
        "OpenRLHF",
        "--rollout.n_samples_per_prompt {size} --algo.advantage.estimator rloo "
        "--algo.kl.init_coef 0",
        "its loss is a mean over tokens",
    ),
)

# TRL's default group size.
TRLS_SIZE = 8

# The name of what TRL computes by default.
_TRLS_DEFAULT = "grpo-std(eps=0.0001, length=token-batch)"

# The names of estimators that readers know.
DISPLAY_NAMES = {
    "grpo": "GRPO-type (RLOO)",
    "vanilla": "vanilla (no baseline)",
    "batch-mean": "batch-mean baseline",
    "best-constant": "bound: best baseline per prompt",
    _TRLS_DEFAULT: "TRL's default (grpo-std, dapo)",
}

# The trainers' settings that compute an estimator.
ESTIMATOR_SETTINGS = {
    "vanilla": (
        "verl: actor_rollout_ref.rollout.n=1 algorithm.adv_estimator=rloo; TRL and "
        "OpenRLHF cannot"
    ),
    "batch-mean": (
        "nearly that: REINFORCE++ with one completion per prompt, verl "
        "algorithm.adv_estimator=reinforce_plus_plus, OpenRLHF "
        "--algo.advantage.estimator reinforce"
    ),
    "best-constant-loo": (
        "no trainer has every completion's score norm, which it takes; verl's "
        "algorithm.adv_estimator=opo takes lengths in their place"
    ),
    _TRLS_DEFAULT: 'TRL: GRPOConfig(scale_rewards="group", loss_type="dapo")',
}
NO_TRAINER = "no trainer has these weights among its settings"
