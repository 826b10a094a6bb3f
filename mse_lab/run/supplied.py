"""Completions that a file supplies: what they need beyond those that are drawn here.

They are validated before anything is measured, their rewards may be in the file, other
samplers are put to the test, and an engine that drew them is compared with the policy.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.mse.measurement import PromptChecks, PromptMeasurement
from mse_lab.mse.mismatch import Mismatch, measure_mismatch, token_divergences
from mse_lab.policy.alternative_samplers import describe_mismatch, log_likelihood_ratios
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import token_log_probs
from mse_lab.policy.policy import Policy
from mse_lab.policy.supplied_completions import POOLS, Supplied
from mse_lab.probe.schema import Probe
from mse_lab.results.checks import check_alternative_samplers
from mse_lab.run.memory import attempt
from mse_lab.run.subject import Drawn, SourceFindings, Subject, law_gap


class FromFile(Drawn):
    """Completions that a file supplies."""

    def __init__(self, supplied: Supplied) -> None:
        self._supplied = supplied
        self.tokenised = "token_ids" not in supplied.form

    def validate(self, policy: Policy, probe: Probe) -> None:
        """Read everything once."""
        self._supplied.validate(policy, probe)

    def read(
        self, subject: Subject, indices: Sequence[int], pool: str, completions: range
    ) -> list[Completions]:
        """Read a pool of each prompt; the file gives all `completions` of it."""
        positions = subject.probe.sampling.max_new_tokens
        ids = [subject.prompts[index].id for index in indices]
        return [self._supplied.read(one, pool, subject.policy, positions) for one in ids]

    def reward(
        self, subject: Subject, index: int, pool: str, drawn: Completions, texts: list[str]
    ) -> tuple[Floats, int]:
        """Read rewards where the probe says so."""
        if subject.probe.reward == "supplied":
            return self._supplied.rewards(subject.prompts[index].id, pool), 0
        return super().reward(subject, index, pool, drawn, texts)

    def compare(
        self, subject: Subject, index: int, drawn: Completions, recomputed_N: Floats
    ) -> PromptChecks:
        """Compare them also with other samplers, and with the engine that drew them."""
        gap = np.nan
        if "log_probs" in self._supplied.form:
            gap = law_gap(drawn.log_probs_N, recomputed_N, drawn.scored_lengths_N)
        log_ratios_NT = self._engine_log_ratios(subject, index, drawn)
        return PromptChecks(
            law_gap=gap,
            alternative_ratios_R=self._alternatives(subject, index, drawn, recomputed_N),
            log_ratios_N=log_ratios_NT.sum(1),
            divergences_N=token_divergences(log_ratios_NT).sum(1),
        )

    def _alternatives(
        self, subject: Subject, index: int, drawn: Completions, recomputed_N: Floats
    ) -> Floats:
        """Compare how likely other samplers are to have drawn them."""
        tokens = subject.tokens[index]
        ratios_R = log_likelihood_ratios(subject.policy, tokens, drawn, recomputed_N)
        if not np.isfinite(ratios_R).all():
            raise InputError(
                f"prompt {subject.prompts[index].id}: "
                f"{self._supplied.path.name} has a completion that the model gives no "
                "probability; check model.path and sampling.temperature"
            )
        return ratios_R

    def _engine_log_ratios(
        self, subject: Subject, index: int, drawn: Completions
    ) -> Floats:
        """Compare the policy with the engine that drew each token, log rho_t, (N, T).

        It is 0 for tokens that are not the policy's own; without an engine there are no
        rows.
        """
        positions = drawn.tokens_NT.shape[1]
        if "engine_log_probs" not in self._supplied.form:
            return np.zeros((0, positions))
        name, read = subject.prompts[index].id, self._supplied.engine_log_probs
        engine_NT = np.concatenate([read(name, pool, positions) for pool in POOLS])
        policy_NT = attempt(
            subject.memory.reference,
            partial(token_log_probs, subject.policy, subject.tokens[index], drawn),
        )
        longest = policy_NT.shape[1]
        ratios_NT = policy_NT.double().cpu().numpy() - engine_NT[:, :longest]
        return np.where(drawn.scored_NT(longest), ratios_NT, 0.0)

    def judge(self, prompts: Sequence[PromptMeasurement]) -> SourceFindings:
        """Test whether other samplers explain them better; say what the file lacks."""
        log_ratios_PR = np.stack([one.checks.alternative_ratios_R for one in prompts])
        check = check_alternative_samplers(log_ratios_PR)
        other = [] if check.ok else [describe_mismatch(log_ratios_PR)]
        warnings = [*self._supplied.warnings(), *other]
        return SourceFindings([check], warnings, self._mismatch(prompts))

    def _mismatch(self, prompts: Sequence[PromptMeasurement]) -> Mismatch | None:
        """Sum up what the engine's log-probabilities say."""
        log_ratios, divergences = (
            np.concatenate([getattr(prompt.checks, name) for prompt in prompts])
            for name in ("log_ratios_N", "divergences_N")
        )
        if not len(log_ratios):
            return None
        tokens = sum(
            round(len(prompt.checks.log_ratios_N) * prompt.completions.mean_length)
            for prompt in prompts
        )
        return measure_mismatch(log_ratios, divergences, tokens)
