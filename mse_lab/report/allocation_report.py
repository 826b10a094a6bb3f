"""The allocation of a run in its folder: a screen, a table of prompts."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from mse_lab.answers.allocation import Allocation, allocate
from mse_lab.answers.measured_run import read_run
from mse_lab.answers.plain_data import as_data
from mse_lab.errors import InputError, shorten
from mse_lab.formatting import number, table, with_interval, wrap
from mse_lab.mse.allocation import FILTER, FILTERED
from mse_lab.results.files import write_table
from mse_lab.results.folder import ResultsFolder

# The names of the rules that a reader knows, up to 42 columns each.
DISPLAY_NAMES = {
    "uniform": "the same G for every prompt",
    "best": "best for each prompt",
    "reward variance": "by reward variance p(1-p) (GVM, VIP)",
    "accuracy filter": f"{FILTER[0]} <= V <= {FILTER[1]}, 2 for the others",
    "vanilla, uniform": "no baseline, the same G for every prompt",
    "vanilla, best": "no baseline, best for each, 1 or more",
}

# How many prompts with the most completions are named.
NAMED = 3


def allocation_table(allocation: Allocation) -> pd.DataFrame:
    """Make `allocation.csv`: a row a prompt, its V, and G_x by each rule."""
    sizes = {
        name.replace(", ", "_").replace(" ", "_"): sizes_P
        for name, sizes_P in allocation.sizes.items()
    }
    return pd.DataFrame({"prompt": allocation.prompts, "value": allocation.values, **sizes})


def _say_sizes(allocation: Allocation) -> str:
    sizes = allocation.sizes["best"]
    low, high = (round(float(quantile)) for quantile in np.quantile(sizes, [0.25, 0.75]))
    largest = np.argsort(-sizes, kind="stable")[:NAMED]
    named = ", ".join(
        f"{sizes[x]} for {shorten(allocation.prompts[x], 24)}" for x in largest
    )
    return (
        f"The best sizes are {sizes.min()} to {sizes.max()}, half of them {low} to {high}; "
        f"the largest are {named}."
    )


def _say_bias(allocation: Allocation) -> str:
    if not allocation.outside or math.isnan(allocation.bias):
        return "No prompt is outside the filter, so none would be dropped."
    share = number(max(allocation.bias, 0.0))
    return (
        f"Dropping the {allocation.outside} prompts outside the filter would bias the "
        f"gradient: bias^2 is {share} of the first's MSE here, and does not fall with N."
    )


def _lines(allocation: Allocation) -> Iterator[str]:
    prompts, level = len(allocation.prompts), 100 * allocation.level
    if not allocation.held:
        yield "A built-in check of this run FAILED; find out why first."
    mean = f"on average {allocation.budget / prompts:.3g} each"
    yield f"{allocation.budget:,} completions for {prompts:,} prompts, {mean}"
    heads = ["MSE, by how they are shared out", f"over the first ({level:g}% interval)"]
    rows = [[f"  {DISPLAY_NAMES['uniform']}", "1"]]
    rows += [
        [f"  {DISPLAY_NAMES[name]}", with_interval(ratio)]
        for name, ratio in allocation.ratios.items()
    ]
    yield table(rows, heads, "<<")
    yield "Planned on half of a prompt's completions, judged on the other half."
    yield wrap(_say_sizes(allocation))
    if FILTERED in allocation.sizes:
        yield wrap(_say_bias(allocation))


def allocation_text(allocation: Allocation) -> str:
    """Say the allocation on a screen of 80 columns."""
    return "".join(f"{line}\n" for line in _lines(allocation))


def allocate_run(
    folder: Path, budget: int | None, place: Path | None = None, *, as_json: bool = False
) -> str:
    """Share a budget out among the prompts of a run; write the sizes, return the screen.

    They are written into a place, by default the run's folder. As JSON, for programs,
    nothing is written.
    """
    run = read_run(folder)
    try:
        allocation = allocate(run, budget)
    except InputError as error:
        raise InputError(f"{run.where}{error}") from None
    table, results = allocation_table(allocation), ResultsFolder(place or folder)
    if as_json:
        names = ("name", "held", "budget", "ratios", "outside", "bias")
        numbers = {name: as_data(getattr(allocation, name)) for name in names}
        return json.dumps(numbers | {"prompts": table.to_dict("records")}, indent=2)
    write_table(results.file("allocation.csv"), table)
    written = "allocation.csv (G of every prompt)"
    return f"{allocation_text(allocation)}Written to {results.path}:\n  {written}"
