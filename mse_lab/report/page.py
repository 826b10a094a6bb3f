"""Page: the sections in order, in one HTML file that needs nothing beside it."""

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from mse_lab.answers.source import Source, read_source
from mse_lab.errors import InputError
from mse_lab.report.figure_4_section import figure4_section
from mse_lab.report.markup import Html, element, join, paragraph
from mse_lab.report.overview import overview_section
from mse_lab.report.provenance import checks_section, environment_section
from mse_lab.report.ratios import ratios_section
from mse_lab.report.recommendation import advise_source, recommendation_section
from mse_lab.report.scatters import scatters_section
from mse_lab.report.sheet import STYLE_SHEET
from mse_lab.report.standings import ranking_section
from mse_lab.report.verdicts import judge, verdicts_section
from mse_lab.results.files import write_text

TITLE = "How far is the policy gradient from the truth?"

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title: $runs</title>
<style>
$style</style>
</head>
<body>
<div class="page">
$header
$contents
$main
</div>
</body>
</html>
""")

_LETTERS = (
    ("Z, V", "the reward of a completion, and its mean over a prompt's completions"),
    ("W", "the score of a completion: the gradient of its log-probability"),
    ("g", "the true gradient of the mean reward, E[W Z]"),
    ("G", "completions in a group: samples of one prompt that are weighed together"),
    ("B, N", "prompts in a batch, and completions in it, N = B G"),
    ("MSE", "the mean of ‖estimate − g‖²"),
    ("T", "G times the MSE of the oracle"),
    ("ζ", "Var(Z) E‖W‖² + ‖g‖²: GRPO-type's MSE is T/G + ζ/(G (G − 1))"),
    ("b*", "the constant baseline of least MSE, E[Z ‖W‖²] / E‖W‖²"),
    ("vanilla", "no baseline"),
    ("GRPO-type", "the baseline is the mean reward of the others in the group"),
    ("oracle", "the baseline is the true value V"),
)


class Section(NamedTuple):
    """A section of the page."""

    key: str
    title: str
    content: list[Html]


def _letters() -> list[Html]:
    pairs = [
        join(element("dt", letter), element("dd", meaning)) for letter, meaning in _LETTERS
    ]
    return [element("dl", *pairs)]


def _sections(sources: Sequence[Source]) -> list[Section]:
    claims = judge(sources)
    advices = [advise_source(source) for source in sources]
    return [
        Section("overview", "At a glance", overview_section(sources, claims, advices)),
        Section("figure4", "Figure 4: MSE and group size", figure4_section(sources)),
        Section("ratios", "Paired ratios", ratios_section(sources)),
        Section("claims", "The paper's statements", verdicts_section(claims, sources)),
        Section("estimators", "Estimators, ranked", ranking_section(sources)),
        Section("advice", "Advice", recommendation_section(sources, advices)),
        Section("prompts", "Prompt by prompt", scatters_section(sources)),
        Section("checks", "Checks", checks_section(sources)),
        Section("environment", "Environment", environment_section(sources)),
        Section("letters", "Letters", _letters()),
    ]


def _header(sources: Sequence[Source]) -> Html:
    dates = sorted({str(source.environment.get("date", "")) for source in sources} - {""})
    levels = sorted({f"{source.level:.0%}" for source in sources})
    when = f"Measured {' and '.join(dates)}. " if dates else ""
    return element(
        "header",
        element("h1", TITLE),
        paragraph(
            f"{', '.join(source.name for source in sources)}. {when}"
            f"Intervals in brackets are at {' and '.join(levels)}.",
            class_="lead",
        ),
        *(_alarm(source) for source in sources if not source.held),
    )


def _alarm(source: Source) -> Html:
    words = f"✗ A built-in check of {source.name} FAILED: do not rely on its numbers."
    return paragraph(element("strong", words), class_="warning")


def _contents(sections: Sequence[Section]) -> Html:
    items = [
        element("li", element("a", section.title, href=f"#{section.key}"))
        for section in sections
    ]
    return element("nav", element("ol", *items), aria_label="Contents")


def _main(sections: Sequence[Section]) -> Html:
    return element(
        "main",
        *(
            element("section", element("h2", one.title), *one.content, id=one.key)
            for one in sections
        ),
    )


def compose_page(sources: Sequence[Source]) -> str:
    """Compose the page of finished runs."""
    sections = _sections(sources)
    return _PAGE.substitute(
        title=TITLE,
        runs=join(", ".join(source.name for source in sources)),
        style=STYLE_SHEET,
        header=_header(sources),
        contents=_contents(sections),
        main=_main(sections),
    )


def write_report(folders: Sequence[Path], output: Path) -> None:
    """Write one page about finished runs; the same runs give the same bytes.

    Args:
        folders: The runs, in the order in which they are shown and compared.
        output: The HTML file.

    Raises:
        InputError: A folder holds tables only, or nothing; two runs have one name; or the
            file cannot be written.
    """
    if not folders:
        raise InputError("no run to report on; name one")
    sources = [read_source(folder, f"run{n}") for n, folder in enumerate(folders, start=1)]
    write_text(output, compose_page(sources))
