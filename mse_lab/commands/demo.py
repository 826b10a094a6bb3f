"""`mse-lab demo`: the answer of a committed run, and what to type for one's own."""

from argparse import Namespace

from mse_lab.commands.command_line import Parser
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import install
from mse_lab.project import EXAMPLES

HELP = "what an answer looks like; no model, no network, seconds"

# A finished run of tiny/base with its pools: every command that needs no model reads it.
RUN = "demo"

NEXT = f"""\
That was tiny/base, a small checkpoint that comes with mse_lab, on 60 prompts.
  {COMMAND_PREFIX} advise {RUN}           the rest of this answer
  {COMMAND_PREFIX} report {RUN}           a page of it, in results/{RUN}
  {COMMAND_PREFIX} rollouts FOLDER       your logs (TRL, verl, others); no model
Your model, after {install("measure")}:
  {COMMAND_PREFIX} init MODEL PROMPTS    writes a probe, MODEL.yaml
  {COMMAND_PREFIX} advise MODEL.yaml     measures it, by at most 8,192 completions
"""


def add_arguments(parser: Parser) -> None:
    """Add no arguments."""


def execute(arguments: Namespace) -> int:
    """Print how an advice begins, and what to type next; write nothing."""
    from mse_lab.answers.advice import restore_advice
    from mse_lab.report.advice_report import what_to_do
    from mse_lab.report.rendering import as_text

    advice = restore_advice(EXAMPLES / RUN / "advice.json")
    print(f"{as_text(what_to_do(advice))}\n\n{NEXT}", end="")
    return 0
