"""The study: every statement tested on its bandits, in the order of the paper."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from mse_lab.studies.theory import best_group_size, step_sizes
from mse_lab.studies.theory.assumption_9 import judge_assumption_9
from mse_lab.studies.theory.bandit import crossed, opposed, surrounded, worded
from mse_lab.studies.theory.best_group_size import judge_best_size, judge_two_actions
from mse_lab.studies.theory.corollary_9 import judge_corollary_9
from mse_lab.studies.theory.corollary_10 import judge_corollary_10
from mse_lab.studies.theory.effort import Effort
from mse_lab.studies.theory.epochs import judge_epochs
from mse_lab.studies.theory.findings import Finding
from mse_lab.studies.theory.kl_gradients import judge_kl
from mse_lab.studies.theory.lemma_6 import judge_lemma_6
from mse_lab.studies.theory.lemma_11 import judge_lemma_11
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.proposition_13 import judge_proposition_13
from mse_lab.studies.theory.sequences import Sequences, counted
from mse_lab.studies.theory.step_sizes import (
    judge_constant_step,
    judge_first_steps,
    judge_tabular,
)
from mse_lab.studies.theory.theorem_8 import judge_crossed_noise, judge_theorem_8
from mse_lab.studies.theory.theorem_12 import judge_theorem_12

# Appendix A is tested this far from the maximum, in every parameter.
AWAY = 0.8


@dataclass(frozen=True)
class Study:
    """The results.

    Attributes:
        findings: A row a statement.
        tables: Curves, by the name of their file.
    """

    findings: list[Finding]
    tables: Mapping[str, pd.DataFrame]


def two_actions() -> Limit:
    """Two opposed prompts of two completions in each of three directions of five."""
    return Limit(opposed((0.79, 0.70, 0.65), (0.3, -0.2, 0.5), 5))


def six_actions() -> Limit:
    """Six prompts of six completions, one of them right, in three directions of five."""
    return Limit(surrounded(6, 6, 3, 5))


def one_direction() -> Limit:
    """Two opposed prompts in one direction of two: Lemma 6's bounds are near there."""
    return Limit(opposed((0.79,), (0.3,), 2))


def crossed_noise() -> Limit:
    """Two directions of three whose noise is correlated by 0.85."""
    return Limit(crossed((0.85, 0.8), 3, 1.5))


def unseen_word() -> Limit:
    """`two_actions`, each completion with one word of 8."""
    return Limit(worded(two_actions().bandit, 8))


def many_prompts() -> Limit:
    """48 prompts of six completions, for epochs."""
    return Limit(surrounded(48, 6, 3, 5))


def tokens(length: int) -> Sequences:
    """Completions of so many of three tokens, in six directions."""
    return counted(3, length, 6)


def study(effort: Effort, show: Callable[[str], None] = lambda _: None) -> Study:
    """Test every statement on its bandits; `show` is called with the name of each part."""
    two, six, word = two_actions(), six_actions(), unseen_word()
    show("Theorem 8")
    theorem_8, law = judge_theorem_8(two, effort)
    corollary_9, weights = judge_corollary_9(two, six)
    show("best group size")
    best, budget = judge_best_size(six, effort)
    show("Lemma 6")
    lemma_6, bounds = judge_lemma_6(one_direction(), effort)
    show("Appendix A")
    away_D = six.bandit.maximum_D + AWAY
    lemma_11, biases = judge_lemma_11(six.bandit, away_D)
    theorem_12, rates = judge_theorem_12(tokens(3), effort)
    kl, slopes = judge_kl(tokens(3), tokens(1))
    show("step sizes")
    findings = [
        judge_tabular(two, effort),
        judge_assumption_9(two),
        *lemma_6,
        *judge_constant_step(two, effort),
        step_sizes.judge_unseen_word(word, effort),
        *theorem_8,
        judge_crossed_noise(crossed_noise(), effort),
        *judge_first_steps(two, effort),
        *corollary_9,
        *judge_corollary_10("two actions", two),
        *judge_corollary_10("six actions", six),
        judge_two_actions(two),
        *best,
        best_group_size.judge_unseen_word(word),
        *judge_epochs(many_prompts(), effort),
        *lemma_11,
        *theorem_12,
        *judge_proposition_13(six.bandit, away_D),
        *kl,
    ]
    tables = {
        "theorem_8": law,
        "corollary_9": weights,
        "best_size": budget,
        "lemma_6": bounds,
        **biases,
        **rates,
        **slopes,
    }
    return Study(findings, tables)
