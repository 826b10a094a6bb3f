"""The subject of a measurement: prompts of a policy, their reward, and how much at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from numpy import float32
from numpy.typing import NDArray

from mse_lab.estimators import Estimator
from mse_lab.measurement.memory import Memory, plan_memory
from mse_lab.policy.policy import Policy, encode_prompts
from mse_lab.policy.supplied_completions import Supplied
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import Reward
from mse_lab.probe.schema import Probe
from mse_lab.scores import sketches
from mse_lab.scores.reference import Gradient


@dataclass(frozen=True)
class Subject:
    """Prompts of a policy and their reward, ready to be measured.

    Attributes:
        probe: The settings: sampling, pool sizes, group sizes, seed.
        tokens: The token ids of each prompt.
        supplied: The completions that are read instead of drawn, if any.
        estimators: What will be evaluated; rewards that one cannot take are refused.
        keep_vectors: Whether reference vectors are kept whole, not as sketches.
        memory: How much is done at once.
    """

    probe: Probe
    policy: Policy
    prompts: Sequence[Prompt]
    tokens: list[list[int]]
    reward: Reward
    supplied: Supplied | None
    estimators: Sequence[Estimator]
    keep_vectors: bool
    memory: Memory

    def keep(self, gradient: Gradient) -> NDArray[float32]:
        """Give what is kept of a reference vector once its prompt is done."""
        if not self.keep_vectors:
            return sketches.sketch(gradient, self.probe.seed)
        # A prompt may leave out parameters that another uses, such as an expert's.
        whole = {
            name: gradient.get(name, torch.zeros_like(parameter))
            for name, parameter in self.policy.parameters.items()
        }
        return sketches.flatten(whole)


def make_subject(
    probe: Probe,
    policy: Policy,
    prompts: Sequence[Prompt],
    reward: Reward,
    *,
    supplied: Supplied | None = None,
    estimators: Sequence[Estimator] = (),
) -> Subject:
    """Tokenize the prompts of a policy, and plan its passes.

    Raises:
        InputError: The prompts do not fit the policy, or the policy cannot be measured.
    """
    new_tokens = probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=probe.prompts.chat, new_tokens=new_tokens)
    return Subject(
        probe=probe,
        policy=policy,
        prompts=prompts,
        tokens=tokens,
        reward=reward,
        supplied=supplied,
        estimators=estimators,
        keep_vectors=sketches.vectors_fit(len(prompts), policy.size),
        memory=plan_memory(probe, policy, tokens),
    )
