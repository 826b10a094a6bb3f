"""`mse-lab draw`: draw a probe's completions by a server of vLLM or SGLang."""

from argparse import Namespace

from mse_lab.commands.command_line import RESULTS, ROOT, Parser, load_probes
from mse_lab.console import COMMAND_PREFIX, show_status

HELP = "a probe's completions, drawn by a server of vLLM or SGLang"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_probe("name")
    help = "where it answers, such as http://localhost:8000"
    parser.add_argument("--server", required=True, metavar="URL", help=help)
    parser.add_options("--set")
    parser.add_output_file("by default results/PROBE-completions.jsonl; it is added to")


def execute(arguments: Namespace) -> int:
    """Draw what the file lacks of the probe's pools."""
    settings = [*arguments.set, f"sampling.server={arguments.server}", "completions=null"]
    [(name, probe)] = load_probes([arguments.name], settings)
    path = arguments.out or RESULTS / f"{name}-completions.jsonl"
    show_status(f"{name}: loading torch and the tokenizer")
    from mse_lab.run.draw import draw_probe

    total = draw_probe(name, probe, path, ROOT)
    show_status()
    print(f"{path}: {total:,} completions")
    print(f"next: {COMMAND_PREFIX} run {arguments.name} --set completions={path}")
    return 0
