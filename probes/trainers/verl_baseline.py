r"""verl: alpha + lambda times the mean reward of the group's others, as an advantage.

    VERL_USE_EXTERNAL_MODULES=probes.trainers.verl_baseline MSE_LAB_BASELINE=0.23,0.1 \
    python -m verl.trainer.main_ppo algorithm.adv_estimator=affine ... \
      actor_rollout_ref.rollout.n=8 \
      actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum

    A_i = Z_i - alpha - lambda mean_{j != i} Z_j           on every token of completion i

(0, 1) is verl's `rloo`; lambda needs groups of two or more. verl imports this file by the
first variable, in its worker, too: on a cluster give both in Ray's runtime environment. It
hands an estimator of one's own the rewards, the mask and the groups (read at 0.8.0.dev,
b178a3c), so a weight by length could be had, but not one by the logits: `sum_pi_squared`
goes to verl's own two token baselines alone. A KL term in the reward is part of Z here.
"""

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

VARIABLE = "MSE_LAB_BASELINE"


def read_baseline(text: str | None) -> tuple[float, float]:
    """Read alpha and lambda, or alpha alone.

    >>> read_baseline("0.23,0.1")
    (0.23, 0.1)
    """
    try:
        alpha, lam = (*map(float, (text or "").split(",")), 0.0)[:2]
        if not (abs(alpha) < float("inf") and abs(lam) < float("inf")):
            raise ValueError
    except ValueError:
        raise SystemExit(
            f"{VARIABLE} = {text!r}: give alpha, or alpha and lambda, such as 0.23,0.1"
        ) from None
    return alpha, lam


@register_adv_est("affine")
def affine_advantage(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    config: Any = None,
    **given: Any,
) -> tuple[Tensor, Tensor]:
    """Take the baseline off, as verl calls it.

    Args:
        token_level_rewards: (N, T), of which the sum over tokens is the reward.
        response_mask: (N, T), 1 on a completion's tokens.
        index: The prompt of each completion, (N,).
        config: verl's settings of the algorithm; not read.
        given: What else verl may hand over; not read.

    Returns:
        Advantages and returns, (N, T), the same.
    """
    alpha, lam = read_baseline(os.environ.get(VARIABLE))
    with torch.no_grad():
        rewards_N = token_level_rewards.sum(-1)
        numbers = {prompt: at for at, prompt in enumerate(dict.fromkeys(index))}
        prompt_N = torch.tensor([numbers[one] for one in index], device=rewards_N.device)
        of_prompts = rewards_N.new_zeros(len(numbers))
        sums_N = of_prompts.index_add(0, prompt_N, rewards_N)[prompt_N]
        ones_N = torch.ones_like(rewards_N)
        others_N = of_prompts.index_add(0, prompt_N, ones_N)[prompt_N] - 1
        if lam and (others_N < 1).any():
            raise ValueError(
                f"{VARIABLE}: lambda = {lam} needs groups of two completions or more; set "
                "actor_rollout_ref.rollout.n=2 or lambda 0"
            )
        baselines_N = alpha + (lam * (sums_N - rewards_N) / others_N if lam else 0.0)
        advantages = (rewards_N - baselines_N)[:, None] * response_mask
    return advantages, advantages


read_baseline(os.environ.get(VARIABLE))  # Refused before a cluster has started.
