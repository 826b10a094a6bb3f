"""Plots: the figures of one result by name, for somebody who looks at them in Python."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from mse_lab.answers.advice import advise
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.errors import InputError, nearest
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.drawing import show_figure
from mse_lab.report.figure_4 import compose
from mse_lab.report.phase_diagram import as_dots, compose_phase
from mse_lab.results.checks import Check, none_failed
from mse_lab.results.finished_run import Tables


def plot_result(run: MeasuredRun, checks: Sequence[Check], kind: str) -> Figure:
    """Compose a figure of a run in the house style.

    Raises:
        InputError: There is no such figure, or nothing to advise on.
    """
    tables = Tables(run.name, run.mse, run.laws, run.prompts, none_failed(checks))
    composers: dict[str, Callable[[], Figure]] = {
        "figure4": lambda: compose([tables]),
        "advice": lambda: compose_advice(advise(run)),
        "phase": lambda: compose_phase([as_dots(run.name, run.prompts, run.moments)]),
    }
    if kind not in composers:
        raise InputError(f"plot({kind!r}): no such figure; {nearest(kind, [*composers])}")
    return show_figure(composers[kind])
