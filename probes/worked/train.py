"""Make and score checkpoints that write their working: `python -m probes.worked.train`."""

from pathlib import Path

from probes.making.family import Draw, DrawTurn, Family
from probes.making.train import main
from probes.worked import corpus


def documents(exercises: int, worksheets: int, few_shot: int) -> list[tuple[Draw, int]]:
    """What a step of pretraining draws."""
    return [
        (corpus.draw_exercise, exercises),
        (corpus.draw_worksheet, worksheets),
        (corpus.draw_few_shot, few_shot),
    ]


TURNS: list[tuple[DrawTurn, int]] = [
    (corpus.draw_plain_turn, 22),
    (corpus.draw_few_shot_turn, 8),
]

FAMILY = Family(
    folder=Path(__file__).parent,
    plain=corpus.PLAIN,
    few_shot=corpus.FEW_SHOT,
    prompts="arithmetic-worked",
    max_new_tokens=40,
    pretraining=[(documents(24, 6, 2), 2000)],
    finetuning=[(TURNS, 800)],
    draw_solved=corpus.draw_solved,
)

if __name__ == "__main__":
    main(FAMILY)
