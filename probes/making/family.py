"""A family: a base and an instruct checkpoint, measured in the paper's configurations."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase


class Example(NamedTuple):
    """A training text; only `target` counts in the loss."""

    context: str
    target: str


Draw = Callable[[np.random.Generator], Example]

# Text of a user's turn -> the chat up to the start of the answer.
Chat = Callable[[str], str]
DrawTurn = Callable[[Chat, np.random.Generator], Example]


class Family(NamedTuple):
    """How the two checkpoints of a family are made.

    Attributes:
        folder: Where they lie.
        plain: Template of the base and instruct configurations.
        few_shot: Template of in-context learning.
        pretraining: What a step draws, kinds of text and how many of each; and
            the number of steps, over which the learning rate rises and falls.
        finetuning: The same, of the chat's turns.
        draw_solved: Draws a problem and its answer as it is written, for a check.
    """

    folder: Path
    plain: str
    few_shot: str
    pretraining: tuple[list[tuple[Draw, int]], int]
    finetuning: tuple[list[tuple[DrawTurn, int]], int]
    draw_solved: Callable[[np.random.Generator], tuple[str, str]]

    @property
    def words(self) -> str:
        """All that its prompts say beside the problems."""
        return f"{self.plain}\n{self.few_shot}".replace("{problem}", "")


def wrap_turn(tokenizer: PreTrainedTokenizerBase, content: str) -> str:
    """Return the chat with one user's turn, up to where the answer begins."""
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
