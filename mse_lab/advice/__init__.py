"""Advice: which group size and which baseline to train with, from one finished run."""

from mse_lab.advice.figure import draw_advice
from mse_lab.advice.numbers import BUDGET, TOLERANCE, Advice, advise
from mse_lab.advice.run import advise_run
from mse_lab.advice.words import LAW_ONLY, advice_table, advice_text

__all__ = [
    "BUDGET",
    "LAW_ONLY",
    "TOLERANCE",
    "Advice",
    "advice_table",
    "advice_text",
    "advise",
    "advise_run",
    "draw_advice",
]
