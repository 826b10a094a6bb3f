"""Completions that a file supplies: what they need beyond those that are drawn here.

They are validated before anything is measured, their rewards may be in the file, their rare
tokens are counted, and an engine that drew them is compared with the policy. Their tokens
must be some that the policy can have drawn; an end token may end each turn of the policy,
behind which an environment goes on.

A sampler that cuts the tail (top-p, top-k, min-p), or draws at another temperature, changes
how often tokens occur whose probability is below `RARE`. The law that draws them x times as
often has the likelihood ratio

    L_x = prod_t x^[pi(y_t) < RARE] / (1 + (x - 1) m_t),   m_t = sum_{pi(v) < RARE} pi(v),

of mean 1 where pi draws the tokens, so the mean of L_x over `FACTORS` exceeds 1/alpha with
probability at most alpha (Markov's inequality), for any number of tokens. No x is near 1:
rounding errors in an engine's arithmetic are no evidence for any of them.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.config.schema import Probe
from mse_lab.data.supplied_completions import POOLS, Line, Supplied
from mse_lab.mse.mismatch import Mismatch, measure_mismatch, token_divergences
from mse_lab.policy.completions import Completions, padded
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_logits,
    padded_tokens,
    sum_over_tokens,
)
from mse_lab.policy.policy import Policy
from mse_lab.results.checks import check_rare_tokens
from mse_lab.results.measurement import PromptChecks, PromptMeasurement
from mse_lab.run.memory import attempt
from mse_lab.run.prompt import Drawn, SourceFindings, law_gap
from mse_lab.run.subject import Subject

RARE = 0.01
FACTORS = (0.25, 0.67, 1.5, 4.0)

ANOTHER_LAW = (
    f"the completions are not the policy's: tokens of probability below {RARE:g} are not "
    "as frequent as it draws them; draw each completion once, after the same prompt "
    "tokens, at sampling.temperature, with top-p 1, without top-k, min-p or penalties, and "
    "with sampling.stop as the only stop strings"
)


def _log_ratios(log_probs_NTV: Tensor, drawn_NT: Tensor) -> Iterator[Tensor]:
    """Compute what a token adds to log L_x, (N, T) for each factor."""
    probs_NTV = log_probs_NTV.exp()
    mass_NT = torch.where(probs_NTV < RARE, probs_NTV, 0).sum(-1)
    rare_NT = (drawn_NT.exp() < RARE).to(drawn_NT)
    for factor in FACTORS:
        yield math.log(factor) * rare_NT - torch.log1p((factor - 1) * mass_NT)


@torch.no_grad()
def examine_tokens(
    policy: Policy, prompt: list[int], completions: Completions, most: int | None = None
) -> tuple[Floats, Floats]:
    """Recompute log pi of each token, (N, T), and log L_x of all completions, (X,).

    T is the longest completion's length; at most `most` completions are in one pass.
    """
    prefix, tokens_NT = SharedPrefix(policy, prompt), padded_tokens(policy, completions)
    drawn, ratios = [], []
    for part_NT in tokens_NT.split(most or len(tokens_NT)):
        table = policy.log_probabilities(completion_logits(policy, prefix, part_NT))
        drawn.append(table.gather(-1, part_NT.to(table.device)[..., None])[..., 0])
        ratios.append(torch.stack([*_log_ratios(table, drawn[-1])]))
    totals_X = sum_over_tokens(torch.cat(ratios, 1).cpu().double(), completions).sum(-1)
    return torch.cat(drawn).cpu().double().numpy(), totals_X.numpy()


def read_completions(lines: Sequence[Line], policy: Policy, positions: int) -> Completions:
    """Read completions of at most `positions` tokens.

    Log-probabilities are NaN if the file gives none.
    """
    return Completions.of_each(
        [read_tokens(line, policy, positions) for line in lines],
        positions,
        [line.policy_log_prob for line in lines],
        policy.ends,
        [line.mask for line in lines if line.mask is not None] or None,
    )


def read_tokens(line: Line, policy: Policy, positions: int) -> Ints:
    """Read a completion's tokens, those of tools among them, or tokenise its text."""
    from_text = line.token_ids is None
    given = _tokenise(line, policy, positions) if from_text else line.token_ids
    tokens = np.array(given, np.int64)
    truncated = from_text and line.truncated
    longest = len(tokens) if truncated else positions
    longer = "; a tokenised text may be longer than what was drawn: give tokens"
    for fault in _faults(tokens, line.mask, policy, longest):
        raise line.refusal(f"{fault}{longer if from_text else ''}")
    return tokens


def _tokenise(line: Line, policy: Policy, most: int) -> list[int]:
    if policy.stops is not None:
        raise line.refusal(
            "a text does not tell which token completed a string of sampling.stop; give "
            "tokens"
        )
    tokens = list(policy.tokenizer(line.completion, add_special_tokens=False).input_ids)
    if line.truncated:
        return tokens[:most]
    if len(tokens) >= most or (tokens and tokens[-1] in policy.end_tokens):
        return tokens
    if policy.tokenizer.eos_token_id is None:
        raise line.refusal("the tokenizer has no end token; give tokens")
    return [*tokens, policy.tokenizer.eos_token_id]


