"""A baseline of one's own in TRL's trainers, in the place of the group's mean.

    from mse_lab.trl import with_baseline
    trainer = with_baseline(GRPOTrainer, alpha=0.23, num_generations=1)(model, ...)

A completion's advantage is its reward less

    b_i = alpha + lambda m_i         m_i the mean reward of the group's other completions,
    b_i = sum_{j != i} s_j Z_j / sum_{j != i} s_j      over the batch or the group,

so no completion is in its own baseline and the estimate is unbiased. (0, 1) is what
RLOOTrainer does; GRPOTrainer's `dr_grpo` without scaling is that times (G-1)/G. The weight
s_j of `logits` is the squared norm of the gradient of log p(y_j) in the logits,

    s_j = sum over its tokens of (1 - 2 p_y + sum_v p_v^2),

which costs one more forward pass a batch, without gradients; `length` counts tokens.

TRL refuses groups of one, and the plain trainer would learn nothing from them, silently:
its own mean leaves no advantage. So the size is given here, and set on a copy of the
settings that no other trainer sees. What would rescale the advantages, or leave the rewards
out, is refused. Evaluations keep TRL's own advantages.
"""

import copy
import inspect
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mse_lab.config.schema import EstimatorEntry
from mse_lab.config.trainers import TRAINERS
from mse_lab.errors import InputError, is_count, shown
from mse_lab.policy.log_probabilities import token_log_probs

# Those of TRL 1.16 whose advantages are replaced, by their names in the table of settings.
# With what they need a step is along (1/N) sum_i (Z_i - b_i) W_i, up to a constant.
OF_TRL = {"trl.trainer.grpo_trainer": "trl", "trl.trainer.rloo_trainer": "rloo"}
WEIGHTS, OVER = ("equal", "logits", "length"), ("batch", "group")


class Baseline(NamedTuple):
    """Which baseline is taken off a reward; with weights alpha is 0 and lambda 1."""

    alpha: float = 0.0
    lam: float = 1.0
    weights: str = "equal"
    over: str = "group"

    @property
    def entry(self) -> EstimatorEntry:
        """The estimator, as in a probe."""
        if self.weights != "equal":
            by = {"weight": self.weights, "over": self.over}
            return {"name": "norm-weighted", **by}
        if self.over == "batch":
            return "global-mean"
        return {"name": "affine", "alpha": self.alpha, "lambda": self.lam}

    def advantages(self, rewards_N: Tensor, weights_N: Tensor, size: int) -> Tensor:
        """Take the baseline off; a completion without a reward (NaN) counts nowhere.

        Args:
            rewards_N: Rewards, groups of `size` one after another.
            weights_N: s_j of each, positive.
            size: Completions of a group.

        Returns:
            Z_i - b_i, 0 where the reward or all others of its baseline are missing.
        """
        pool = size if self.over == "group" else len(rewards_N)
        rewards = rewards_N.view(-1, pool)
        weights = weights_N.view(-1, pool) * ~rewards.isnan()
        baselines: Tensor | float = self.alpha
        if self.lam:
            weighted = weights * rewards
            sums = weighted.nansum(1, keepdim=True) - weighted
            counts = weights.sum(1, keepdim=True) - weights
            baselines = self.alpha + self.lam * (sums / counts)
        return (rewards - baselines).view(-1).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


class WithBaseline:
    """Mixed into a trainer: keeps the gathered rewards, replaces the advantages."""

    baseline: Baseline
    size: int | None
    needs: Mapping[str, tuple[Any, ...]]
    # The trainer's own.
    accelerator: Any
    args: Any
    model: Any
    num_generations: int
    reward_weights: Tensor
    temperature: float
    train_dataset: Any
    _logs: dict[str, Any]

    def __init__(self, *given: Any, **named: Any) -> None:
        call = inspect.signature(super().__init__).bind_partial(*given, **named)
        if call.arguments.get("args") is None:
            raise InputError("with_baseline: give the trainer its settings, args=...")
        args = copy.copy(call.arguments["args"])  # No plain trainer sees groups of one.
        args.num_generations = self.size or args.num_generations
        args.mse_lab_estimator = self.baseline.entry  # For a callback beside it.
        refuse_settings(args, self.baseline, self.needs)
        call.arguments["args"] = args
        super().__init__(*call.args, **call.kwargs)
        refuse_few_rows(self.train_dataset, args)

    def _calculate_rewards(self, *given: Any) -> Tensor:
        self._rewards = super()._calculate_rewards(*given)  # type: ignore[misc]
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        if not self.model.training:
            return batch
        everyone_N = self.baseline.advantages(
            self._total(), self._weights(batch), self.num_generations
        )
        own = batch["advantages"]
        first = self.accelerator.process_index * len(own)
        batch["advantages"] = everyone_N[first : first + len(own)].to(own)
        # TRL's table of completions, of one batch, shows what is trained with.
        self._logs["advantages"].extend(everyone_N.tolist())
        return batch

    def _total(self) -> Tensor:
        """Add the reward functions up as TRL does; NaN where none gave a number."""
        rewards = self._rewards
        total_N = (rewards * self.reward_weights.to(rewards.device)).nansum(1)
        total_N[rewards.isnan().all(1)] = torch.nan
        clip = getattr(self, "reward_clip_range", None)
        return total_N.clamp(*clip) if clip else total_N

    def _weights(self, batch: Any) -> Tensor:
        """The weights s_j of everyone's completions."""
        if self.baseline.weights == "equal":
            return torch.ones_like(self._rewards[:, 0])
        lengths = self.baseline.weights == "length"
        own = batch["completion_mask"].sum(1) if lengths else self._norms2(batch)
        return self.accelerator.gather(own.to(self._rewards.dtype))

    @torch.no_grad()
    def _norms2(self, batch: Any) -> Tensor:
        """Sum 1 - 2 p_y + sum_v p_v^2 over each completion's tokens."""
        tokens, mask = batch["completion_ids"], batch["completion_mask"]
        seen = torch.cat([batch["prompt_mask"], mask], 1)
        read, norms2 = torch.cat([batch["prompt_ids"], tokens], 1), list[Tensor]()
        for some in torch.arange(len(tokens)).split(self.args.per_device_train_batch_size):
            logits = self.model(input_ids=read[some], attention_mask=seen[some]).logits
            logits = logits[:, -tokens.shape[1] - 1 : -1].float() / self.temperature
            _, norms2_NT = token_log_probs(logits, tokens[some])
            norms2.append((norms2_NT * mask[some]).sum(1))
        return torch.cat(norms2)


