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

from mse_lab.estimators import find_estimator
from mse_lab.probe.schema import EstimatorEntry
from mse_lab.probe.training import DEFAULT, TRAINERS

# What TRL and verl compute by default: the group's spread divides, and the mean is over the
# tokens of the batch.
TRAINERS_DEFAULT = DEFAULT.estimator or {}

# By trainer and estimator, parameters aside, the settings with `{size}` for the group size.
TRAINER_SETTINGS: dict[str, dict[str, str]] = {
    "trl": {
        "grpo": (
            'GRPOConfig(num_generations={size}, scale_rewards="none", '
            'loss_type="dr_grpo", beta=0.0)'
        ),
        "grpo-std": (
            'GRPOConfig(num_generations={size}, scale_rewards="group", loss_type="dapo", '
            "beta=0.0)"
        ),
    },
    "verl": {
        "grpo": (
            "actor_rollout_ref.rollout.n={size} algorithm.adv_estimator=rloo "
            "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum"
        ),
        "grpo-std": (
            "actor_rollout_ref.rollout.n={size} algorithm.adv_estimator=grpo "
            "actor_rollout_ref.actor.loss_agg_mode=token-mean"
        ),
        "vanilla": (
            "actor_rollout_ref.rollout.n=1 algorithm.adv_estimator=rloo "
            "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum"
        ),
        "batch-mean": (
            "actor_rollout_ref.rollout.n=1 algorithm.adv_estimator=reinforce_plus_plus, "
            "nearly"
        ),
    },
    "openrlhf": {
        "grpo": (
            "--rollout.n_samples_per_prompt {size} --algo.advantage.estimator rloo "
            "--algo.kl.init_coef 0 (its loss is a mean over tokens)"
        ),
        "grpo-std": (
            "--rollout.n_samples_per_prompt {size} --algo.advantage.estimator group_norm "
            "--algo.kl.init_coef 0"
        ),
        "batch-mean": (
            "--rollout.n_samples_per_prompt 1 --algo.advantage.estimator reinforce "
            "--algo.kl.init_coef 0, nearly"
        ),
    },
}

# The names of estimators that readers know, parameters aside.
DISPLAY_NAMES = {
    "grpo": "GRPO-type (RLOO)",
    "vanilla": "vanilla (no baseline)",
    "batch-mean": "batch-mean baseline",
    "best-constant": "bound: best baseline per prompt",
    "grpo-std": "GRPO with std",
}

# What of an estimator no trainer's settings compute.
UNREACHABLE = {
    "best-constant-loo": (
        "no trainer has every completion's score norm, which it takes; verl's "
        "algorithm.adv_estimator=opo takes lengths in their place"
    ),
}
NO_TRAINER = "no trainer has these weights among its settings"


def base_name(estimator: EstimatorEntry) -> str:
    """Give an estimator's name without its parameters.

    >>> base_name("grpo-std(eps=0.0001)"), base_name({"name": "grpo-std", "eps": 1e-4})
    ('grpo-std', 'grpo-std')
    """
    whole = estimator if isinstance(estimator, str) else str(estimator["name"])
    return whole.partition("(")[0]


def name_own(entry: EstimatorEntry | None) -> str:
    """Name the estimator that a training computes; `unknown` if it is none of ours."""
    return "unknown" if entry is None else find_estimator(entry).name


def reachable(trainer: str, estimator: str) -> bool:
    """Whether a trainer's settings compute an estimator."""
    return base_name(estimator) in TRAINER_SETTINGS[trainer]


def settings_for(trainer: str, estimator: str, size: int) -> str:
    """Write the settings of an estimator: the trainer's, else another's that has it."""
    name = base_name(estimator)
    others = {title: TRAINERS[title].title for title in (trainer, *TRAINER_SETTINGS)}
    for one, title in others.items():
        if name in TRAINER_SETTINGS[one]:
            line = TRAINER_SETTINGS[one][name].format(size=size)
            return line if one == trainer else f"{title}: {line}"
    return UNREACHABLE.get(name, NO_TRAINER)
