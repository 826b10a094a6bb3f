"""Templates: the text around a problem, with a place for demonstrations.

`plain` and `few-shot` are those of arXiv 2603.01162, appendix C, for the base and instruct
models and for in-context learning; the demonstrations of `few-shot` are part of it.

Every template holds `{problem}`. The part between `{shots}` and `{/shots}`, if there is
one, is written once for each demonstration, with `{problem}` and `{answer}` of it, and
vanishes without demonstrations.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, nearest
from mse_lab.probe.plain_text import read_text
from mse_lab.probe.schema import local_path

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

WORD_PROBLEM = """\
Solve the problem step by step. End with a line that holds #### and the final number.

{shots}
Problem: {problem}
Solution: {answer}

{/shots}
Problem: {problem}
Solution:"""

BOXED = r"""
Solve the problem step by step. Put the final answer in \boxed{}.

{shots}
Problem: {problem}
Solution: {answer}

{/shots}
Problem: {problem}
Solution:""".lstrip()

TEMPLATES = {
    "plain": PLAIN,
    "few-shot": FEW_SHOT,
    "word-problem": WORD_PROBLEM,
    "boxed": BOXED,
    "none": "{problem}",
}

# The line break after a mark belongs to the mark.
_SHOTS = re.compile(r"\{shots\}\n?(.*?)\{/shots\}\n?", re.DOTALL)


def _fill(text: str, values: Mapping[str, Any]) -> str:
    """Put values in their places, all at once: a problem may itself hold `{problem}`."""
    places = re.compile("|".join(re.escape(f"{{{key}}}") for key in values))
    return places.sub(lambda place: str(values[place[0][1:-1]]), text)


@dataclass(frozen=True)
class Template:
    """A template, taken apart.

    Attributes:
        before: The text up to the demonstrations.
        shot: The text of a demonstration; empty where the template has no place for any.
        after: The text behind them; holds `{problem}` if `before` does not.
    """

    before: str
    shot: str
    after: str

    def render(self, problem: str, shots: Sequence[Mapping[str, Any]] = ()) -> str:
        """Write what a model is shown.

        Args:
            problem: The problem.
            shots: Demonstrations, each with `problem` and `answer`.

        Returns:
            The text, before any chat template.
        """
        shown = [
            _fill(self.shot, {"problem": shot["problem"], "answer": shot["answer"]})
            for shot in shots
        ]
        before, after = (
            _fill(text, {"problem": problem}) for text in (self.before, self.after)
        )
        return "".join([before, *shown, after])


def parse_template(text: str, name: str) -> Template:
    """Take a template apart.

    Args:
        text: The template.
        name: Its name, for messages.

    Raises:
        InputError: It has no `{problem}`, or its place for demonstrations is broken.
    """
    before, shot, after = text, "", ""
    parts = _SHOTS.split(text)
    if len(parts) == 3:
        before, shot, after = parts
    if len(parts) > 3 or "{shots}" in before + after or "{/shots}" in before + after:
        raise InputError(
            f"prompts.template = {name}: {{shots}} and {{/shots}} must stand once each, in "
            "this order"
        )
    if "{problem}" not in before + after:
        raise InputError(f"prompts.template = {name}: the text has no {{problem}}; add it")
    if shot and not ("{problem}" in shot and "{answer}" in shot):
        raise InputError(
            f"prompts.template = {name}: a demonstration needs {{problem}} and {{answer}}; "
            "add them between {shots} and {/shots}"
        )
    return Template(before, shot, after)


def load_template(name: str, root: Path) -> Template:
    """Look up a template by name, or read it from a text file.

    Args:
        name: The name, or the path of a UTF-8 text file.
        root: Folder that relative paths may start from, beside the working folder.

    Raises:
        InputError: There is no such template, or it cannot be used.
    """
    if name in TEMPLATES:
        return parse_template(TEMPLATES[name], name)
    path = local_path(name, root)
    if path is None or not path.is_file():
        hint = nearest(name, list(TEMPLATES))
        raise InputError(
            f"prompts.template = {name}: neither a template nor a file; {hint}"
        )
    return parse_template(read_text(path), name)
