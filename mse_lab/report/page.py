"""Page: the sections in order, in one HTML file that needs no other file."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.ranking import MIDDLE, nearest_size
from mse_lab.answers.statement import judge_runs
from mse_lab.errors import InputError
from mse_lab.mse.regime import oracle_gain
from mse_lab.report.advice_report import headline
from mse_lab.report.claims_report import show_claims
from mse_lab.report.figure_4 import compose, scales_of
from mse_lab.report.layout import Image, draw_image, lay_out
from mse_lab.report.phase_diagram import as_dots, draw_runs
from mse_lab.report.sections import (
    advise_source,
    show_advice,
    show_environment,
    show_overview,
    show_ranking,
)
from mse_lab.results.files import write_text
from mse_lab.results.finished_run import read_tables


class Section(NamedTuple):
    """A section of the page, laid out by `templates/<key>.html`; some are folded away."""

    key: str
    title: str
    context: Mapping[str, Any] = {}
    folded: bool = False


def _draw_curves(sources: Sequence[FinishedRun]) -> list[tuple[str, Image]]:
    runs = [read_tables(source.folder) for source in sources]
    draw = partial(compose, scales=scales_of(runs))
    return [
        (run.name, draw_image(partial(draw, [run]), f"MSE against group size, {run.name}"))
        for run in runs
    ]


def draw_prompts(source: FinishedRun) -> tuple[str, Image]:
    """Draw a run's phase diagram; say on how many prompts a baseline near V helps."""
    dots = as_dots(source.name, source.prompts, source.moments)
    gains = oracle_gain(source.moments)
    caption = (
        f"{source.name}: {dots.describe()}. The best baseline is nearer to V than to 0 at "
        f"{(gains > 0).sum()} of {(gains != 0).sum()} prompts."
    )

    def compose_prompts() -> Figure:
        figure = Figure(figsize=(4.0, 3.6), layout="constrained")
        draw_runs(figure.subplots(), [dots], ["the run"])
        return figure

    return caption, draw_image(compose_prompts, caption)


def compose_page(sources: Sequence[FinishedRun]) -> str:
    """Compose the page of finished runs, in the order of a reader's questions."""
    # It refuses runs of single completions.
    claims = show_claims(judge_runs(sources), sources)
    advices = [advise_source(source) for source in sources]
    sizes = [
        nearest_size(source, MIDDLE if isinstance(advice, str) else advice.recommended)
        for source, advice in zip(sources, advices, strict=True)
    ]
    sections = [
        Section("advice", "Which group size", show_advice(sources, advices)),
        Section("overview", "Signal and checks", show_overview(sources, advices)),
        Section(
            "figure4", "Figure 4: MSE and group size", {"images": _draw_curves(sources)}
        ),
        Section("estimators", "Estimators, ranked", show_ranking(sources, sizes)),
        Section("prompts", "Prompt by prompt", {"images": map(draw_prompts, sources)}),
        Section("claims", "The paper's statements", claims, folded=True),
        Section("environment", "Environment", show_environment(sources), folded=True),
        Section("notation", "Notation", folded=True),
    ]
    return lay_out(
        "page.html",
        sources=sources,
        sections=[
            (section, Markup(lay_out(f"{section.key}.html", **section.context)))
            for section in sections
        ],
        dates=sorted({str(run.environment.get("date", "")) for run in sources} - {""}),
        levels=sorted({f"{source.level:.0%}" for source in sources}),
        answers=[
            f"No advice: {advice}" if isinstance(advice, str) else headline(advice)
            for advice in advices
        ],
    )


def write_report(folders: Sequence[Path], output: Path) -> None:
    """Write one page about finished runs, which are compared in this order."""
    if not folders:
        raise InputError("no run to report on; name one")
    write_text(output, compose_page([read_run(folder) for folder in folders]))
