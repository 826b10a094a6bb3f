"""The ladder in words and tables: costs over yours, progress, and what to type."""

import math
from collections.abc import Iterator

from mse_lab.answers.advice import Advice
from mse_lab.answers.ladder import LadderRow
from mse_lab.config.schema import EstimatorEntry
from mse_lab.estimators import find_estimator
from mse_lab.formatting import NONE, NOT_KNOWN, number, percent, share, times
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import is_unbiased
from mse_lab.report.rendering import Part

# The names of estimators that readers know, parameters aside.
DISPLAY_NAMES = {
    "grpo": "GRPO-type (RLOO)",
    "vanilla": "vanilla (no baseline)",
    "batch-mean": "batch-mean baseline",
    "grpo-std": "GRPO with std",
}

# Estimators that are named by their numbers.
FITTED = ("affine", "constant")

M = "(m: mean of a group's others)"

# A cost that whole epochs move by less than that is not said anew.
ALIKE = 0.02


def unit_of(advice: Advice) -> str:
    """Say what a cost is counted in."""
    if advice.completions_per_step is None:
        return "completions for the same error"
    return f"steps at your {advice.completions_per_step:,} completions each"


def ladder_rows(advice: Advice) -> list[LadderRow]:
    """Give the rows of the ladder, each setting once."""
    seen: dict[str, LadderRow] = {}
    for row in advice.ladder:
        seen.setdefault(f"{row.estimator} {row.group_size}", row)
    return list(seen.values())


def say_baseline(alpha: float, lam: float) -> str:
    """Write a baseline, m being the mean reward of a group's others.

    >>> say_baseline(0.22, -0.041), say_baseline(0.22, 0.0)
    ('0.22 - 0.041 m', '0.22')
    """
    return f"{alpha:.2g} + {lam:.2g} m".replace("+ -", "- ") if lam else f"{alpha:.2g}"


def setting_name(entry: EstimatorEntry, size: int) -> str:
    """Name a baseline by its two numbers, another loss by its name.

    >>> setting_name({"name": "grpo-std", "eps": 1e-4}, 8)
    'GRPO with std, G = 8'
    """
    found = find_estimator(entry)
    base, _, _ = found.name.partition("(")
    name = DISPLAY_NAMES.get(base, found.name)
    if found.affine and base in FITTED:
        name = say_baseline(*found.affine)
    return f"{name}, G = {size}"


def ladder_part(advice: Advice) -> Part:
    """Tabulate the ladder: costs over yours, and what a step makes of progress."""
    unit, at = unit_of(advice), advice.completions_per_step
    rows = []
    for row in ladder_rows(advice):
        made = [one.progress for one in row.progress if at in (None, one[0])]
        # Without its interval a share is not written where ||g||^2 may be none.
        alone = [share(one.value) if one.value > 0 else NONE for one in made]
        cells = [percent(one) for one in made] if at else alone
        name = f"{row.row}: {setting_name(row.estimator, row.group_size)}"
        cost = "1" if row.row == "yours" else times(row.cost)
        rows.append([name, cost, *cells])
    columns = [f"{one[0]:,}" for one in advice.ladder[0].progress]
    says_m = any(row.lam for row in advice.ladder)
    heads = [M if says_m else "", "", *(["progress of a step"] if at else columns)]
    sentence = f"{unit[0].upper()}{unit[1:]} over yours ({advice.level:.0%} interval)"
    sentence += ":" if at else "; progress at N ="
    align = "<<" + ">" * (len(heads) - 2)
    return Part(sentences=[sentence], rows=rows, heads=heads, align=align)


def lines_to_type(advice: Advice) -> Iterator[str]:
    """Give what is typed for baselines of the ladder, or why nothing is; what beside it."""
    for row in ladder_rows(advice):
        if row.row in ("trainer", "best"):
            batch = advice.batches.get(row.group_size)
            yield f"{row.row}: {row.typed or row.why}{f', with {batch}' if batch else ''}"
    if needs := next((row.needs for row in advice.ladder if row.needs), None):
        yield f"The baseline needs {needs}."


def say_what_changes_it(advice: Advice) -> str:
    """Say what an unchanged rate and whole epochs make of the ladder's costs."""
    rows = [row for row in ladder_rows(advice)[1:] if math.isfinite(row.cost.value)]
    if not rows:
        return ""
    roots = ", ".join(number(math.sqrt(max(row.cost.value, 0.0)), 2) for row in rows)
    text = f"With Adam at one low rate costs are near their square roots: {roots}."
    if any(abs(row.in_epochs.value - row.cost.value) > ALIKE for row in rows):
        epochs = ", ".join(number(row.in_epochs.value, 2) for row in rows)
        whose = "" if is_unbiased(advice.ladder[0].estimator) else " (GRPO-type's)"
        text += f" Over whole epochs of small steps: {epochs}{whose}."
    return text


def steps_table(advice: Advice) -> Part:
    """Tabulate the share of steps that each row of the ladder saves, over N."""
    saving = ladder_rows(advice)[1:]
    if not saving:
        return Part()
    heads = ["Steps saved at N", *(f"{row.row}, G = {row.group_size}" for row in saving)]
    rows = []
    for made in zip(*(row.progress for row in saving), strict=True):
        completions = made[0].completions_per_step
        if completions != advice.completions_per_step:
            rows.append([f"  {completions:,}", *(_saved(one.steps) for one in made)])
    return Part(rows=rows, heads=heads, align="<" + ">" * len(saving))


def _saved(cost: Estimate) -> str:
    """Write the share that a cost over another one saves."""
    value, low, high = cost
    if math.isnan(value):
        return NOT_KNOWN
    return percent((1 - value, 1 - high, 1 - low))
