"""What the checkpoints that write their working are trained on.

As for the tiny ones an author is careful or careless, a worksheet is long enough to show
which, and a few-shot prompt is always a careful author's. Here an author slips in *steps*,
and carries the wrong number on: the working decides the reward.
"""

from pathlib import Path

import numpy as np

from probes.making.family import Chat, Example
from probes.making.words import END_OF_TEXT, TURN_END
from probes.prompts.arithmetic import WORKED, draw_expression
from probes.prompts.steps import TINY, Operation, Slip, work_out, write

HERE = Path(__file__).parent
PLAIN, FEW_SHOT = (
    (HERE / f"{name}.txt").read_text(encoding="utf-8") for name in ("plain", "few-shot")
)

# Share of the steps in which an author slips.
CAREFUL = 0.05
CARELESS = 0.35


def _draw_author(rng: np.random.Generator) -> Slip:
    return author(CAREFUL if rng.random() < 0.5 else CARELESS, rng)


def author(slip_rate: float, rng: np.random.Generator) -> Slip:
    """Return who is off by 1 or 2 in a step at this rate."""
    return lambda: int(rng.choice([-2, -1, 1, 2])) if rng.random() < slip_rate else 0


def _draw(rng: np.random.Generator) -> Operation:
    return draw_expression(TINY, rng, WORKED)[0]


def _ask(template: str, expression: Operation) -> str:
    return template.format(problem=f"{write(expression)} =")


def draw_worksheet(rng: np.random.Generator) -> Example:
    """Draw four solved problems by one author."""
    slip, drawn = _draw_author(rng), (_draw(rng) for _ in range(4))
    lines = [f"{write(one)} =\n{work_out(one, slip)}" for one in drawn]
    return Example("", "\n".join(lines) + END_OF_TEXT)


def draw_few_shot(rng: np.random.Generator) -> Example:
    """Draw the few-shot prompt with a careful author's working."""
    one = _draw(rng)
    solved = work_out(one, author(CAREFUL, rng))
    return Example("", _ask(FEW_SHOT, one) + solved + END_OF_TEXT)


def draw_exercise(rng: np.random.Generator) -> Example:
    """Draw a plain prompt, followed by a working or merely by another problem."""
    one = _draw(rng)
    text = _ask(PLAIN, one)
    if rng.random() < 0.2:
        return Example("", f"{text}{write(_draw(rng))} ={END_OF_TEXT}")
    return Example("", text + work_out(one, _draw_author(rng)) + END_OF_TEXT)


def draw_plain_turn(chat: Chat, rng: np.random.Generator) -> Example:
    """Draw a plain question of a chat and its working.

    Args:
        chat: Text of a user's turn -> the chat up to the start of the answer.
        rng: Source of randomness.
    """
    one = _draw(rng)
    return Example(chat(_ask(PLAIN, one)), work_out(one, _draw_author(rng)) + TURN_END)


def draw_few_shot_turn(chat: Chat, rng: np.random.Generator) -> Example:
    """Draw a few-shot question of a chat and a careful author's working."""
    one = _draw(rng)
    solved = work_out(one, author(CAREFUL, rng))
    return Example(chat(_ask(FEW_SHOT, one)), solved + TURN_END)


def draw_solved(rng: np.random.Generator) -> tuple[str, str]:
    """Draw a problem and its working."""
    one = _draw(rng)
    return f"{write(one)} =", work_out(one)
