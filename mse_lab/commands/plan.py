"""`mse-lab plan`: what a run will take, extrapolated from its first prompts."""

import json
from argparse import Namespace

from mse_lab.commands.command_line import ROOT, Parser, load_probes
from mse_lab.console import show_status, started_by_torchrun
from mse_lab.errors import InputError

HELP = "what a run will take: completions, tokens, memory, time, intervals"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_probes()
    parser.add_options("--fresh", "--json")


def execute(arguments: Namespace) -> int:
    """Measure the first prompts of each probe; print what a run of it will take."""
    if started_by_torchrun():
        raise InputError("plan needs one process; start it without torchrun")
    probes = load_probes(arguments.probes, arguments.set)
    show_status(f"{probes[0][0]}: loading torch and the model")
    from mse_lab.report.run_screen import finished_text, plan_text, plan_values
    from mse_lab.results.extrapolation import Plan
    from mse_lab.run.plan import plan_probe
    from mse_lab.run.prepare import prepare

    values = []
    for name, probe in probes:
        folder = arguments.out / name
        plan = plan_probe(prepare(name, probe, folder, ROOT), fresh=arguments.fresh)
        show_status()
        if isinstance(plan, Plan):
            values.append(plan_values(plan))
            text = plan_text(plan)
        else:
            values.append({"probe": name, "finished": True, "repaired": plan.repaired})
            text = finished_text(name, folder, plan.repaired)
        if not arguments.json:
            print(text)
    if arguments.json:
        print(json.dumps(values, indent=2, ensure_ascii=False))
    return 0
