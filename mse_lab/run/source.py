"""Where completions come from: the policy draws them here; `supplied.py` reads them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats, Ints
from mse_lab.config.schema import Probe
from mse_lab.data.rewards import reward_completions
from mse_lab.data.streams import uniforms
from mse_lab.mse.mismatch import Mismatch
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.sampling import draw_together
from mse_lab.results.checks import Check
from mse_lab.results.measurement import PromptChecks, PromptMeasurement
from mse_lab.run.memory import attempt
from mse_lab.run.subject import Subject


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
