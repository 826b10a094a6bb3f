"""A baseline of one's own in TRL's trainers, in the place of the group's mean.

    from mse_lab.trl import with_baseline
    trainer = with_baseline(GRPOTrainer, alpha=0.23, num_generations=1)(model, ...)

A completion's advantage is its reward less

    b_i = alpha + lambda m_i         m_i the mean reward of the group's other completions,
    b_i = sum_{j != i} s_j Z_j / sum_{j != i} s_j      over the group or the whole batch,

so no completion is in its own baseline and the estimate is unbiased. (0, 1) is what
RLOOTrainer does; GRPOTrainer's `dr_grpo` without scaling is that times (G-1)/G. The weight
s_j of `logits` is the squared norm of the gradient of log p(y_j) in the logits,

    s_j = sum over its tokens of (1 - 2 p_y + sum_v p_v^2),

which costs one more forward pass a batch, without gradients; `length` counts tokens.

TRL refuses groups of one, and the plain trainer would learn nothing from them, silently:
its own mean leaves no advantage. So the size is given here, and set on a copy of the
settings that no other trainer sees. Evaluations keep TRL's own advantages.
"""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mse_lab.errors import InputError

WEIGHTS = ("equal", "logits", "length")


class Baseline(NamedTuple):
    """Which baseline is taken off a reward; with weights alpha is 0 and lambda 1."""

    alpha: float = 0.0
    lam: float = 1.0
    weights: str = "equal"
    over: str = "group"

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
            sums = (weights * rewards).nansum(1, keepdim=True) - weights * rewards
            counts = weights.sum(1, keepdim=True) - weights
            baselines = self.alpha + self.lam * (sums / counts)
        return (rewards - baselines).view(-1).nan_to_num(nan=0.0)


class WithBaseline:
    """Mixed into a trainer: keeps the gathered rewards, replaces the advantages."""

    baseline: Baseline
    size: int | None
    # The trainer's own.
    accelerator: Any
    args: Any
    model: Any
    num_generations: int
    reward_weights: Tensor
    temperature: float
    _logs: dict[str, Any]

    def __init__(self, *given: Any, args: Any = None, **named: Any) -> None:
        if args is None:
            raise InputError("with_baseline: give the trainer its settings, args=...")
        args = copy.copy(args)
        args.num_generations = self.size or args.num_generations
        super().__init__(*given, args=args, **named)  # type: ignore[call-arg]

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
        first = self.accelerator.process_index * len(inputs)
        batch["advantages"] = everyone_N[first : first + len(inputs)]
        self._log(everyone_N)
        return batch

    def _total(self) -> Tensor:
        """Add the reward functions up as TRL does; NaN where none gave a number."""
        rewards = self._rewards
        total_N = (rewards * self.reward_weights.to(rewards.device)).nansum(1)
        total_N[rewards.isnan().all(1)] = torch.nan
        clip = getattr(self, "reward_clip_range", None)
        return total_N.clamp(*clip) if clip else total_N

    def _weights(self, batch: Any) -> Tensor:
        if self.baseline.weights == "equal":
            return torch.ones_like(self._rewards[:, 0])
        mask = batch["completion_mask"]
        own = mask.sum(1) if self.baseline.weights == "length" else self._norms2(batch)
        return self.accelerator.gather(own.to(self._rewards.dtype))

    @torch.no_grad()
    def _norms2(self, batch: Any) -> Tensor:
        """Sum 1 - 2 p_y + sum_v p_v^2 over each completion's tokens."""
        tokens, mask = batch["completion_ids"], batch["completion_mask"]
        seen = torch.cat([batch["prompt_mask"], mask], 1)
        shown_NT, norms2 = torch.cat([batch["prompt_ids"], tokens], 1), []
        for some in torch.arange(len(tokens)).split(self.args.per_device_train_batch_size):
            logits = self.model(input_ids=shown_NT[some], attention_mask=seen[some]).logits
            logits = logits[:, -tokens.shape[1] - 1 : -1].float() / self.temperature
            chances = logits.softmax(-1)
            chosen = chances.gather(-1, tokens[some, :, None])[..., 0]
            norms2_NT = 1 - 2 * chosen + chances.square().sum(-1)
            norms2.append((norms2_NT * mask[some]).sum(1))
        return torch.cat(norms2)

    def _log(self, everyone_N: Tensor) -> None:
        """Let TRL's table of completions show what is trained with."""
        logged = self._logs["advantages"]
        kept = [*logged][: -len(everyone_N)]
        logged.clear()
        logged.extend([*kept, *everyone_N.tolist()])


def with_baseline(
    trainer: type,
    *,
    alpha: float | None = None,
    lam: float = 0.0,
    weights: str | None = None,
    over: str = "group",
    num_generations: int | None = None,
) -> type:
    """Give TRL's GRPOTrainer or RLOOTrainer another baseline.

    Args:
        trainer: The class.
        alpha: What is taken off every reward.
        lam: How much of the mean reward of the group's others is taken off, too.
        weights: In their place the mean reward of others, weighted: `equal`, `logits` or
            `length`.
        over: What those others are of, the `group` or the `batch`.
        num_generations: The group's size in the place of the settings', 1 included.

    Returns:
        A class that is used as the trainer's own.

    Raises:
        InputError: These make no baseline.
    """
    if (alpha is None) == (weights is None):
        raise InputError("with_baseline: give alpha (and lam), or weights")
    entry = Baseline(0.0, 1.0, weights, over) if weights else Baseline(alpha or 0.0, lam)
    name = f"{trainer.__name__}WithBaseline"
    return type(name, (WithBaseline, trainer), {"baseline": entry, "size": num_generations})
