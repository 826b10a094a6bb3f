"""Page: the sections in order, in one HTML file that needs no other file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from mse_lab.answers.advice import Advice
from mse_lab.answers.claims import judge_runs
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.ranking import MIDDLE, nearest_size
from mse_lab.errors import InputError
from mse_lab.report.advice_report import advise_source, headline
from mse_lab.report.advice_section import show_advice
from mse_lab.report.claims_report import show_claims
from mse_lab.report.curves_section import compare_pairs, draw_curves
from mse_lab.report.layout import lay_out
from mse_lab.report.prompt_scatter import draw_prompts
from mse_lab.report.ranking_section import show_ranking
from mse_lab.report.run_facts import show_environment, show_overview
from mse_lab.results.files import write_text


class Section(NamedTuple):
    """A section of the page, laid out by `templates/<key>.html`; some are folded away."""

    key: str
    title: str
    context: Mapping[str, Any] = {}
    folded: bool = False


def _sections(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> list[Section]:
    """List the sections, in the order of a reader's questions."""
    claims = judge_runs(sources)
    sizes = [
        nearest_size(source, MIDDLE if isinstance(advice, str) else advice.recommended)
        for source, advice in zip(sources, advices, strict=True)
    ]
    return [
        Section("advice", "Which group size", show_advice(sources, advices)),
        Section("overview", "Signal and checks", show_overview(sources, advices)),
        Section("figure4", "Figure 4: MSE and group size", draw_curves(sources)),
        Section("ratios", "The ratios in numbers", compare_pairs(sources), folded=True),
        Section("estimators", "Estimators, ranked", show_ranking(sources, sizes)),
        Section("prompts", "Prompt by prompt", draw_prompts(sources, sizes)),
        Section("claims", "The paper's statements", show_claims(claims, sources), True),
        Section("environment", "Environment", show_environment(sources), folded=True),
        Section("notation", "Notation", folded=True),
    ]


def compose_page(sources: Sequence[FinishedRun]) -> str:
    """Compose the page of finished runs."""
    advices = [advise_source(source) for source in sources]
    sections = [
        (one, Markup(lay_out(f"{one.key}.html", sources=sources, **one.context)))
        for one in _sections(sources, advices)
    ]
    dates = {str(source.environment.get("date", "")) for source in sources} - {""}
    levels = {f"{source.level:.0%}" for source in sources}
    answers = [
        f"No advice: {advice}" if isinstance(advice, str) else headline(advice)
        for advice in advices
    ]
    facts = {"dates": sorted(dates), "levels": sorted(levels), "answers": answers}
    return lay_out("page.html", sources=sources, sections=sections, **facts)


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
