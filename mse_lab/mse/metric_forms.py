"""The error that training feels: c1, c2, c3 and G* in a metric M other than the plain one.

One step of SGD gains E J(theta + beta g_hat) - J = beta ||g||^2 + (beta^2/2) (g'Hg +
tr(H Cov g_hat)) + ..., H the Hessian of J. So noise costs tr(M Cov g_hat) with M = -H, and
with a preconditioner D, as Adam's, M = -D H D. Every law keeps its form: with B prompts and
G completions of each

    Cov g_hat = (C1 + C2/G + C3/(G(G-1))) / B,
    C1 = Cov g(X),   C2 = E[Cov(W eps | X)],   C3 = E[Var(Z | X) E[W W' | X] + g g'],

so c_i = tr(M C_i), and N tr(M Cov g_hat) = c1 G + c2 + c3/(G-1), least at
1 + sqrt(c3/c1) where both are positive. M is not definite away from a maximum: where it is
negative noise helps.

**Directions.** For n completions of a prompt, which M is not estimated from,

    z = sum_ij S_ij W_i Z_j / ||S||   for any symmetric S, diagonal and row sums zero,

has E zz' = Var(Z) E[WW'] + gg' exactly: z = sum_{i<j} S_ij (W_i eps_j + W_j eps_i) / ||S||,
whose terms are uncorrelated and have twice that second moment each. So z'Mz is unbiased for
c3, with no difference of larger numbers. S is the cycle with alternating signs. With the
leave-one-out gradients g_A, g_B of two halves of m = n/2 completions, g_A'M g_B is unbiased
for g'Mg, and m (g_B - g_A)'M g_B - z'Mz/(m-1) for the prompt's part of c2.

**Curvature.** H(x') = E[(Z - V)(WW' + d2 log pi)] of prompt x' is estimated from further
completions of x'. For prompts that are not trained on, J is the mean over the distribution,
so directions of x are multiplied with the curvature of other prompts, x' != x. In a
training set of P prompts one pair in P has x' = x, whose form is far larger. So each
constant has two unbiased means over prompts of the sample (U-statistics), `apart` and
`own`, from which the constants of a training set of any size follow. Intervals come from
leaving prompts out of both roles.

One product of H(x') with a vector serves all prompts: for independent random signs s_x

    s_x z_x' H sum_y s_y z_y    has the mean    z_x' H z_x.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.prompt_samples import PromptSamples


def pair_weights(rewards_N: Floats) -> Floats:
    """Compute the weights of the scores in z, whose E zz' is Var(Z) E[WW'] + gg'.

    The number of completions is even, four or more.

    >>> pair_weights(np.array([1.0, 0, 0, 0])) ** 2
    array([0.   , 0.125, 0.   , 0.125])
    """
    count = len(rewards_N)
    signs = 1 - 2 * (np.arange(count) % 2)
    differences = np.roll(rewards_N, -1) - np.roll(rewards_N, 1)
    return np.asarray(signs * differences / math.sqrt(2 * count))


@dataclass(frozen=True)
class Forms:
    """Forms of P prompts' directions in the curvature of K = P prompts, or in a metric."""

    gradients_KP: Floats  # g_A(x)' M_k g_B(x).
    noises_KP: Floats  # g_B(x)' M_k g_B(x) less that.
    pairs_KP: Floats  # z(x)' M_k z(x).
    rows_KP: Floats  # The sum of g_A(x)' M_k g_B(y) over prompts y other than k and x.
    columns_KP: Floats  # The sum of g_A(y)' M_k g_B(x) over the same.
    meetings_KP: Floats  # g_A(x)' M_k g_B(k).


class _Means(NamedTuple):
    """Mean forms of directions with the curvature of other prompts, and of their own."""

    apart: Floats  # With k different from the direction's prompt or prompts.
    own: Floats  # With k the direction's prompt.


def _mean_forms(forms_KP: Floats) -> _Means:
    """Average over all prompts, then over all but each, (1 + P,)."""
    count = forms_KP.shape[1]
    means = PromptSamples.without_draws(count).means
    if len(forms_KP) == 1:
        both = means(forms_KP[0])
        return _Means(both, both)
    apart_KP = without_diagonal(forms_KP)
    total = apart_KP.sum()
    others_P = total - apart_KP.sum(0) - apart_KP.sum(1)
    pairs = count * (count - 1), (count - 1) * (count - 2)
    apart = np.append(total / pairs[0], others_P / pairs[1])
    return _Means(apart, means(np.diag(forms_KP)))


def _mean_distinct(forms: Forms) -> Floats:
    """Average g_A(x)' M_k g_B(y) over different x, y and k, (1 + P,) as `_mean_forms`."""
    rows_KP, columns_KP = forms.rows_KP, forms.columns_KP
    count = rows_KP.shape[1]
    if len(rows_KP) == 1:
        total = rows_KP.sum()
        others_P = total - rows_KP[0] - columns_KP[0]
        triples = count * (count - 1), (count - 1) * (count - 2)
    else:
        rows_KP, columns_KP = without_diagonal(rows_KP), without_diagonal(columns_KP)
        total = rows_KP.sum()
        others_P = total - rows_KP.sum(1) - rows_KP.sum(0) - columns_KP.sum(0)
        triples = tuple(n * (n - 1) * (n - 2) for n in (count, count - 1))
    return np.append(total / triples[0], others_P / triples[1])


class MetricConstants(NamedTuple):
    """c1, c2 and c3 in a metric; of all prompts, then of all but each, (1 + P,)."""

    c1: Floats
    c2: Floats
    c3: Floats


def metric_constants(forms: Forms, half: int, trained: float = math.inf) -> MetricConstants:
    """Estimate the constants without bias, from four prompts or more.

    For a training set of T prompts these are the means over the sets that may be drawn: the
    prompts of a direction and of a curvature are the same with probability 1/T.

    Args:
        forms: The forms.
        half: m, completions of g_A and of g_B.
        trained: T; infinite for the reward on prompts that are not trained on.
    """
    share = 1 / trained

    def mix(means: _Means) -> Floats:
        return means.apart + share * (means.own - means.apart)

    gradients = _mean_forms(forms.gradients_KP)
    c3 = mix(_mean_forms(forms.pairs_KP))
    crossed = _mean_distinct(forms)
    if share:
        # g' M g of the set's mean gradient g, by which of its three prompts are the same.
        meeting = gradients.apart + 2 * _mean_forms(forms.meetings_KP).apart
        crossed = (1 - 2 * share) * crossed + share * meeting
        crossed = (1 - share) * crossed + share**2 * gradients.own
    return MetricConstants(
        c1=mix(gradients) - crossed,
        c2=half * mix(_mean_forms(forms.noises_KP)) - c3 / (half - 1),
        c3=c3,
    )
