"""What the tiny checkpoints are trained on: documents, then question-and-answer turns.

Every answer has an author, careful or careless, who errs at a rate of their own. A
worksheet is long enough to show its author, and a few-shot prompt is always a careful
author's; a plain question shows nothing. So right answers in the context make a right
answer more likely, and a model that fits this text gains from few-shot examples.
"""

import numpy as np

from mse_lab.config.prompt_templates import FEW_SHOT, PLAIN
from probes.making.family import Chat, Example
from probes.making.words import END_OF_TEXT, TURN_END
from probes.prompts.arithmetic import Problem, draw_problem
from probes.prompts.steps import TINY

CAREFUL = 0.04
CARELESS = 0.5


def _draw_error_rate(rng: np.random.Generator) -> float:
    return CAREFUL if rng.random() < 0.5 else CARELESS


def _draw_answer(problem: Problem, error_rate: float, rng: np.random.Generator) -> int:
    """Return the right answer, or at rate `error_rate` one that is off by 1 or 2."""
    if rng.random() >= error_rate:
        return problem.answer
    return problem.answer + int(rng.choice([-2, -1, 1, 2]))


def _draw_pair(error_rate: float, rng: np.random.Generator) -> str:
    problem = draw_problem(TINY, rng)
    answer = _draw_answer(problem, error_rate, rng)
    return f"Problem: {problem.problem}\nAnswer: {answer}"


def draw_worksheet(rng: np.random.Generator) -> Example:
    """Draw seven answered problems by one author."""
    error_rate = _draw_error_rate(rng)
    pairs = [_draw_pair(error_rate, rng) for _ in range(7)]
    return Example("", "\n".join(pairs) + END_OF_TEXT)


def draw_few_shot(rng: np.random.Generator) -> Example:
    """Draw the few-shot prompt with a careful author's answer."""
    problem = draw_problem(TINY, rng)
    answer = _draw_answer(problem, CAREFUL, rng)
    return Example(
        "", f"{FEW_SHOT.format(problem=problem.problem)}\nAnswer: {answer}{END_OF_TEXT}"
    )


def draw_exercise(rng: np.random.Generator) -> Example:
    """Draw a plain prompt, followed by an answer or merely by another problem."""
    problem = draw_problem(TINY, rng)
    text = PLAIN.format(problem=problem.problem)
    if rng.random() < 0.2:
        return Example("", f"{text}\n{draw_problem(TINY, rng).problem}{END_OF_TEXT}")
    answer = _draw_answer(problem, _draw_error_rate(rng), rng)
    form = " {}" if rng.random() < 0.7 else "\nAnswer: {}"
    return Example("", text + form.format(answer) + END_OF_TEXT)


def draw_plain_turn(chat: Chat, rng: np.random.Generator) -> Example:
    """Draw a plain question of a chat and its answer, in one of three forms.

    The whole equation is a form for two operands only: more would not fit in the
    eight tokens that a completion may have.

    Args:
        chat: Text of a user's turn -> the chat up to the start of the answer.
        rng: Source of randomness.
    """
    problem = draw_problem(TINY, rng)
    answer = _draw_answer(problem, _draw_error_rate(rng), rng)
    equation = problem.problem + " {}" if len(problem.problem) < 9 else "Answer: {}"
    form = str(rng.choice(["{}", "Answer: {}", equation], p=[0.6, 0.2, 0.2]))
    return Example(
        chat(PLAIN.format(problem=problem.problem)), form.format(answer) + TURN_END
    )


def draw_few_shot_turn(chat: Chat, rng: np.random.Generator) -> Example:
    """Draw a few-shot question of a chat and a careful author's answer."""
    problem = draw_problem(TINY, rng)
    answer = _draw_answer(problem, CAREFUL, rng)
    form = "{}" if rng.random() < 0.5 else "Answer: {}"
    return Example(
        chat(FEW_SHOT.format(problem=problem.problem)), form.format(answer) + TURN_END
    )


def draw_solved(rng: np.random.Generator) -> tuple[str, str]:
    """Draw a problem and its answer."""
    problem = draw_problem(TINY, rng)
    return problem.problem, f" {problem.answer}"
