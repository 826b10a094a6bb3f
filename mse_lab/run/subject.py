"""The subject of a measurement: prompts of a policy, their reward, and a plan of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import float32
from numpy.typing import NDArray

from mse_lab.arrays import Floats, Ints
from mse_lab.config.schema import Probe
from mse_lab.data.first_prompt import describe_first
from mse_lab.data.rewards import reward_completions
from mse_lab.data.streams import uniforms
from mse_lab.mse.measurement import PromptChecks, PromptMeasurement
from mse_lab.mse.mismatch import Mismatch
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.sampling import draw_together
from mse_lab.results.checks import Check
from mse_lab.run.memory import Memory, attempt
from mse_lab.run.prepare import Inputs
from mse_lab.scores import sketches
from mse_lab.scores.reference import Gradient


def law_gap(drawn_N: Floats, recomputed_N: Floats, lengths_N: Ints) -> float:
    """Give the largest absolute difference of log-probabilities, in nats per token."""
    return float((np.abs(drawn_N - recomputed_N) / lengths_N).max())


class SourceFindings(NamedTuple):
    """What is found of completions that come from elsewhere."""

    checks: Sequence[Check] = ()  # The built-in checks that only these need.
    warnings: Sequence[str] = ()  # What a reader should know about them, a sentence each.
    # How far an engine that drew them is from the policy, where one did.
    mismatch: Mismatch | None = None


class Drawn:
    """Completions that the policy draws here."""

    def validate(self, policy: Policy, probe: Probe) -> None:
        """Refuse what the policy cannot have drawn, before the first measurement."""

    def read(
        self, subject: Subject, indices: Sequence[int], pool: str, completions: range
    ) -> list[Completions]:
        """Give the completions of these numbers in a pool of prompts of one length."""
        probe, ids = subject.probe, [subject.prompts[index].id for index in indices]
        positions = probe.sampling.max_new_tokens
        numbers_PNT = np.stack(
            [uniforms(probe.seed, one, pool, completions, positions) for one in ids]
        )
        tokens = [subject.tokens[index] for index in indices]
        return attempt(
            subject.memory.drawing,
            lambda most: draw_together(
                subject.policy, tokens, numbers_PNT, ids, max_batch=most
            ),
        )

    def reward(
        self, subject: Subject, index: int, pool: str, drawn: Completions, texts: list[str]
    ) -> tuple[Floats, int]:
        """Give their rewards, and how many comparisons with the answer were given up."""
        prompt = subject.prompts[index]
        return reward_completions(subject.reward, texts, prompt, drawn.unpadded)

    def compare(
        self, subject: Subject, index: int, drawn: Completions, recomputed_N: Floats
    ) -> PromptChecks:
        """Compare both pools of a prompt with the policy, by the recomputed law."""
        gap = law_gap(drawn.log_probs_N, recomputed_N, drawn.scored_lengths_N)
        return PromptChecks(law_gap=gap)

    def judge(self, prompts: Sequence[PromptMeasurement]) -> SourceFindings:
        """Say what is found of them, once all prompts are measured."""
        return SourceFindings()


@dataclass(frozen=True, kw_only=True)
class Subject(Inputs):
    """Prompts of a policy and their reward, ready to be measured."""

    policy: Policy
    source: Drawn  # Where completions come from.
    tokens: list[list[int]]  # The token ids of each prompt.
    memory: Memory  # How many completions each pass takes at once.

    def first_prompt(self) -> list[str]:
        """Show the first prompt, special tokens included, and what is rewarded there."""
        tokenizer, chat = self.policy.tokenizer, self.probe.prompts.chat
        text = tokenizer.decode(self.tokens[0], clean_up_tokenization_spaces=False)
        special = getattr(tokenizer, "all_special_tokens", ())
        return describe_first(
            self.prompts,
            self.reward,
            str(text),
            chat=chat,
            special=special,
            in_source=self.in_source,
        )

    @property
    def keeps_whole(self) -> bool:
        """Whether the prompts' vectors are kept whole, not as sketches."""
        return sketches.vectors_fit(len(self.prompts), self.policy.size)

    @property
    def most_vectors(self) -> int:
        """How many vectors a block of completions keeps at most, with graded rewards."""
        return sketches.most_vectors(len(self.prompts), self.policy.size)

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
