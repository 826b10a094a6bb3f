"""Templates: the text around a problem, which stands at `{problem}`.

`plain` and `few-shot` are the templates of arXiv 2603.01162, appendix C, for base and
instruct models and for in-context learning.
"""

from pathlib import Path

from mse_lab.errors import InputError, nearest
from mse_lab.records.plain_text import STARTS, local_path, read_text

PLAIN = "Solve the arithmetic problem. Return ONLY the final integer.\n{problem}"

FEW_SHOT = """\
You are a calculator. Solve the arithmetic problem and return ONLY the final integer.

Examples:
Problem: 15 + 25 =
Answer: 40
Problem: 20 + 30 - 15 =
Answer: 35
Problem: 3 * 4 =
Answer: 12
Problem: 24 / 6 =
Answer: 4
Problem: 25 - (10 + 5) =
Answer: 10

Now solve:
Problem: {problem}"""

_STEPS = "Solve the problem step by step."
_SOLVED = "\n\nProblem: {problem}\nSolution:"

TEMPLATES = {
    "plain": PLAIN,
    "few-shot": FEW_SHOT,
    "word-problem": f"{_STEPS} End with a line that holds #### and the final number."
    + _SOLVED,
    "boxed": rf"{_STEPS} Put the final answer in \boxed{{}}.{_SOLVED}",
    "none": "{problem}",
}


def load_template(name: str, root: Path) -> str:
    """Look up a template by name, or read it from a UTF-8 text file of that path."""
    text = TEMPLATES.get(name)
    path = local_path(name, root) if text is None else None
    if path is not None and path.is_file():
        text = read_text(path)
    if text is None:
        hint = nearest(name, list(TEMPLATES))
        raise InputError(
            f"prompts.template = {name}: neither a template nor a file; {hint} ({STARTS})"
        )
    if "{problem}" not in text:
        raise InputError(f"prompts.template = {name}: the text has no {{problem}}; add it")
    return text
