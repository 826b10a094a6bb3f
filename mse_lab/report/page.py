"""Page: what runs say, in one HTML file that needs no other file.

It has the headlines, figures and tables that the commands give, a column a run, in the
order of a reader's questions.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from mse_lab.answers.advice import Advice, make_advice
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.statement_numbers import judge_runs
from mse_lab.errors import InputError
from mse_lab.formatting import NONE, number, share, with_interval
from mse_lab.probe.probe_files import flatten
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.advice_files import evidence_of_finished
from mse_lab.report.advice_report import advice_headline, warnings_of
from mse_lab.report.drawing import figure_bytes
from mse_lab.report.figure_4 import compose
from mse_lab.report.phase_diagram import as_dots, compose_phase
from mse_lab.report.rendering import Part, as_page
from mse_lab.report.run_screen import ratio_cells
from mse_lab.results.checks import Check
from mse_lab.results.files import write_output
from mse_lab.results.finished_run import Tables, read_tables

TITLE = "How far is the policy gradient from the truth?"

NOTE = (
    "{names}, measured {dates}. Intervals: {levels}. G: completions of a prompt in a "
    "group; V: a prompt's mean reward; g: the gradient of V. GRPO-type's baseline is the "
    "mean reward of the group's others, the oracle's is V, vanilla has none."
)
FIGURE_4_CAPTION = (
    "Squared distance of an estimator's gradient from the true one. Points are measured, "
    "lines the exact law; below, the same over the oracle's, on the same groups."
)
STEP_CAPTION = (
    "The error of a step of so many completions, from many prompts with small groups to "
    "few with large ones. The grey stretch is the interval of the best."
)
ESTIMATOR_CAPTION = (
    "Errors over the oracle's; of biased estimators after the rescaling best for them."
)
PROMPT_CAPTION = (
    "On the upper line score and reward are uncorrelated, which is Assumption 2; below the "
    "lower one no baseline at all is better than the value."
)
STATEMENT_CAPTION = (
    "What arXiv 2603.01162v1 says about gradients. A statement fails where it is refuted, "
    "corrected for the number of tests, by a deviation of more than 5%; it holds where the "
    "intervals of its numbers lie in the range that is named."
)

# Settings that "The runs" have already.
_SHOWN = ("model.path", "pool.reference", "pool.replicate", "interval.level", "date")


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


def side_by_side(title: str, columns: Mapping[str, Mapping[str, str]], *said: str) -> Part:
    """Lay facts out in rows, a column a run; a dash where a run lacks one."""
    names = dict.fromkeys(name for facts in columns.values() for name in facts)
    rows = [[name, *(one.get(name, NONE) for one in columns.values())] for name in names]
    return Part(title, said, rows, ["", *columns])


def _advise(run: FinishedRun) -> Advice | str:
    """Work out the advice, or say why there is none."""
    if not run.held:
        return "No advice: a built-in check FAILED."
    try:
        return make_advice(evidence_of_finished(run))
    except InputError as error:
        return f"No advice: {error}."


def _say_check(check: Check) -> str:
    if check.ok is None:
        return "not made"
    outcome, sign = ("holds", "≤") if check.ok else ("FAILED", ">")
    return f"{outcome}: {number(check.figure)} {sign} {number(check.bound)}"


def _facts(run: FinishedRun, advice: Advice | str) -> dict[str, str]:
    pool = run.probe.pool
    facts = {"Errors by": "exact law only, no replicates"} if run.law_only else {}
    if isinstance(advice, Advice):
        size = advice.setting.group_size
        facts |= {
            "Best group size G*": with_interval(advice.best),
            f"Completions a step at which MSE / ||g||² is one, G = {size}": with_interval(
                advice.noise_scale
            ),
        }
    return {
        "Model": run.probe.model.path,
        "Prompts": f"{run.pools.prompts}",
        "Completions of each": f"{pool.reference} + {pool.replicate}",
        "Mean reward": number(run.pools.value_P.mean(), 2),
        "||g||² of these prompts": number(run.pools.aggregate_norm2),
        **facts,
        **{f"{check.name} ({check.meaning})": _say_check(check) for check in run.checks},
    }


def _ratios(runs: Sequence[Tables]) -> Part:
    """Tabulate the estimators' errors over the oracle's, a row each of a run."""
    rows, sizes = [], sorted({size for run in runs for size in run.mse["group_size"]})
    for run in runs:
        best = "scale_free_ratio" if "scale_free_ratio" in run.mse else "ratio"
        cells = ratio_cells(run.mse, sizes, best)
        for name in run.mse.groupby("estimator")[best].mean().sort_values().index:
            rows.append([f"{run.name}: {name}" if len(runs) > 1 else name, *cells[name]])
    return Part(
        "Estimators", [ESTIMATOR_CAPTION], rows, ["", *(f"G = {size}" for size in sizes)]
    )


def _claims(runs: Sequence[FinishedRun]) -> dict[str, dict[str, str]]:
    columns: dict[str, dict[str, str]] = {}
    for claim in judge_runs(runs):
        if claim.group_size is None:
            said = f"{claim.verdict}. {claim.sentence}"
            columns.setdefault(", ".join(claim.runs), {})[claim.about.says] = said
    return columns


def _made(run: FinishedRun) -> dict[str, str]:
    known = flatten(run.environment) | flatten(run.probe.model_dump(mode="json"))
    return {
        key: str(value)
        for key, value in known.items()
        if value is not None and key not in _SHOWN
    }


def _first(
    runs: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> Iterator[tuple[str, str]]:
    """Give the lines above all parts: each answer, its warnings, and what words mean."""
    for run, advice in zip(runs, advices, strict=True):
        if not run.held:
            line = f"A built-in check of {run.name} FAILED: do not rely on its numbers."
            yield "warning", line
        answer, warnings = advice, run.warnings
        if isinstance(advice, Advice):
            answer, warnings = advice_headline(advice), warnings_of(advice)
        yield "headline", f"{run.name}: {answer}" if len(runs) > 1 else str(answer)
        yield from (("warning", warning) for warning in warnings)
    parts = {
        "names": [run.name for run in runs],
        "dates": [str(run.environment.get("date", NONE)) for run in runs],
        "levels": [share(run.level) for run in runs],
    }
    joined = {key: ", ".join(dict.fromkeys(values)) for key, values in parts.items()}
    yield "note", NOTE.format(**joined)


def _parts(
    runs: Sequence[FinishedRun],
    advices: Sequence[Advice | str],
    claims: Mapping[str, Mapping[str, str]],
) -> Iterator[Part]:
    tables = [read_tables(run.folder) for run in runs]
    dots = [as_dots(run.name, run.prompts, run.moments) for run in runs]
    pairs = list(zip(runs, advices, strict=True))
    yield side_by_side("The runs", {run.name: _facts(run, one) for run, one in pairs})
    figure = draw_image(partial(compose, tables), "MSE against group size")
    yield Part("Figure 4: MSE and group size", [FIGURE_4_CAPTION], figures=[figure])
    steps = [
        draw_image(partial(compose_advice, evidence_of_finished(run)), f"N MSE, {run.name}")
        for run, advice in pairs
        if isinstance(advice, Advice)
    ]
    yield Part("Which group size", [STEP_CAPTION], figures=steps)
    yield _ratios(tables)
    figure = draw_image(partial(compose_phase, dots), "Best baseline against value")
    yield Part("Prompt by prompt", [PROMPT_CAPTION], figures=[figure])
    yield side_by_side("The paper's statements", claims, STATEMENT_CAPTION)
    made = {run.name: _made(run) for run in runs}
    yield side_by_side("Where and how they were made", made)


def compose_page(runs: Sequence[FinishedRun]) -> str:
    """Compose the page of finished runs, in the order of a reader's questions."""
    claims = _claims(runs)  # It refuses runs of one name, and of single completions.
    advices = [_advise(run) for run in runs]
    title = f"{TITLE} {', '.join(run.name for run in runs)}"
    return as_page(title, list(_first(runs, advices)), list(_parts(runs, advices, claims)))


def write_report(folders: Sequence[Path], output: Path) -> None:
    """Write one page about finished runs, which are compared in this order."""
    if not folders:
        raise InputError("no run to report on; name one")
    page = compose_page([read_run(folder) for folder in folders])
    write_output(output, page.encode())
