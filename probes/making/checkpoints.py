"""The small checkpoints: a Qwen2 of 262,000 parameters, and how it is fitted to texts."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from probes.making.family import Draw, Example
from probes.making.words import END_OF_TEXT, TURN_END


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
    tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example]
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
    mixture: Sequence[tuple[Draw, int]],
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


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a checkpoint."""
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
