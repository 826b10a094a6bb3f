"""The floor: one plain batched forward and backward pass over a block."""

from benchmarks.work import Work


def plain_pass(work: Work) -> None:
    """Differentiate the sum of the block's log-probabilities in all parameters."""
    with work.differentiable():
        work.log_probs().sum().backward()
