"""The user's training: a trainer's own settings -> its group size and its estimator.

Of TRL 1.16, verl (main branch, core_algos.py) and OpenRLHF, names dotted or not. A verdict
is for one update a batch, where nothing is clipped and all importance ratios are one; there
TRL's cispo is dapo, sapo is grpo, and luspo sums over tokens. What else changes a gradient
(a KL term, a filter, further updates) is named if it is set, in `Setting.uncounted`.
Settings that have nothing to do with it are passed over, except those typed by hand.

Without settings it is TRL with its defaults. Where a trainer of verl or OpenRLHF is named
without a file and without an estimator of advantages, it is their GRPO; of a file theirs is
the default, an actor with a critic.
"""

import difflib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError, shown
from mse_lab.probe.plain_text import parse_json, parse_yaml, read_text
from mse_lab.probe.probe_files import flatten, parse_as
from mse_lab.probe.schema import EstimatorEntry
from mse_lab.probe.values import Training


class Trainer(NamedTuple):
    """A trainer's names: of what is read, with defaults, and of what would change it."""

    title: str
    size: str  # The setting of the group size, whole; its last part is in sentences.
    read: dict[str, Any]
    # Settings that add to the gradient or choose completions, and the values that do not.
    neutral: dict[str, tuple[Any, ...]]
    grpo: dict[str, Any]  # What is assumed where nothing says how advantages are made.
    aliases: dict[str, str] = {}  # noqa: RUF012  # Older names.


_OFF = (False, None, 0)
_VERL = "actor_rollout_ref."
TRAINERS = {
    "trl": Trainer(
        "TRL",
        "num_generations",
        {"num_generations": 8, "scale_rewards": "group", "loss_type": "dapo"},
        {
            "beta": _OFF,
            "num_iterations": (1,),
            "top_entropy_quantile": (1,),
            "mask_truncated_completions": _OFF,
            "multi_objective_aggregation": ("sum_then_normalize",),
            "entropy_coef": _OFF,
            "off_policy_mask_threshold": _OFF,
        },
        {},
    ),
    "verl": Trainer(
        "verl",
        f"{_VERL}rollout.n",
        {
            f"{_VERL}rollout.n": 1,
            "algorithm.adv_estimator": "gae",
            "algorithm.norm_adv_by_std_in_grpo": True,
            f"{_VERL}actor.loss_agg_mode": "token-mean",
        },
        {
            "algorithm.use_kl_in_reward": _OFF,
            "algorithm.use_pf_ppo": _OFF,
            "algorithm.filter_groups.enable": _OFF,
            "algorithm.rollout_correction.rollout_is": _OFF,
            "algorithm.rollout_correction.rollout_rs": _OFF,
            f"{_VERL}actor.use_kl_loss": _OFF,
            f"{_VERL}actor.entropy_coeff": _OFF,
            f"{_VERL}actor.ppo_epochs": (1,),
            f"{_VERL}actor.policy_loss.loss_mode": ("vanilla",),
        },
        {"algorithm.adv_estimator": "grpo"},
    ),
    "openrlhf": Trainer(
        "OpenRLHF",
        "rollout.n_samples_per_prompt",
        {
            "rollout.n_samples_per_prompt": 1,
            "algo.advantage.estimator": "gae",
            "algo.advantage.no_std_norm": False,
        },
        {
            "algo.kl.init_coef": _OFF,
            "algo.dynamic_filtering_enable": _OFF,
            "algo.advantage.is_correction_enable": _OFF,
            "actor.entropy_coef": _OFF,
            "actor.policy_loss_type": ("ppo",),
            "train.max_epochs": (1,),
        },
        {"algo.advantage.estimator": "group_norm"},
        {
            "advantage_estimator": "algo.advantage.estimator",
            "no_advantage_std_norm": "algo.advantage.no_std_norm",
            "init_kl_coef": "algo.kl.init_coef",
            "dynamic_filtering": "algo.dynamic_filtering_enable",
            "enable_vllm_is_correction": "algo.advantage.is_correction_enable",
            "entropy_loss_coef": "actor.entropy_coef",
        },
    ),
}

_CENTRED: dict[str, Any] = {"name": "centred"}
_BY_BATCH: dict[str, Any] = {"name": "batch-std"}

# How the losses weight a token: `length` of an estimator.
_LENGTHS: dict[str, str] = {
    **dict.fromkeys(("dr_grpo", "luspo"), "none"),
    **dict.fromkeys(("grpo", "sapo"), "sequence"),
    **dict.fromkeys(("dapo", "bnpo", "cispo", "token-mean"), "token-batch"),
    **dict.fromkeys(("seq-mean-token-sum", "seq-mean-token-sum-norm"), "none"),
    **dict.fromkeys(("token-sum", "token-mean-unbiased"), "none"),
    "seq-mean-token-mean": "sequence",
}


class Setting(NamedTuple):
    """What the user trains with."""

    trainer: str  # One of `TRAINERS`.
    group_size: int
    estimator: EstimatorEntry | None  # None where none of ours computes it.
    named: str  # The settings that say so, under the trainer's names.
    given: bool  # Whether anything was given; else TRL's defaults.
    # Settings that change the gradient, and that no number here allows for.
    uncounted: tuple[str, ...] = ()


