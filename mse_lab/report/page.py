"""Page: what runs say, in one HTML file that needs no other file.

It has the headlines, figures and data frames that the commands give, a column a run, in the
order of a reader's questions. pandas writes the tables; every text is escaped.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.advice_evidence import Evidence, ask, evidence_of_run
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.statement_numbers import judge_runs
from mse_lab.errors import InputError
from mse_lab.formatting import NONE, number, with_interval
from mse_lab.probe.probe_files import flatten
from mse_lab.probe.training import find_setting
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.advice_report import headline, warnings_of
from mse_lab.report.drawing import figure_bytes
from mse_lab.report.figure_4 import compose
from mse_lab.report.phase_diagram import as_dots, compose_phase
from mse_lab.results.checks import Check
from mse_lab.results.files import write_output
from mse_lab.results.finished_run import Tables, read_tables
from mse_lab.results.tables import interval_heads

TEMPLATES = Environment(
    loader=PackageLoader("mse_lab.report"), autoescape=True, undefined=StrictUndefined
)

# How much larger than on paper a figure is shown, in pixels of 1/96 inch; it has points.
_ZOOM = 1.25 * 96 / 72


def draw_image(compose_figure: Callable[[], Figure], alt: str) -> Markup:
    """Compose a figure in the house style for the page."""
    drawing = figure_bytes(compose_figure, "svg")
    width = re.search(rb'width="([\d.]+)pt"', drawing)
    assert width is not None  # matplotlib writes it
    image = Markup('<img src="data:image/svg+xml;base64,{}" width="{:.0f}" alt="{}">')
    return image.format(b64encode(drawing).decode(), float(width[1]) * _ZOOM, alt)


def lay_out_table(table: pd.DataFrame) -> Markup:
    """Write a data frame, which scrolls by itself where it is wider than the page."""
    with pd.option_context("display.max_colwidth", None):
        written = Markup(table.to_html(border=0))  # It escapes all texts.
    return Markup('<div class="scroll">{}</div>').format(written)


def side_by_side(columns: Mapping[str, Mapping[str, str]]) -> Markup:
    """Lay facts out in rows, a column a run; a dash where a run lacks one."""
    names = dict.fromkeys(name for facts in columns.values() for name in facts)
    return lay_out_table(pd.DataFrame(columns).reindex([*names]).fillna(NONE))


def _evidence(run: FinishedRun) -> Evidence:
    """Take a run as evidence on its probe's training."""
    setting = find_setting(run.probe.training, run.probe)
    question = ask(setting, run.level)
    return evidence_of_run(run, setting, question, held=run.held, warnings=run.warnings)


def _advise(run: FinishedRun) -> Advice | str:
    """Work out the advice, or say why there is none."""
    if not run.held:
        return "No advice: a built-in check FAILED."
    try:
        return advise(_evidence(run))
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
        "Mean reward": f"{run.pools.value_P.mean():.2f}",
        "||g||² of these prompts": number(run.pools.aggregate_norm2),
        **facts,
        **{f"{check.name} ({check.meaning})": _say_check(check) for check in run.checks},
    }


def _ratios(run: Tables) -> Markup:
    """Tabulate the estimators' errors over the oracle's, a column a group size."""
    heads = interval_heads("scale_free_ratio" if "scale_free_ratio" in run.mse else "ratio")
    table = run.mse.set_index(["estimator", "group_size"])[heads].astype(float)
    cells = table.apply(lambda row: with_interval(tuple(row)), axis=1)
    order = table[heads[0]].groupby("estimator").mean().sort_values().index
    wide = cells.unstack("group_size").reindex(order)
    wide.columns = [f"{run.name}, G = {size}" for size in wide.columns]
    return lay_out_table(wide.rename_axis(None))


def _claims(runs: Sequence[FinishedRun]) -> dict[str, dict[str, str]]:
    columns: dict[str, dict[str, str]] = {}
    for claim in judge_runs(runs):
        if claim.group_size is None:
            said = f"{claim.verdict}. {claim.sentence}"
            columns.setdefault(", ".join(claim.runs), {})[claim.about.says] = said
    return columns


def _made(run: FinishedRun) -> dict[str, str]:
    known = flatten(run.environment) | flatten(run.probe.model_dump(mode="json"))
    return {key: NONE if value is None else str(value) for key, value in known.items()}


def compose_page(runs: Sequence[FinishedRun]) -> str:
    """Compose the page of finished runs."""
    claims = _claims(runs)  # It refuses runs of one name, and of single completions.
    pairs = [(run, _advise(run)) for run in runs]
    answers = [
        (run, advice, run.warnings)
        if isinstance(advice, str)
        else (run, headline(advice), warnings_of(advice))
        for run, advice in pairs
    ]
    tables = [read_tables(run.folder) for run in runs]
    dots = [as_dots(run.name, run.prompts, run.moments) for run in runs]
    return TEMPLATES.get_template("page.html").render(
        names=[run.name for run in runs],
        answers=answers,
        dates=dict.fromkeys(str(run.environment.get("date", NONE)) for run in runs),
        levels=dict.fromkeys(f"{run.level:.0%}" for run in runs),
        facts=side_by_side({run.name: _facts(run, advice) for run, advice in pairs}),
        figure_4=draw_image(partial(compose, tables), "MSE against group size"),
        steps=[
            draw_image(partial(compose_advice, _evidence(run)), f"N MSE, {run.name}")
            for run, advice in pairs
            if isinstance(advice, Advice)
        ],
        ratios=[_ratios(table) for table in tables],
        prompts=draw_image(partial(compose_phase, dots), "Best baseline against value"),
        claims=side_by_side(claims),
        made=side_by_side({run.name: _made(run) for run in runs}),
    )


def write_report(folders: Sequence[Path], output: Path) -> None:
    """Write one page about finished runs, which are compared in this order."""
    if not folders:
        raise InputError("no run to report on; name one")
    page = compose_page([read_run(folder) for folder in folders])
    write_output(output, page.encode())
