"""Make the tiny checkpoints: `python probes/tiny/train.py` writes `base` and `instruct`.

`base` is a Qwen2 of 262,000 parameters pretrained on arithmetic documents,
`instruct` is `base` fine-tuned on question-and-answer turns (see corpus.py). Then, or
alone with `--score-only`, their accuracy on the 60 tiny prompts is measured.
"""

import argparse
import time
from functools import partial

import numpy as np
import torch
from tqdm import tqdm
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

from corpus import (
    TINY,
    Draw,
    Example,
    draw_exercise,
    draw_few_shot,
    draw_few_shot_turn,
    draw_plain_turn,
    draw_problem,
    draw_worksheet,
)
from mse_lab.probe.prompt_templates import FEW_SHOT, PLAIN
from score import HERE, print_scores, wrap_turn
from words import END_OF_TEXT, TURN_END, build_tokenizer, check_round_trip

PRETRAIN_STEPS = 1500
FINETUNE_STEPS = 2200


def build_model(
    tokenizer: PreTrainedTokenizerBase, generator: torch.Generator
) -> Qwen2ForCausalLM:
    """Build the untrained model, its matrices drawn from N(0, 1/hidden)."""
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=80,
            intermediate_size=240,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=80**-0.5, generator=generator)
    ends = tokenizer.convert_tokens_to_ids([TURN_END, END_OF_TEXT])
    model.generation_config = GenerationConfig(
        eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )
    return model


def collate(
    tokenizer: PreTrainedTokenizerBase, examples: list[Example]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokenize examples into one right-padded batch.

    Returns:
        Token ids, and labels that are -100 wherever the loss must not look.
    """
    contexts = tokenizer([e.context for e in examples], add_special_tokens=False).input_ids
    targets = tokenizer([e.target for e in examples], add_special_tokens=False).input_ids
    width = max(len(c) + len(t) for c, t in zip(contexts, targets, strict=True))
    tokens = torch.full((len(examples), width), tokenizer.pad_token_id)
    labels = torch.full((len(examples), width), -100)
    for row, (context, target) in enumerate(zip(contexts, targets, strict=True)):
        start, end = len(context), len(context) + len(target)
        tokens[row, :end] = torch.tensor(context + target)
        labels[row, start:end] = torch.tensor(target)
    return tokens, labels


def fit(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    mixture: list[tuple[Draw, int]],
    steps: int,
    peak: float,
    rng: np.random.Generator,
    name: str,
) -> None:
    """Train with AdamW, the learning rate warming up and then falling to 0.

    Args:
        model: Trained in place.
        tokenizer: Its tokenizer.
        mixture: What a step draws: kinds of example and how many of each. A step's
            loss is the sum of the kinds' mean losses per token.
        steps: Number of steps.
        peak: Largest learning rate.
        rng: Source of the examples.
        name: Label of the progress bar.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=peak, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    model.train()
    bar = tqdm(range(steps), desc=name, unit="step")
    for _ in bar:
        losses = []
        for draw, count in mixture:
            tokens, labels = collate(tokenizer, [draw(rng) for _ in range(count)])
            loss = model(tokens, labels=labels).loss
            loss.backward()
            losses.append(f"{loss.item():.3f}")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        bar.set_postfix_str(" ".join(losses), refresh=False)


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Write a checkpoint beside this script."""
    model.eval().save_pretrained(HERE / name)
    tokenizer.save_pretrained(HERE / name)


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator) -> None:
    """Check the round trip of 1,000 problems in both templates, as text and as chat."""
    for _ in range(1000):
        problem = draw_problem(TINY, rng)
        for template in (PLAIN, FEW_SHOT):
            text = template.format(problem=problem.problem)
            check_round_trip(tokenizer, f"{text} {problem.answer}")
            check_round_trip(tokenizer, wrap_turn(tokenizer, text) + str(problem.answer))


def train(seed: int) -> None:
    """Make and save both checkpoints.

    Args:
        seed: Fixes the initial weights and every training text.
    """
    check_rng, pretrain_rng, finetune_rng = np.random.default_rng(seed).spawn(3)
    tokenizer = build_tokenizer()
    check_tokenizer(tokenizer, check_rng)
    model = build_model(tokenizer, torch.Generator().manual_seed(seed))
    documents: list[tuple[Draw, int]] = [
        (draw_exercise, 48),
        (draw_worksheet, 20),
        (draw_few_shot, 4),
    ]
    fit(model, tokenizer, documents, PRETRAIN_STEPS, 4e-3, pretrain_rng, "pretrain")
    save(model, tokenizer, "base")
    chat = partial(wrap_turn, tokenizer)
    turns: list[tuple[Draw, int]] = [
        (partial(draw_plain_turn, chat), 64),
        (partial(draw_few_shot_turn, chat), 20),
    ]
    fit(model, tokenizer, turns, FINETUNE_STEPS, 2e-3, finetune_rng, "fine-tune")
    save(model, tokenizer, "instruct")


def main() -> None:
    """Train unless told not to, then score."""
    parser = argparse.ArgumentParser(description="Make and score the tiny checkpoints.")
    parser.add_argument("--score-only", action="store_true", help="score what is there")
    parser.add_argument("--samples", type=int, default=1024, help="completions a prompt")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    disable_progress_bar()  # the library's own bars; every phase has one of ours
    start = time.perf_counter()
    if not arguments.score_only:
        train(arguments.seed)
        print(f"trained in {time.perf_counter() - start:.0f} s")
    print_scores(arguments.samples, arguments.seed)


if __name__ == "__main__":
    main()
