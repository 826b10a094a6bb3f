"""Completions drawn once, one backward pass for every estimator and replicate.

What the closest public experiment does; the forward pass of a group is shared by its
estimators.
"""

from collections.abc import Sequence

import torch

from benchmarks.work import Work, weights_of


def squared_errors(work: Work, estimators: Sequence[str], group: slice) -> list[float]:
    """Measure one replicate of every estimator on the group in these rows."""
    part, parameters, errors = work[group], list(work.parameters.values()), []
    with work.differentiable():
        log_probs = part.log_probs()
        for estimator in estimators:
            weights_G = weights_of(estimator, part.rewards_N[None], work.value)[0]
            gradients = torch.autograd.grad(
                (torch.from_numpy(weights_G).to(log_probs) * log_probs).mean(),
                parameters,
                retain_graph=estimator != estimators[-1],
            )
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            errors.append(float((flat - work.reference_D).square().sum()))
    return errors
