"""How far is a policy-gradient estimate from the true gradient of a language model?

For a prompt x, a completion Y drawn from the policy has a reward Z and a *score*
W = grad log pi(Y | x), the gradient of its summed log-probability. Every group
estimator of the policy gradient g = E[W Z] is a weighted sum of scores,

    g_hat = (1/G) sum_i w_i W_i,

so one backward pass per completion gives, through inner products alone, the squared
error of every estimator at every group size G. Data flows one way, through a folder each:

    records     files of a user: their text, their rows, a completion's record
    config      a probe: schema, files, templates; a trainer's settings
    data        prompts, rewards, sources, randomness
    policy      the model, forward: loaded, its completions drawn, their probabilities
    scores      the model, backward: scores -> inner products, the reference gradient
    estimators  a group's rewards -> the weights w_i
    mse         weights and inner products -> errors, laws, intervals
    results     every file of a run: written, read, validated
    run         prompts are measured, within memory: planned, resumed, shared by processes
    logs        rollouts of a trainer -> values, zero-variance groups; no model
    answers     finished runs -> claims, advice
    report      words, figures and pages for a reader
    api         the Python doors, and the results that they return
    trl         in TRL's trainers: a baseline of one's own, the live model measured
    commands    a command a file: its arguments, and what it calls

Only policy, scores, run and trl import torch; estimators, mse, results and what
follows from them are NumPy.

Formulas, names and heads of columns share one notation:

| letter  | meaning                                                                  |
|---------|--------------------------------------------------------------------------|
| x, Y    | prompt, completion                                                       |
| Z, V    | reward, value V = E[Z]                                                   |
| W       | score, a vector over all D parameters; E[W] = 0                          |
| g       | true gradient of the prompt's value, g = E[W Z]                          |
| K       | Gram matrix of scores, K_ij = <W_i, W_j>                                 |
| S, A, B | E||W||^2, E[Z^2 ||W||^2], E[Z ||W||^2]                                   |
| gamma   | ||g||^2                                                                  |
| T       | E[(Z-V)^2 ||W||^2] - ||g||^2, the trace of the oracle's covariance       |
| zeta    | Var(Z) S + ||g||^2, the coefficient of 1/(G(G-1)) in the GRPO-type error |

Array names end in their axes, one capital an axis, in order: P prompts, N completions
of a pool, G completions of a group, R replicates, E estimators, B bootstrap draws,
K blocks of the largest group, T tokens, D parameters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mse_lab.project import VERSION as __version__

if TYPE_CHECKING:
    from mse_lab.api.measure import Advice, Result, advise, analyse, measure
    from mse_lab.api.rollouts import Rollouts, rollouts
    from mse_lab.errors import InputError

__all__ = [
    "Advice",
    "InputError",
    "Result",
    "Rollouts",
    "__version__",
    "advise",
    "analyse",
    "measure",
    "rollouts",
]


# The module of each, imported when it is used, so that the package is cheap to import.
_HOMES = {
    "Advice": "api.measure",
    "InputError": "errors",
    "Result": "api.measure",
    "Rollouts": "api.rollouts",
    "advise": "api.measure",
    "analyse": "api.measure",
    "measure": "api.measure",
    "rollouts": "api.rollouts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
