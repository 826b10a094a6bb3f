"""What a run ends with: what its completions are like, and its errors over the oracle's."""

import pandas as pd

from mse_lab.formatting import number, share, with_interval
from mse_lab.mse.mismatch import Mismatch
from mse_lab.report.rendering import Part
from mse_lab.results.analysis import BASE, interval_heads
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
    if run.proxy is not None:
        # The logits norm, which a trainer has for nothing.
        within, overall = number(run.proxy.within, 2), number(run.proxy.overall, 2)
        said = f"correlation {within} within prompts, {overall} in all"
        lines.append(f"logits norm for ||W||^2: {said}")
    return lines + ([say_mismatch(run.mismatch)] if run.mismatch else [])


def say_mismatch(mismatch: Mismatch) -> str:
    """Say how far the law that drew completions is from the policy's."""
    return (
        f"drawn by an engine: {number(mismatch.kl_per_token, 2)} nats a token from the "
        "policy (KL, blind to a tail cut off, as by top-p); ESS "
        f"{share(mismatch.effective, 3)} of {mismatch.completions:,} completions"
    )


def ratio_part(mse: pd.DataFrame) -> Part:
    """Tabulate each estimator's MSE over the oracle's, from `mse.csv`, a column a size."""
    sizes = sorted(mse["group_size"].unique())
    table = mse.set_index(["estimator", "group_size"])[interval_heads("ratio")].astype(
        float
    )
    rows = [
        [f"  {name}", *(with_interval(tuple(table.loc[name, size])) for size in sizes)]
        for name in mse["estimator"].unique()
        if name != BASE
    ]
    heads = ["MSE over the oracle's", *(f"G = {size}" for size in sizes)]
    return Part(rows=rows, heads=heads, align="<" + ">" * len(sizes))