def refuse_settings(
    args: Any, baseline: Baseline, needs: Mapping[str, tuple[Any, ...]]
) -> None:
    """Refuse settings that undo the baseline, or groups that leave it nothing."""
    for name, (value, *others) in needs.items():
        if getattr(args, name, value) not in (value, *others):
            given = getattr(args, name)
            raise InputError(
                f"{name} = {shown(given)} rescales or replaces the advantages that "
                f"with_baseline sets; set {name}={value!r}"
            )
    size = args.num_generations
    if size == 1 and baseline.lam and baseline.over == "group":
        raise InputError(
            "num_generations = 1: a group of one has no other completion; leave lam out, "
            "or take weights over the batch"
        )
    if args.generation_batch_size % size:
        raise InputError(
            f"num_generations = {size} does not divide the {args.generation_batch_size} "
            "completions that are drawn together; change one"
        )


def refuse_few_rows(rows: Any, args: Any) -> None:
    """Refuse a data set of which TRL would make no batch, and train nothing, silently."""
    needed = args.generation_batch_size // args.num_generations
    if hasattr(rows, "__len__") and len(rows) < needed:
        raise InputError(
            f"train_dataset: {len(rows)} prompts, but a batch takes {needed} "
            f"({args.generation_batch_size} completions, num_generations = "
            f"{args.num_generations}); give as many, or draw fewer completions"
        )


def read_baseline(
    alpha: float | None, lam: float, weights: str | None, over: str
) -> Baseline:
    """Read what a baseline is; refuse what makes none."""
    if (alpha is None) == (weights is None) or (weights and lam):
        raise InputError("with_baseline: give alpha, or alpha and lam, or weights alone")
    for name, word, known in (("weights", weights, WEIGHTS), ("over", over, OVER)):
        if word not in (None, *known):
            raise InputError(
                f"with_baseline: {name} = {shown(word)}: give {' or '.join(known)}"
            )
    if weights:
        return Baseline(0.0, 1.0, weights, over)
    for name, given in (("alpha", alpha), ("lam", lam)):
        number = math.nan
        with suppress(TypeError, ValueError, OverflowError):
            number = number if isinstance(given, bool | str | None) else float(given)
        if not math.isfinite(number):
            raise InputError(f"with_baseline: {name} = {shown(given)}: give a number")
    return Baseline(float(alpha or 0), float(lam))


def with_baseline(
    trainer: type,
    *,
    alpha: float | None = None,
    lam: float = 0.0,
    weights: str | None = None,
    over: str = "batch",
    num_generations: int | None = None,
) -> type:
    """Give TRL's GRPOTrainer or RLOOTrainer another baseline.

    Args:
        trainer: The class.
        alpha: What is taken off every reward.
        lam: How much of the mean reward of the group's others is taken off, too.
        weights: In their place the mean reward of others, weighted: `equal`, `logits` or
            `length`.
        over: Which others weights go over, those of the `batch` or of the `group`.
        num_generations: The group's size in the place of the settings', 1 included.

    Returns:
        A class that is used as the trainer's own.

    Raises:
        InputError: These make no baseline, or the trainer is none of the two; making a
            trainer of the class raises it for settings that would undo the baseline.
    """
    if (name := OF_TRL.get(getattr(trainer, "__module__", ""))) is None:
        raise InputError(
            f"with_baseline: {shown(trainer)} is not TRL's own; give GRPOTrainer or "
            "RLOOTrainer, and derive from what is returned"
        )
    baseline = read_baseline(alpha, lam, weights, over)
    if num_generations is not None and not is_count(num_generations):
        given = shown(num_generations)
        raise InputError(f"num_generations = {given}: give a whole number from 1")
    needs = TRAINERS[name].needs
    own = {"baseline": baseline, "size": num_generations, "needs": needs}
    return type(f"{trainer.__name__}WithBaseline", (WithBaseline, trainer), own)
