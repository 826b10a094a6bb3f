"""The best group size of a training in epochs, in words."""

from mse_lab.answers.epochs import Epochs
from mse_lab.formatting import number, table, with_interval

STEPS = {
    1.0: "each step reaches the maximum",
    0.9: "the training covers 9/10 of the way",
    0.0: "the training covers hardly any of it",
}


def epochs_sentence(epochs: Epochs) -> str:
    """Say what is compared."""
    return (
        f"In epochs: {epochs.prompts:,} prompts, {number(epochs.each)} completions of each "
        "in all at any group size. Where each prompt comes once an epoch, the noise of "
        "prompts cancels in part: the shorter the steps, compared with the way to the "
        "maximum, the more. The length of the steps is not measured, so the best size lies "
        "between the ends of the table."
    )


def epochs_table(epochs: Epochs, level: float) -> str:
    """Put the best sizes side by side."""
    rows = [
        [f"  {STEPS[row.way]}", with_interval(row.best), str(row.recommended)]
        for row in epochs.rows
    ]
    heads = ["Best group size G* in epochs", f"({level:.0%} interval)", "within 5% of it"]
    return table(rows, heads, "<<>")
