"""The rollouts that TRL's trainer gives a reward function in a step, group by group."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from mse_lab.arrays import Floats
from mse_lab.errors import InputError, shown
from mse_lab.measurement.looks import FIRST_PROMPTS
from mse_lab.measurement.prompt import CompletionPool
from mse_lab.mse.one_pool import LEAST_COMPLETIONS
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.supplied_completions import parse_line

REMEDY = "measure by completions drawn apart: MSECallback(prompts, reward)"


class Group(NamedTuple):
    """Rollouts of one prompt: the tokens of each, end token included, and rewards."""

    prompt: Any  # A text, or messages.
    tokens: Sequence[Sequence[int]]
    rewards_N: Floats

    def pool(self, index: int, policy: Policy, positions: int) -> CompletionPool:
        """Read completions of at most `positions` tokens, of log-probability NaN."""
        unpadded = [
            parse_line(
                json.dumps({"prompt": str(index), "tokens": list(tokens)}).encode(),
                f"group {index}, rollout {number}",
            ).read_tokens(policy, positions)
            for number, tokens in enumerate(self.tokens)
        ]
        unknown, ends = [np.nan] * len(unpadded), policy.ends
        drawn = Completions.of_each(unpadded, positions, unknown, ends)
        return CompletionPool("rollouts", drawn, [], self.rewards_N)


class Batch(NamedTuple):
    """What a reward function was given in one call, and the rewards that it returned."""

    given: Mapping[str, Any]
    rewards: Sequence[Any]

    def groups(self, size: int) -> Iterator[Group]:
        """List the groups; one that is cut between two processes may be left out."""
        prompts, tokens = self.given["prompts"], self.given["completion_ids"]
        rewards_N = _as_numbers(self.rewards)
        _refuse_others(self.given)
        _refuse_turns(self.given)
        for start in range(0, len(prompts), size):
            group = slice(start, start + size)
            if any(prompt != prompts[start] for prompt in prompts[group]):
                raise InputError(
                    f"rollouts {start} to {start + size - 1} are not of one prompt, as the "
                    f"groups of {size} of TRL's own sampler are; {REMEDY}"
                )
            if len(tokens[group]) >= LEAST_COMPLETIONS:
                yield Group(prompts[start], tokens[group], rewards_N[group])


def _as_numbers(rewards: Sequence[Any]) -> Floats:
    rewards_N = np.array([np.nan if each is None else float(each) for each in rewards])
    if not np.isfinite(rewards_N).all():
        at = int(np.argmin(np.isfinite(rewards_N)))
        raise InputError(f"the reward of rollout {at} is {shown(rewards[at])}: no number")
    return rewards_N


def _refuse_others(given: Mapping[str, Any]) -> None:
    """Refuse the rewards of one function of several; they all know their trainer."""
    trainer = getattr(given.get("log_extra"), "__self__", None)
    if (count := len(getattr(trainer, "reward_funcs", ()))) > 1:
        raise InputError(
            f"{count} reward functions, of which one is watched; give one with their sum"
        )


def _refuse_turns(given: Mapping[str, Any]) -> None:
    messages = (one for one in given["completions"] if not isinstance(one, str))
    if any(len(turns) > 1 for turns in messages) or "environments" in given:
        raise InputError(
            "rollouts of several turns: which tokens are the policy's own is not known "
            f"here; {REMEDY}"
        )


def refuse_settings(args: Any, model: nn.Module, budget: int) -> None:
    """Refuse settings whose rollouts cannot be measured."""
    size = args.num_generations
    if size < LEAST_COMPLETIONS:
        raise InputError(
            f"num_generations = {size}: the constants take {LEAST_COMPLETIONS} rollouts of "
            f"a prompt; {REMEDY}"
        )
    if not args.use_vllm and _has_dropout(model):
        raise InputError(
            "the trainer draws with dropout, which no measurement has; set "
            "disable_dropout=True, and attention_dropout and lora_dropout to 0"
        )
    least = FIRST_PROMPTS * size
    if budget < least:
        raise InputError(
            f"budget = {budget}: the first look takes {least} rollouts, {size} of each of "
            f"{FIRST_PROMPTS} prompts; give that or more"
        )


def _has_dropout(model: nn.Module) -> bool:
    settings: Any = model.config
    attention = getattr(settings.get_text_config(), "attention_dropout", 0.0)
    dropouts = (part for part in model.modules() if isinstance(part, nn.Dropout))
    return bool(attention) or any(dropout.p > 0 for dropout in dropouts)
