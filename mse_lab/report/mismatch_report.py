"""An engine's mismatch in words: what corrections do, and which one to use."""

import math
from collections.abc import Iterator

from mse_lab.answers.mismatch import Mismatch
from mse_lab.formatting import NONE, number, percent, share, table, wrap
from mse_lab.mse.corrections import CORRECTIONS, NAMES


def mismatch_sentences(mismatch: Mismatch) -> list[str]:
    """Say how far the engine is from the policy, and what to do about it."""
    far = (
        f"The engine that drew these completions is {number(mismatch.kl_per_token, 2)} "
        "nats a token from the policy; a completion's log ratio has sd "
        f"{number(mismatch.sd, 2)}, and uncut ratios an effective sample size of "
        f"{share(mismatch.effective)}."
    )
    return [far, _advice(mismatch)]


def _advice(mismatch: Mismatch) -> str:
    if mismatch.best is not None:
        setting = CORRECTIONS[NAMES.index(mismatch.best)].setting
        how = f" ({setting})" if setting else ""
        return f"The correction {mismatch.best}{how} brings the gradient closer than none."
    if not mismatch.needed:
        return (
            "It needs no correction: without one the bias is at most 5% of the error, and "
            "none is shown to bring the gradient closer."
        )
    return "No correction is shown to bring the gradient closer than none."


# What the columns of the table are.
COLUMNS = (
    "All over ||g||^2. kept: <E g_hat, g>; bias2 and variance of g_hat; error: its "
    "scale-free MSE, and by how much that is above the one without a correction. exact: "
    "the uncut ratio of the whole completion."
)


def _share(value: float) -> str:
    return NONE if math.isnan(value) else share(value)


def mismatch_table(mismatch: Mismatch, level: float) -> str:
    """Put the corrections side by side."""
    rows = [
        [
            f"  {row.correction}",
            percent(row.kept),
            _share(row.bias2.value),
            _share(row.variance.value),
            _share(row.scale_free_mse.value),
            percent(row.difference),
        ]
        for row in mismatch.rows
    ]
    heads = [
        f"At N = {mismatch.budget}, G = {mismatch.group_size}",
        "kept",
        "bias2",
        "var",
        "error",
        f"less none's ({level:.0%})",
    ]
    return table(rows, heads, "<<<<<<")


def mismatch_lines(mismatch: Mismatch | None, level: float, width: int) -> Iterator[str]:
    """Say sentences and table on lines of a terminal; nothing where no engine drew."""
    if mismatch is None:
        return
    yield from (wrap(text, width) for text in mismatch_sentences(mismatch))
    lines = mismatch_table(mismatch, level).splitlines()
    yield from (wrap(line, width, 4) for line in lines)
    yield wrap(COLUMNS, width)
