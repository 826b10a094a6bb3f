"""Make checkpoints that write their working: `python -m probes.worked.train`."""

from pathlib import Path

from probes.making.family import Family
from probes.making.train import main
from probes.worked import corpus

FAMILY = Family(
    folder=Path(__file__).parent,
    plain=corpus.PLAIN,
    few_shot=corpus.FEW_SHOT,
    pretraining=(
        [
            (corpus.draw_exercise, 24),
            (corpus.draw_worksheet, 6),
            (corpus.draw_few_shot, 2),
        ],
        2000,
    ),
    finetuning=([(corpus.draw_plain_turn, 22), (corpus.draw_few_shot_turn, 8)], 800),
    draw_solved=corpus.draw_solved,
)

if __name__ == "__main__":
    main(FAMILY)