def _advantages(trainer: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find how advantages are made; None if by none of the estimators here."""
    size, how, *more = values.values()
    known: dict[Any, dict[str, Any]]
    if trainer == "trl":
        known = {
            "group": {"name": "grpo-std", "eps": 1e-4},
            "batch": {"name": "batch-std", "eps": 1e-4},
            "none": _CENTRED,
        }
        return known.get(how)
    if trainer == "verl":
        grpo = {"name": "grpo-std", "eps": 1e-6} if more[0] else _CENTRED
        known = {
            **dict.fromkeys(("grpo", "grpo_vectorized"), grpo),
            "rloo": {"name": "grpo"},
            "rloo_vectorized": {"name": "grpo"},
            "opo": {"name": "opo"},
            "gpg": _CENTRED,
            "reinforce_plus_plus": {"name": "reinforce++"},
            "reinforce_plus_plus_baseline": _BY_BATCH,
        }
        # A group of one has no mean and no spread there.
        alone = {"grpo", "grpo_vectorized", "rloo", "rloo_vectorized", "opo"}
        return {"name": "vanilla"} if size == 1 and how in alone else known.get(how)
    known = {
        "group_norm": {"name": "grpo-std", "eps": 1e-9},
        "dr_grpo": _CENTRED,
        "rloo": {"name": "grpo"},
        "reinforce_baseline": _CENTRED if more[0] else _BY_BATCH,
        "reinforce": {"name": "reinforce++"},
    }
    return known.get(how)


def _estimator(trainer: str, values: Mapping[str, Any]) -> EstimatorEntry | None:
    advantages = _advantages(trainer, values)
    loss = "token-mean" if trainer == "openrlhf" else [*values.values()][-1]
    length = _LENGTHS.get(loss)
    if advantages is None or length is None:
        return None
    return advantages if length == "none" else {**advantages, "length": length}


def _canonical(name: str, trainer: Trainer) -> str | None:
    """Find the whole name of a setting; its last parts will do."""
    name = trainer.aliases.get(name.lstrip("+~-"), name.lstrip("+~-"))
    whole = (*trainer.read, *trainer.neutral)
    return next((one for one in whole if f".{one}".endswith(f".{name}")), None)


def _scalar(text: str) -> Any:
    """Read a value of a command line as YAML has it."""
    try:
        return parse_yaml(text, "")
    except InputError:
        return text


def _of_command_line(text: str, path: Path) -> dict[str, Any]:
    """Read the settings of a command line, with the variables that its own text sets."""
    text = re.sub(r"\\\r?\n", " ", text)
    set_there = dict(re.findall(r"(?m)^\s*(?:export +)?(\w+)=[\"']?([^\s\"'$]+)", text))
    variable = re.compile(r"\$\{?(\w+)(?::-([^}]*))?\}?")
    text = variable.sub(
        lambda found: str(set_there.get(found[1], found[2] or found[0])), text
    )
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise InputError(f"{path}: not a command line: {error}; repair it") from None
    values: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        name, equals, value = word.partition("=")
        if equals:
            values[name] = _scalar(value)
        elif word.startswith("--"):
            values[name] = True if following.startswith("--") else _scalar(following)
    return values


def read_settings(path: Path) -> dict[str, Any]:
    """Read a trainer's settings from YAML, JSON or the text of a command line, dotted."""
    if path.suffix in (".bin", ".pt", ".pkl", ".pickle"):
        raise InputError(f"{path}: a pickle, which is not read; give YAML, JSON or text")
    text = read_text(path)
    if path.suffix in (".yaml", ".yml", ".json"):
        read = parse_json if path.suffix == ".json" else parse_yaml
        values = read(text, str(path))
        if not isinstance(values, Mapping):
            raise InputError(f"{path}: not a mapping of settings to values; give one")
        return flatten(values)
    return _of_command_line(text, path)


def _refuse_misspelt(name: str, trainer: Trainer) -> None:
    whole = [*trainer.read, *trainer.aliases]
    ends = {one.rpartition(".")[2]: one for one in whole} | {one: one for one in whole}
    if close := difflib.get_close_matches(name, [*ends], n=1, cutoff=0.8):
        raise InputError(f"training: unknown setting {name}; did you mean {close[0]}?")


def interpret(
    name: str, values: Mapping[str, Any], typed: Mapping[str, Any], *, given: bool = True
) -> Setting:
    """Say what settings of a trainer amount to; `typed` are those written by hand."""
    trainer, uncounted = TRAINERS[name], []
    assumed = {} if values else trainer.grpo
    known = trainer.read | assumed
    for key, value in [*values.items(), *typed.items()]:
        whole = _canonical(key, trainer)
        if whole in known:
            known[whole] = value
        elif whole and value not in trainer.neutral[whole]:
            uncounted.append(f"{key} = {value}")
        elif whole is None and key in typed:
            _refuse_misspelt(key, trainer)
            uncounted.append(f"{key} = {value}")
    if name == "trl":
        scale = known["scale_rewards"]
        known["scale_rewards"] = {True: "group", False: "none"}.get(scale, scale)
    size = known[trainer.size]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(
            f"training: {trainer.size} = {shown(size)}: give a number above zero, or --G"
        )
    if name == "trl" and size < 2:
        raise InputError("training: num_generations = 1: TRL takes two or more")
    named = ", ".join(f"{key} = {value}" for key, value in known.items())
    return Setting(name, size, _estimator(name, known), named, given, tuple(uncounted))


# TRL 1.16 as it comes.
DEFAULT = interpret("trl", {}, {}, given=False)


def read_training(values: Mapping[str, Any] | None) -> Setting:
    """Say what a mapping, as in a probe's `training`, amounts to."""
    if values is None:
        return DEFAULT
    example = "{'trainer': 'trl', 'num_generations': 8}"
    return find_setting(parse_as(Training, values, "training", example))


def find_setting(training: Training | None) -> Setting:
    """Say what a probe's `training` amounts to; TRL's defaults without one."""
    if training is None:
        return DEFAULT
    values = {} if training.config is None else read_settings(Path(training.config))
    return interpret(training.trainer, values, training.model_extra or {})
