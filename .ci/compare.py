"""Keep what `make figure4` measured only where it differs from what is committed.

The runs and their figures lie in measured/, which git does not know. Another processor
rounds otherwise: where that is all, the committed files stay as they are. A run that
differs by more takes the place of the committed one, with the figures, and git shows it.
"""

import shutil
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]

# Of the largest number in a column. Processors leave 5e-7; a completion that is drawn
# otherwise moves its prompt by 1 in 1,024.
ROUNDING = 1e-5

TABLES = ("mse.csv", "laws.csv", "prompts.csv")


def largest_gap(old: pd.DataFrame, new: pd.DataFrame) -> tuple[float, str]:
    """Say how far a table is from another, in the column where it is farthest."""
    columns = old.select_dtypes("number").columns
    if len(old) != len(new) or not columns.isin(new.columns).all():
        return float("inf"), "rows or columns"
    gaps = (new[columns] - old[columns]).abs().max() / old[columns].abs().max()
    return float(gaps.max()), str(gaps.idxmax())


def differing(measured: Path, committed: Path) -> list[str]:
    """Name the tables of a run that differ by more than rounding, and by how much."""
    found = []
    for name in TABLES:
        if not (committed / name).exists():
            found.append(f"{committed.relative_to(ROOT)} has no {name}")
            continue
        old, new = (pd.read_csv(folder / name) for folder in (committed, measured))
        gap, where = largest_gap(old, new)
        if gap > ROUNDING:
            table = committed.relative_to(ROOT) / name
            found.append(f"{table} differs by {gap:.1g} of the largest in {where}")
    return found


def keep(run: Path) -> list[str]:
    """Put a measured run into results/ if it differs; say in what."""
    committed = ROOT / "results" / run.relative_to(ROOT / "measured")
    found = differing(run, committed)
    if found:
        committed.mkdir(parents=True, exist_ok=True)
        for path in run.iterdir():
            if path.suffix in (".csv", ".json", ".yaml"):
                shutil.copy(path, committed)
    return found


def main() -> None:
    """Compare every run, and keep the figures of runs that differ, or that are missing."""
    runs = sorted(path.parent for path in (ROOT / "measured").rglob("mse.csv"))
    found = [line for run in runs for line in keep(run)]
    for figure in (ROOT / "measured/figures").iterdir():
        committed = ROOT / "figures" / figure.name
        if found or not committed.exists():
            shutil.copy(figure, committed)
    print("\n".join(found) or f"{len(runs)} runs: the committed numbers, but for rounding")
    print("the runs lie in measured/, their figures in figures/")


if __name__ == "__main__":
    main()
