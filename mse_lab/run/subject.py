"""The subject of a measurement: prompts of a policy, their reward, and a plan of memory."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from numpy import float32
from numpy.typing import NDArray

from mse_lab.estimators import Estimator
from mse_lab.policy.policy import Policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.supplied_completions import Supplied
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import Reward
from mse_lab.probe.schema import Probe
from mse_lab.run.memory import Memory, plan_memory
from mse_lab.scores import sketches
from mse_lab.scores.reference import Gradient


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What is measured, without the model."""

    name: str  # The probe's name, for tables and the progress bar.
    probe: Probe  # The settings: sampling, pool sizes, group sizes, seed.
    prompts: Sequence[Prompt]
    reward: Reward  # The reward, tried on every prompt.
    # The estimators that will be evaluated; rewards that one cannot take are refused.
    estimators: Sequence[Estimator] = ()
    # Completions that are read instead of drawn, if any.
    supplied: Supplied | None = None


@dataclass(frozen=True, kw_only=True)
class Subject(Inputs):
    """Prompts of a policy and their reward, ready to be measured."""

    policy: Policy
    tokens: list[list[int]]  # The token ids of each prompt.
    memory: Memory  # How many completions each pass takes at once.

    @property
    def keeps_whole(self) -> bool:
        """Whether the prompts' vectors are kept whole, not as sketches."""
        return sketches.vectors_fit(len(self.prompts), self.policy.size)

    def keeper(self) -> sketches.Keeper:
        """Make what keeps one gradient."""
        if self.keeps_whole:
            return sketches.Whole(self.policy.parameters)
        return sketches.Sketch(self.policy.parameters, self.probe.seed)

    def keep(self, gradient: Gradient) -> NDArray[float32]:
        """Reduce a reference vector to what is kept of it when its prompt is done."""
        # A prompt may leave out parameters that another uses, such as an expert's.
        kept = self.keeper()
        for name, part in gradient.items():
            kept.add(name, [part])
        return kept.vector


def make_subject(inputs: Inputs, policy: Policy, scored: int | None = None) -> Subject:
    """Tokenize the prompts for a policy, and plan the memory of its passes.

    A block has the largest group size; or `scored` completions, and then all products
    between them are needed.
    """
    probe, prompts = inputs.probe, inputs.prompts
    new_tokens = probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=probe.prompts.chat, new_tokens=new_tokens)
    return Subject(
        **{field.name: getattr(inputs, field.name) for field in fields(Inputs)},
        policy=policy,
        tokens=tokens,
        memory=plan_memory(probe, policy, tokens, scored),
    )
