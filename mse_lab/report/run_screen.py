"""What a run ends with: what its completions are like, and its errors over the oracle's."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from mse_lab.formatting import NONE, number, share, with_interval
from mse_lab.mse.mismatch import Mismatch
from mse_lab.report.rendering import Part
from mse_lab.results.diagnostics import Diagnostics
from mse_lab.results.tables import BASE, interval_heads


def describe_completions(run: Diagnostics) -> list[str]:
    """Describe the rewards and the completions of a run, a line each."""
    mean = number(run.mean_reward)
    rewards = f"mean reward {mean}, all the same on {share(run.one_reward, 3)}"
    if run.never_right is not None and run.always_right is not None:
        never, always = (share(run.never_right, 3), share(run.always_right, 3))
        rewards = f"accuracy {mean}, V = 0 on {never} and V = 1 on {always}"
    ends = ", ".join(
        f"{end_token.text} {share(end_token.share, 3)}" for end_token in run.end_tokens
    )
    lines = [
        f"rewards: {rewards} of {run.prompts} prompts",
        f"completions: {number(run.mean_length)} tokens on average, "
        f"{share(run.truncated, 3)} truncated, {share(run.distinct, 3)} distinct; "
        f"ended by {ends or 'nothing'}",
    ]
    return lines + ([say_mismatch(run.mismatch)] if run.mismatch else [])


def say_mismatch(mismatch: Mismatch) -> str:
    """Say how far the law that drew completions is from the policy's."""
    return (
        f"drawn by an engine: {number(mismatch.kl_per_token, 2)} nats a token from the "
        f"policy (KL); ESS {share(mismatch.effective, 3)} of "
        f"{mismatch.completions:,} completions"
    )


def ratio_cells(
    mse: pd.DataFrame, sizes: Sequence[int], ratio: str = "ratio"
) -> dict[str, list[str]]:
    """Write each estimator's MSE over the oracle's at group sizes, from `mse.csv`."""
    table = mse.set_index(["estimator", "group_size"])[interval_heads(ratio)].astype(float)

    def cell(*place: Any) -> str:
        return with_interval(tuple(table.loc[place])) if place in table.index else NONE

    return {
        name: [cell(name, size) for size in sizes] for name in mse["estimator"].unique()
    }


def ratio_part(mse: pd.DataFrame) -> Part:
    """Tabulate these ratios, a column a group size."""
    sizes = sorted(mse["group_size"].unique())
    cells = ratio_cells(mse, sizes)
    rows = [[f"  {name}", *cells[name]] for name in cells if name != BASE]
    heads = ["MSE over the oracle's", *(f"G = {size}" for size in sizes)]
    return Part(rows=rows, heads=heads, align="<" + ">" * len(sizes))
