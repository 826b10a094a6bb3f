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

    given = {"problem": arguments.problem, "answer": arguments.answer}
    wanted = Wanted(
        fields={field: column for field, column in given.items() if column is not None},
        reward=arguments.reward,
        chat=arguments.chat,
        max_tokens=arguments.max_tokens,
        template=arguments.template,
    )
    said = write_new(arguments.model, arguments.prompts, arguments.out, ROOT, wanted)
    for line in said.splitlines():
        print(wrap(line, indent=6))
    return 0
