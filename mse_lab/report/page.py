"""Page: the sections in order, in one HTML file that needs nothing beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from mse_lab.answers.claims import judge_runs
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.errors import InputError
from mse_lab.report.advice_report import advise_source, show_advice
from mse_lab.report.claims_report import show_claims
from mse_lab.report.curves_section import compare_pairs, draw_curves
from mse_lab.report.layout import lay_out
from mse_lab.report.prompt_scatter import draw_prompts
from mse_lab.report.ranking_section import show_ranking
from mse_lab.report.run_facts import show_checks, show_environment, show_overview
from mse_lab.results.files import write_text


class Section(NamedTuple):
    """A section of the page: `templates/<key>.html` lays its context out."""

    key: str
    title: str
    context: Mapping[str, Any] = {}


def _sections(sources: Sequence[FinishedRun]) -> list[Section]:
    """List the sections, in the order of the page."""
    claims = judge_runs(sources)
    advices = [advise_source(source) for source in sources]
    return [
        Section("overview", "At a glance", show_overview(sources, claims, advices)),
        Section("figure4", "Figure 4: MSE and group size", draw_curves(sources)),
        Section("ratios", "Paired ratios", compare_pairs(sources)),
        Section("claims", "The paper's statements", show_claims(claims, sources)),
        Section("estimators", "Estimators, ranked", show_ranking(sources)),
        Section("advice", "Advice", show_advice(sources, advices)),
        Section("prompts", "Prompt by prompt", draw_prompts(sources)),
        Section("checks", "Checks", show_checks(sources)),
        Section("environment", "Environment", show_environment(sources)),
        Section("letters", "Letters"),
    ]


def compose_page(sources: Sequence[FinishedRun]) -> str:
    """Compose the page of finished runs."""
    sections = [
        (one, Markup(lay_out(f"{one.key}.html", sources=sources, **one.context)))
        for one in _sections(sources)
    ]
    dates = {str(source.environment.get("date", "")) for source in sources} - {""}
    levels = {f"{source.level:.0%}" for source in sources}
    told = {"dates": sorted(dates), "levels": sorted(levels)}
    return lay_out("page.html", sources=sources, sections=sections, **told)


def write_report(folders: Sequence[Path], output: Path) -> None:
    """Write one page about finished runs, which are compared in this order.

    Raises:
        InputError: A folder holds tables only, or nothing; two runs have one name; or the
            file cannot be written.
    """
    if not folders:
        raise InputError("no run to report on; name one")
    sources = [read_run(folder, f"run{n}") for n, folder in enumerate(folders, start=1)]
    write_text(output, compose_page(sources))
