"""Make the tiny checkpoints: `python -m probes.tiny.train`."""

from pathlib import Path

from mse_lab.config.prompt_templates import FEW_SHOT, PLAIN
from probes.making.family import Family
from probes.making.train import main
from probes.tiny import corpus

FAMILY = Family(
    folder=Path(__file__).parent,
    plain=PLAIN,
    few_shot=FEW_SHOT,
    pretraining=(
        [
            (corpus.draw_exercise, 48),
            (corpus.draw_worksheet, 20),
            (corpus.draw_few_shot, 4),
        ],
        1500,
    ),
    finetuning=([(corpus.draw_plain_turn, 64), (corpus.draw_few_shot_turn, 20)], 2200),
    draw_solved=corpus.draw_solved,
)

if __name__ == "__main__":
    main(FAMILY)
