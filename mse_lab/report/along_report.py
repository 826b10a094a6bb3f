"""Along a training run in words and files: the screen, the tables, the figure."""

import math
from collections.abc import Iterator
from pathlib import Path

from mse_lab.answers.along import Along
from mse_lab.answers.claims import claims_table
from mse_lab.formatting import number, share, table, times, with_interval, wrap
from mse_lab.report.along_figure import compose_along
from mse_lab.report.claims_report import VERDICT_WORDS
from mse_lab.report.drawing import save_figure
from mse_lab.results.files import write_table, write_text


def _say(along: Along) -> Iterator[str]:
    best, trajectory, level = along.best, along.trajectory, along.level
    if math.isnan(best.value):
        yield "No best group size: no reward varies."
        return
    cost = trajectory.cost(along.group_size, level)
    saved = trajectory.saved_by_switching(level)
    yield f"Best over the checkpoints, each alike: G* = {with_interval(best)}."
    yield (
        f"G = {along.group_size} takes {times(cost)} the completions of the "
        "best single size."
    )
    low, high = (share(end) for end in saved[1:])
    yield (
        f"The best size at each checkpoint would save {share(saved.value)} ({low} to "
        f"{high}) of the completions of the best single size."
    )


def _table(along: Along) -> str:
    level = f"G* ({100 * along.level:g}% interval)"
    heads = ["step", "reward", level, "vanilla", "GRPO", "rho", "zero-var."]
    rows = []
    for row, run in zip(along.table.to_dict("records"), along.runs, strict=True):
        ratios = (number(row[name]) for name in ("vanilla", "grpo", "rho"))
        reward, best = f"{row['value']:.3f}", with_interval(run.best_group_size)
        rows.append([str(row["step"]), reward, best, *ratios, share(row["equal_rewards"])])
    return table(rows, heads, ">><>>>>")


def along_text(along: Along) -> str:
    """Say what changes along the run on one screen."""
    name = along.runs[0].name.partition("/along/")[0]
    about = (
        f"{name} at {len(along.runs)} checkpoints, {along.runs[0].pools.prompts} prompts; "
        f"group size {along.group_size}; MSE of vanilla and GRPO over the oracle's"
    )
    lines = [wrap(about), "", _table(along), ""]
    lines += [wrap(sentence) for sentence in _say(along)]
    for claim in along.claims:
        lines.append(f"{VERDICT_WORDS[claim.verdict]:<10}{claim.about.says}")
        lines.append(wrap(f"{'':10}{claim.measured}", indent=10))
    return "".join(f"{line}\n" for line in lines)


def write_along(along: Along, folder: Path) -> str:
    """Write tables, screen and figure into a folder; return the screen."""
    text = along_text(along)
    write_table(folder / "along.csv", along.table)
    write_table(folder / "claims.csv", claims_table(along.claims))
    write_text(folder / "along.txt", text)
    for suffix in (".png", ".pdf"):
        output = folder / f"along{suffix}"
        save_figure(lambda: compose_along(along.table, along.best), output)
    return (
        f"{text}Written to {folder}:\n  along.csv, claims.csv, along.txt, along.png, .pdf"
    )
