"""What the completions of a run are like, in the lines of its end."""

import pandas as pd

from mse_lab.formatting import NONE, number, share, table, with_interval
from mse_lab.mse.mismatch import Mismatch
from mse_lab.results.diagnostics import Diagnostics


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


def ratio_lines(mse: pd.DataFrame) -> list[str]:
    """Tabulate each estimator's MSE over the oracle's, by group size, from `mse.csv`."""
    sizes = sorted(mse["group_size"].unique())
    rows = []
    for name, part in mse.groupby("estimator", sort=False):
        by_size = part.set_index("group_size")
        columns = ["ratio", "ratio_low", "ratio_high"]
        known = (
            by_size.loc[size, columns] if size in by_size.index else None for size in sizes
        )
        cells = (NONE if row is None else with_interval(tuple(row)) for row in known)
        if name != "oracle":
            rows.append([f"  {name}", *cells])
    if not rows:
        return []
    return table(
        rows, ["MSE over the oracle's", *(f"G = {size}" for size in sizes)]
    ).splitlines()
