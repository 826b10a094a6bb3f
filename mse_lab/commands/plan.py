"""`mse-lab plan`: the first prompt as sent, and what a run will take."""

import json
from argparse import Namespace

from mse_lab.commands.command_line import Parser, load_probes, prepare_early
from mse_lab.console import show_status, started_by_torchrun
from mse_lab.errors import InputError
from mse_lab.formatting import byte_size, duration

HELP = "what a run will take, and its first prompt as it is sent"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_probe("probe")
    parser.add_options("--set", "--out", "--fresh", "--json")


def execute(arguments: Namespace) -> int:
    """Measure the first prompts of a probe; print what a run of it will take."""
    if started_by_torchrun():
        raise InputError("plan needs one process; start it without torchrun")
    [(name, probe)] = load_probes([arguments.probe], arguments.set)
    spec = prepare_early(name, probe, arguments.out / name, fresh=arguments.fresh)
    from mse_lab.report.rendering import Part, as_text, screen_width
    from mse_lab.run.plan import plan_probe

    plan = plan_probe(spec, fresh=arguments.fresh)
    show_status()
    if arguments.json:
        values = {"finished": True} if plan is None else plan._asdict()
        print(json.dumps({"probe": name, **values}, indent=2, ensure_ascii=False))
        return 0
    if plan is None:
        print(f"{name}: finished, nothing to do: {spec.results.path}")
        return 0
    head = (
        f"{name}: {plan.prompts} prompts, {plan.prompts_measured} of them measured and "
        f"kept for the run; {plan.completions:,} completions to come"
    )
    lines = [
        *plan.first_prompt,
        f"time to come: {duration(plan.seconds)}, or {duration(plan.seconds_high)} if all "
        "are like the slowest; each of N processes on devices of their own takes an N-th",
        f"memory: {byte_size(plan.peak_memory_bytes)} so far, of "
        f"{byte_size(plan.budget_bytes)}",
        *(f"warning: {text}" for text in plan.warnings),
    ]
    print(as_text([Part(head, lines)], screen_width()))
    return 0
