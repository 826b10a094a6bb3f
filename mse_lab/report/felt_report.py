"""What training feels, in words: the plain and the felt best group size side by side."""

import math

from mse_lab.answers.felt import Felt, Optimizer
from mse_lab.formatting import NONE, number, table, times, with_interval
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.regret import TOLERANCE

# The optimiser that feels the noise of a metric.
TRAINED_BY = {
    "curvature": "SGD",
    "adam": "Adam (second moments of these gradients)",
    "optimizer": "Adam (second moments of the checkpoint)",
}

NAMES: dict[Optimizer, str] = {"adamw": "AdamW", "sgd": "SGD"}

# The metric of a probe that measures what an optimiser feels.
METRICS: dict[Optimizer, str] = {"adamw": "adam", "sgd": "curvature"}

# What is known of the level of the intervals.
LEVEL = (
    "Intervals are over prompts; of simulated samples of 12 to 64 prompts at least 98% of "
    "those that gave the felt G* an end covered it, 90 to 97% the ratio of costs. No bound "
    "on the regret is known here."
)


def _best(size: Estimate) -> str:
    """Write a best size; its ends may lie at one and at infinity."""
    if math.isnan(size.value):
        return f"{NONE} (noise is estimated to help at every size)"
    if size.low <= 1 and math.isinf(size.high):
        return "not known (these prompts are too few)"
    return with_interval(size)


def _rows(felt: Felt, plain: Estimate) -> list[list[str]]:
    rows = [["  gradient error (plain)", _best(plain)]]
    if felt.metric != "curvature":
        rows.append(["  error of Adam's step", _best(felt.best_first_order)])
    return [
        *rows,
        ["  felt by the reward of other prompts", _best(felt.best)],
        [
            f"  felt by that of these {felt.trained}, trained on",
            _best(felt.best_in_training),
        ],
    ]


def _cost(felt: Felt) -> str:
    """Say what the plain advice costs, in what is felt."""
    if felt.recommended is None:
        return (
            "Noise is estimated to cost the reward of other prompts nothing, far from a "
            "maximum: the felt metric gives no best size."
        )
    if felt.recommended == felt.plain:
        return f"G = {felt.plain} is as good by what is felt, too."
    ratio = felt.cost_of_plain
    if math.isnan(ratio.value):
        return f"G = {felt.recommended} is estimated to be felt least; by how much is open."
    return (
        f"For the felt noise G = {felt.recommended} is within {TOLERANCE:.0%} of the best: "
        f"G = {felt.plain} takes {times(ratio)} the completions for noise that harms as "
        "little."
    )


def felt_table(felt: Felt, plain: Estimate, level: float) -> str:
    """Put best sizes side by side: by gradient error (`plain`), and by what is felt."""
    heads = ["Best group size G*", f"({level:.0%} interval)"]
    return table(_rows(felt, plain), heads, "<<")


def felt_headline(felt: Felt, size: int, plain: str) -> str:
    """Say what to set by what is felt, then what the gradient's error says (`plain`)."""
    return (
        f"Set num_generations to {size}, by what training with {NAMES[felt.optimizer]} "
        f"feels of the noise: G* is {_best(felt.best)} there. By the gradient's error "
        f"alone: {plain}"
    )


def unfelt(optimizer: Optimizer, *, measured: bool) -> str:
    """Say how the plain size compares with the felt one where that is not known."""
    smaller = (
        "This minimises gradient error. Where the reward ignores the wording, training may "
        "prefer a smaller G"
    )
    if measured:
        return (
            f"{smaller}; a metric was measured, but its best size is unknown: take more "
            "metric.prompts."
        )
    name, metric = NAMES[optimizer], METRICS[optimizer]
    return f"{smaller}: run --set metric={metric} measures what {name} feels."


def felt_sentences(felt: Felt) -> list[str]:
    """Say what was measured, what the plain advice costs, and how sure that is."""
    own = f"; noise costs its own prompt {number(felt.own)} times as much as another"
    return [
        f"Training with {TRAINED_BY[felt.metric]} feels the noise along which the reward "
        f"curves (minus the Hessian), measured on {felt.prompts} prompts"
        f"{'' if math.isnan(felt.own) else own}.",
        _cost(felt),
        f"In groups of {felt.plain}, {felt.helps:.0%} of the noise helps instead, counted "
        "by prompts; chance adds to this share.",
        LEVEL,
    ]
