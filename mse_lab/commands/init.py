"""`mse-lab init`: write a probe."""

from argparse import BooleanOptionalAction, Namespace

from mse_lab.commands.command_line import ROOT, Parser, max_tokens

HELP = "write a probe for a model and prompts of yours"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("model", metavar="MODEL", help="a checkpoint, or a Hub name")
    parser.add_argument(
        "prompts",
        metavar="PROMPTS",
        help="JSONL, a problem and its answer a line; CSV, Parquet, or a Hub data set",
    )
    for field in ("problem", "answer"):
        help = f"the column of the {field}, dotted if it is inside another; default: usual"
        parser.add_argument(f"--{field}", metavar="COLUMN", help=help)
    help = "a built-in reward, or module:function; default: of answers that are numbers"
    parser.add_argument("--reward", metavar="NAME", help=help)
    help = (
        "whether prompts go through the tokenizer's chat template; default: if it has one"
    )
    parser.add_argument("--chat", action=BooleanOptionalAction, help=help)
    help = "tokens of a completion"
    parser.add_argument("--max-tokens", type=max_tokens, metavar="N", help=help)
    help = "the text around a problem: a template's name or a text file with {problem}"
    parser.add_argument("--template", metavar="FILE", help=help)
    parser.add_file("the probe; default: MODEL's name, .yaml")


def execute(arguments: Namespace) -> int:
    """Write the probe."""
    from mse_lab.data.new_probe import Wanted, write_new
    from mse_lab.formatting import wrap

    wanted = Wanted(*(getattr(arguments, name) for name in Wanted._fields))
    for line in write_new(arguments.model, arguments.prompts, arguments.out, ROOT, wanted):
        print(wrap(line, indent=6))
    return 0
