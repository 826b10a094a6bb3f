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
Its results lie in
  {{folder}}
  {COMMAND_PREFIX} advise {RUN} --completions-per-step 1024    at your batch
  {COMMAND_PREFIX} report {RUN}             all of it on one page, in results/{RUN}
  {COMMAND_PREFIX} claims {RUN}             the paper's statements, judged by it
Your logs, of TRL, verl and others:
  {COMMAND_PREFIX} rollouts FOLDER         what they tell; no model
Your model, after {install("measure")} of mse_lab:
  {COMMAND_PREFIX} init MODEL PROMPTS      writes a probe, MODEL.yaml
  {COMMAND_PREFIX} advise MODEL.yaml       measures it until the answer is known
"""


def add_arguments(parser: Parser) -> None:
    """Add no arguments."""


def execute(arguments: Namespace) -> int:
    """Print the answer, and what to type next; write nothing."""
    from mse_lab.answers.advice import restore_advice
    from mse_lab.report.advice_report import advice_text

    folder = EXAMPLES / RUN
    print(advice_text(restore_advice(folder / "advice.json")))
    print(NEXT.format(folder=folder), end="")
    return 0