def _faults(
    tokens: Ints, mask: Flags | None, policy: Policy, positions: int
) -> Iterator[str]:
    """Say why the policy cannot have drawn the tokens of a mask."""
    count = len(tokens)
    if not count:
        yield "no tokens; an empty completion is its end token alone"
    for token in tokens[(tokens < 0) | (tokens >= policy.vocabulary)][:1]:
        vocabulary = f"the vocabulary of {policy.vocabulary}"
        yield f"token {token} is not in {vocabulary}; check model.path"
    if count > positions:
        yield (
            f"{count} tokens, and sampling.max_new_tokens = {positions}; set it to what "
            "they were drawn with"
        )
    if policy.stops is not None and mask is not None:
        yield "it has a mask, and turns end by themselves; leave out sampling.stop"
    drawn = np.ones(count, np.bool_) if mask is None else mask
    yield from _goes_on(tokens, drawn, policy)
    if drawn[-1] and count != positions and not policy.ends(tokens.tolist()):
        end_tokens = ", ".join(map(str, policy.end_tokens))
        yield (
            f"{count} tokens without an end token ({end_tokens}) or stop string, and "
            f"sampling.max_new_tokens = {positions}; give the end token too, or set "
            "sampling.stop and sampling.max_new_tokens to what they were drawn with"
        )


def _goes_on(tokens: Ints, drawn: Flags, policy: Policy) -> Iterator[str]:
    """Say where the policy went on after an end, as only an environment may."""
    count, rest = len(tokens), "leave out what follows it"
    ended = drawn & np.isin(tokens, policy.end_tokens)
    for at in np.flatnonzero(ended[:-1] & drawn[1:]):
        yield f"end token {tokens[at]} is number {at + 1} of {count} tokens; {rest}"
    if policy.stops is None:
        return
    for number in range(1, count):
        if policy.stops.end(tokens[:number].tolist()):
            what = "completes a string of sampling.stop"
            yield f"token {number} of {count} {what}; {rest}"


class FromFile(Drawn):
    """Completions that a file supplies."""

    def __init__(self, supplied: Supplied) -> None:
        self._supplied = supplied

    def validate(self, policy: Policy, probe: Probe) -> None:
        """Read everything once, so that a fault shows before the first measurement."""
        for pools in self._supplied.lines.values():
            for lines in pools.values():
                read_completions(lines, policy, probe.sampling.max_new_tokens)

    def _lines(self, subject: Subject, index: int, pool: str) -> list[Line]:
        return self._supplied.lines[subject.prompts[index].id][pool]

    def read(
        self, subject: Subject, indices: Sequence[int], pool: str, completions: range
    ) -> list[Completions]:
        """Read a pool of each prompt; the file gives all `completions` of it."""
        positions = subject.probe.sampling.max_new_tokens
        pools = [self._lines(subject, index, pool) for index in indices]
        return [read_completions(lines, subject.policy, positions) for lines in pools]

    def reward(
        self, subject: Subject, index: int, pool: str, drawn: Completions, texts: list[str]
    ) -> tuple[Floats, int]:
        """Read rewards where the probe says so."""
        if subject.probe.reward == "supplied":
            lines = self._lines(subject, index, pool)
            return np.array([line.reward for line in lines]), 0
        return super().reward(subject, index, pool, drawn, texts)

    def compare(
        self, subject: Subject, index: int, drawn: Completions, recomputed_N: Floats
    ) -> PromptChecks:
        """Compare them also by their rare tokens, and with the engine that drew them."""
        gap = np.nan
        if "log_probs" in self._supplied.form:
            gap = law_gap(drawn.log_probs_N, recomputed_N, drawn.scored_lengths_N)
        policy_NT, ratios_X = attempt(
            subject.memory.reference,
            lambda most: examine_tokens(subject.policy, subject.tokens[index], drawn, most),
        )
        log_ratios_NT = np.zeros((0, 0))
        if "engine_log_probs" in self._supplied.form:
            log_ratios_NT = policy_NT - self._of_engine(subject, index, policy_NT.shape[1])
            log_ratios_NT *= drawn.scored_NT(policy_NT.shape[1])
        return PromptChecks(
            law_gap=gap,
            rare_ratios_X=ratios_X,
            log_ratios_N=log_ratios_NT.sum(1),
            divergences_N=token_divergences(log_ratios_NT).sum(1),
        )

    def _of_engine(self, subject: Subject, index: int, longest: int) -> Floats:
        """Read the engine's log-probability of each token, 0 after them, (N, T)."""
        lines = [line for pool in POOLS for line in self._lines(subject, index, pool)]
        given = [line.engine_log_probs for line in lines]
        rows = [each[:longest] for each in given if each is not None]
        return padded(rows, longest, np.float64)

    def judge(self, prompts: Sequence[PromptMeasurement]) -> SourceFindings:
        """Test whether the policy may have drawn them; say what the file lacks."""
        check = check_rare_tokens(np.stack([one.checks.rare_ratios_X for one in prompts]))
        other = [] if check.ok else [ANOTHER_LAW]
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
