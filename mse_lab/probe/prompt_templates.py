"""Templates: the text around a problem, and optionally around demonstrations.

`plain` and `few-shot` are the templates of arXiv 2603.01162, appendix C, for base and
instruct models and for in-context learning. `few-shot` has demonstrations of its own.

Every template has a `{problem}`. An optional part between `{shots}` and `{/shots}` is
repeated for each demonstration, with the demonstration's `{problem}` and `{answer}`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, nearest
from mse_lab.probe.plain_text import STARTS, local_path, read_text

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

_SOLVED = """

{shots}
Problem: {problem}
Solution: {answer}

{/shots}
Problem: {problem}
Solution:"""

_STEPS = "Solve the problem step by step."

TEMPLATES = {
    "plain": PLAIN,
    "few-shot": FEW_SHOT,
    "word-problem": f"{_STEPS} End with a line that holds #### and the final number."
    + _SOLVED,
    "boxed": rf"{_STEPS} Put the final answer in \boxed{{}}.{_SOLVED}",
    "none": "{problem}",
}

# The line break after a mark belongs to the mark.
_SHOTS = re.compile(r"\{shots\}\n?(.*?)\{/shots\}\n?", re.DOTALL)


def _fill(text: str, values: Mapping[str, Any]) -> str:
    """Insert values, all at once: a problem may itself contain `{problem}`."""
    return re.sub(r"\{(problem|answer)\}", lambda m: str(values.get(m[1], m[0])), text)


@dataclass(frozen=True)
class Template:
    """The parts of a template; `shot` is empty if it has no part for demonstrations."""

    before: str
    shot: str
    after: str

    def render(self, problem: str, shots: Sequence[Mapping[str, Any]] = ()) -> str:
        """Render a prompt's text; demonstrations have a `problem` and an `answer`."""
        values = {"problem": problem}
        shown = [_fill(self.shot, shot) for shot in shots]
        return "".join([_fill(self.before, values), *shown, _fill(self.after, values)])


def parse_template(text: str, name: str) -> Template:
    """Split a template into its parts; `name` is for messages."""
    parts = _SHOTS.split(text)
    before, shot, after = parts if len(parts) == 3 else (text, "", "")
    fault, around = "", before + after
    if len(parts) > 3 or "{shots}" in around or "{/shots}" in around:
        fault = "{shots} and {/shots} must occur once each, in this order"
    elif "{problem}" not in around:
        fault = "the text has no {problem}; add it"
    elif shot and not ("{problem}" in shot and "{answer}" in shot):
        fault = (
            "a demonstration needs {problem} and {answer}; "
            "add them between {shots} and {/shots}"
        )
    if fault:
        raise InputError(f"prompts.template = {name}: {fault}")
    return Template(before, shot, after)


def load_template(name: str, root: Path) -> Template:
    """Look up a template by name, or read it from a UTF-8 text file of that path."""
    if name in TEMPLATES:
        return parse_template(TEMPLATES[name], name)
    path = local_path(name, root)
    if path is None or not path.is_file():
        hint = nearest(name, list(TEMPLATES))
        raise InputError(
            f"prompts.template = {name}: neither a template nor a file; {hint} ({STARTS})"
        )
    return parse_template(read_text(path), name)
