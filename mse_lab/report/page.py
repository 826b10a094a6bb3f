"""Page: what runs say, in one HTML file that needs no other file.

It has what `run`, `advise`, `figure` and `claims` show of them.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from mse_lab.answers.advice import make_advice
from mse_lab.answers.advice_evidence import evidence_of_run
from mse_lab.answers.ladder import Ladder
from mse_lab.answers.statements import judge_runs
from mse_lab.errors import InputError
from mse_lab.formatting import NONE
from mse_lab.report.advice_report import advice_parts
from mse_lab.report.claims_report import claims_parts
from mse_lab.report.drawing import figure_bytes
from mse_lab.report.figure_4 import compose
from mse_lab.report.ladder_figure import compose_ladder
from mse_lab.report.phase_diagram import compose_phase
from mse_lab.report.rendering import Part, as_page
from mse_lab.report.run_screen import ratio_part
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import summary
from mse_lab.results.files import write_output
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import ResultsFolder

TITLE = "How far is the policy gradient from the truth?"

FIGURE_4_CAPTION = (
    "Squared distance of an estimator's gradient from the true one. Points are measured, "
    "lines the exact law; below, the same over the oracle's, on the same groups. "
    "GRPO-type's baseline is the mean reward of the group's others, the oracle's is the "
    "prompt's mean reward V, vanilla has none."
)
PROMPT_CAPTION = (
    "On the upper line score and reward are uncorrelated, which is Assumption 2; below the "
    "lower one no baseline at all is better than the value."
)


def draw_image(compose_figure: Callable[[], Figure], alt: str) -> Markup:
    """Compose a figure for the page, once for each of its grounds."""
    dark, light = (
        b64encode(figure_bytes(compose_figure, "svg", dark=one)).decode()
        for one in (True, False)
    )
    return Markup(
        '<picture><source media="(prefers-color-scheme: dark)" '
        'srcset="data:image/svg+xml;base64,{}"><img src="data:image/svg+xml;base64,{}" '
        'alt="{}"></picture>'
    ).format(dark, light, alt)


def _describe(folder: Path, run: Analysis) -> str:
    results, pool = ResultsFolder(folder), run.probe.pool
    date = results.read("environment.json", {}).get("date", NONE)
    return (
        f"{run.probe.model.path}: {run.pools.prompts} prompts, {pool.reference} + "
        f"{pool.replicate} completions each, measured {date}. "
        f"{summary(results.read_checks().checks)}"
    )


def _advise(run: Analysis) -> Iterator[Part]:
    """Give the advice with its figure, or say why there is none."""
    evidence = evidence_of_run(run, run.setting)
    try:
        yield from advice_parts(make_advice(evidence))
    except InputError as error:
        warnings = [f"warning: {text}" for text in run.warnings]
        yield Part(sentences=[f"No advice: {error}.", *warnings])
        return
    draw = partial(compose_ladder, Ladder(evidence))
    image = draw_image(draw, f"Steps over those of the present training, {run.name}")
    yield Part(figures=[image])


def _parts(folders: Sequence[Path], runs: Sequence[Analysis]) -> Iterator[Part]:
    for folder, run in zip(folders, runs, strict=True):
        yield Part(run.name, [_describe(folder, run)])
        yield from _advise(run)
        yield ratio_part(run.mse)
    image = draw_image(partial(compose, runs), "MSE against group size")
    yield Part("Figure 4: MSE and group size", [FIGURE_4_CAPTION], figures=[image])
    image = draw_image(partial(compose_phase, runs), "Best baseline against value")
    yield Part("Prompt by prompt", [PROMPT_CAPTION], figures=[image])
    yield Part("The paper's statements")
    yield from claims_parts(judge_runs(runs))


def write_report(folders: Sequence[Path], output: Path, first: Sequence[str] = ()) -> None:
    """Write one page about finished runs, in the order of a reader's questions.

    They are compared in this order. What is to be known `first` heads it.
    """
    runs = list(map(read_run, folders))
    parts = [Part(sentences=first), *_parts(folders, runs)]
    page = as_page(f"{TITLE} {', '.join(run.name for run in runs)}", parts)
    write_output(output, page.encode())
