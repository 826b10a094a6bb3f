"""Make the checkpoints of a family: pretraining on documents, fine-tuning on chat turns.

`base` is a Qwen2 of 262,000 parameters pretrained on the family's documents, `instruct` is
`base` fine-tuned on its question-and-answer turns. How often they are right, `run` says.
"""

import argparse
import time
from functools import partial

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from probes.making.checkpoints import build_model, fit, save
from probes.making.family import Family, wrap_turn
from probes.making.words import build_tokenizer, check_round_trip

# Largest learning rates.
PRETRAIN_PEAK, FINETUNE_PEAK = 4e-3, 2e-3


def check_tokenizer(
    family: Family, tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator
) -> None:
    """Check the round trip of 1,000 problems in both templates, as text and as chat."""
    for _ in range(1000):
        problem, solved = family.draw_solved(rng)
        for template in (family.plain, family.few_shot):
            text = template.format(problem=problem)
            check_round_trip(tokenizer, text + solved)
            check_round_trip(tokenizer, wrap_turn(tokenizer, text) + solved.strip())


def make(family: Family, seed: int) -> None:
    """Make and save both checkpoints.

    Args:
        family: Whose checkpoints.
        seed: Fixes the initial weights and every training text.
    """
    check_rng, pretrain_rng, finetune_rng = np.random.default_rng(seed).spawn(3)
    tokenizer = build_tokenizer(family.words)
    check_tokenizer(family, tokenizer, check_rng)
    model = build_model(tokenizer, torch.Generator().manual_seed(seed))
    mixture, steps = family.pretraining
    fit(model, tokenizer, mixture, steps, PRETRAIN_PEAK, pretrain_rng, "pretrain")
    save(model, tokenizer, family.folder / "base")
    chat = partial(wrap_turn, tokenizer)
    turns, steps = family.finetuning
    mixture = [(partial(draw, chat), count) for draw, count in turns]
    fit(model, tokenizer, mixture, steps, FINETUNE_PEAK, finetune_rng, "fine-tune")
    save(model, tokenizer, family.folder / "instruct")


def main(family: Family) -> None:
    """Make the checkpoints from the command line."""
    parser = argparse.ArgumentParser(description="Make a family's checkpoints.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    disable_progress_bar()  # the library's own bars; every phase has one of ours
    start = time.perf_counter()
    make(family, arguments.seed)
    print(f"trained in {time.perf_counter() - start:.0f} s")
