"""The summary of a trainer's log as one HTML file that needs no other file."""

from pathlib import Path

from mse_lab.report.layout import Table, draw_image, lay_out
from mse_lab.report.rollouts_figure import compose_rollouts
from mse_lab.report.rollouts_report import headline, parts_of
from mse_lab.results.files import write_text
from mse_lab.trainer_logs.summary import Summary


def write_rollouts_page(summary: Summary, output: Path) -> None:
    """Write the page."""
    image = draw_image(
        lambda: compose_rollouts(summary),
        "Values of prompts, zero-variance groups against the group size, lengths by "
        "reward, and the mean reward along the steps",
    )
    first, *parts = parts_of(summary)
    tables = [
        Table(part.heads or [""] * len(part.rows[0]), part.rows) if part.rows else None
        for part in parts
    ]
    page = lay_out(
        "rollouts.html",
        name=summary.log.source.name,
        form=summary.log.source.form.name,
        headline=headline(summary),
        sentences=[said for said in first.sentences if said != headline(summary)],
        image=image,
        parts=list(zip(parts, tables, strict=True)),
    )
    write_text(output, page)
