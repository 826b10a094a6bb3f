"""What `theory` shows and writes: a screen of verdicts, tables, the figure."""

import math
from collections import Counter
from pathlib import Path

from mse_lab.formatting import number, with_interval
from mse_lab.report.claims_report import VERDICT_WORDS
from mse_lab.report.drawing import save_figure
from mse_lab.results.files import write_table
from mse_lab.studies.theory.figure import compose_theory
from mse_lab.studies.theory.findings import Finding, findings_table
from mse_lab.studies.theory.study import Study

# Columns of the screen, of the verdict, of the statement and of what it predicts.
WIDTH, VERDICT, STATEMENT, EXPECTED = 80, 11, 41, 5

HEAD = (
    "What arXiv 2603.01162 says about training, on bandits in which all is exact",
    f"{'expected':>{VERDICT + STATEMENT + EXPECTED}} found (99% interval)",
)


def _line(finding: Finding) -> str:
    """Write a verdict with the expected value and the estimate, or why there is none."""
    verdict = f"{VERDICT_WORDS[finding.verdict]:{VERDICT}}{finding.statement:{STATEMENT}}"
    value, low, high = finding.estimate
    if math.isnan(value):
        return f"{verdict}{finding.protocol}"
    estimate = number(value) if low == high else with_interval(finding.estimate)
    return f"{verdict}{number(finding.expected):>{EXPECTED}} {estimate}"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3].rstrip()}..."


def theory_screen(study: Study) -> str:
    """Write the verdicts, a line each; then the controls that were not caught."""
    verdicts = (VERDICT_WORDS[finding.verdict] for finding in study.findings)
    counts = Counter(verdicts).most_common()
    lines = [*HEAD, *map(_line, study.findings)]
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in counts))
    for finding in study.findings:
        if finding.control and not finding.control.caught:
            lines.append(f"{finding.statement}: control {finding.control}")
    return "\n".join(map(_cut, lines))


def write_theory(study: Study, folder: Path, figures: Path) -> None:
    """Write the tables, and the figure as `theory.png` and `theory.pdf`.

    Raises:
        InputError: A folder cannot be written.
    """
    write_table(folder / "statements.csv", findings_table(study.findings))
    for name, table in study.tables.items():
        write_table(folder / f"{name}.csv", table)
    for suffix in (".png", ".pdf"):
        save_figure(lambda: compose_theory(study), figures / f"theory{suffix}")
