"""Say which results and figures differ from the committed ones, and tables by how much.

`make figure4` ends with it. Outside a git checkout there is nothing to compare with.
"""

import io
import subprocess
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
WHY = "another processor rounds otherwise, and then a few draws may change"


def git(*words: str) -> str:
    """Ask git; it fails outside a checkout."""
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def largest_gap(old: pd.DataFrame, new: pd.DataFrame) -> str:
    """Say how far a table is from the committed one, in the column where it is farthest."""
    columns = old.select_dtypes("number").columns
    if len(old) != len(new) or not columns.isin(new.columns).all():
        return "in rows or columns"
    gaps = (new[columns] - old[columns]).abs().max() / old[columns].abs().max()
    return f"by at most {gaps.max():.1g} of the largest {gaps.idxmax()}"


def describe(name: str) -> str:
    """Say in what a table differs from the committed one."""
    path = ROOT / name
    if not path.exists():
        return "in that it is gone"
    return largest_gap(
        pd.read_csv(io.StringIO(git("show", f"HEAD:{name}"))), pd.read_csv(path)
    )


def main() -> None:
    """Print what differs."""
    try:
        names = git("diff", "--name-only", "HEAD", "--", "results", "figures").split()
    except (OSError, subprocess.CalledProcessError):
        return
    if not names:
        print("results and figures are the committed ones, to the last digit")
        return
    tables = [name for name in names if name.endswith(".csv")]
    print(f"{len(names)} files are not as committed, see git status ({WHY})")
    for name in tables:
        print(f"  {name} differs {describe(name)}")


if __name__ == "__main__":
    main()
