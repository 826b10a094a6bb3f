"""How often the tiny checkpoints answer right: samples of each of the 60 prompts."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from mse_lab.probe.prompt_templates import FEW_SHOT, PLAIN
from mse_lab.probe.rewards import integer

HERE = Path(__file__).parent
PROMPTS = HERE.parent / "prompts" / "arithmetic-tiny.jsonl"
MAX_NEW_TOKENS = 8


class Configuration(NamedTuple):
    """A checkpoint, the template of its prompts and whether they are a chat's turn."""

    checkpoint: str
    template: str
    chat: bool


CONFIGURATIONS = {
    "base": Configuration("base", PLAIN, chat=False),
    "instruct": Configuration("instruct", PLAIN, chat=True),
    "icl": Configuration("instruct", FEW_SHOT, chat=True),
}


class Score(NamedTuple):
    """Samples of one prompt: share right, share without an end token, mean length."""

    value: float
    truncated: float
    length: float


def wrap_turn(tokenizer: PreTrainedTokenizerBase, content: str) -> str:
    """Return the chat with one user's turn, up to where the answer begins."""
    return tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )


@torch.inference_mode()
def draw_completions(
    model: PreTrainedModel, prompt: list[int], samples: int, generator: torch.Generator
) -> torch.Tensor:
    """Draw completions at temperature 1, not yet cut at their end tokens.

    Args:
        model: The language model.
        prompt: Token ids of the prompt.
        samples: Number of completions.
        generator: Source of randomness.

    Returns:
        Token ids, shape (samples, MAX_NEW_TOKENS).
    """
    output = model(torch.tensor([prompt]), use_cache=True)
    cache = output.past_key_values
    cache.batch_repeat_interleave(samples)
    logits = output.logits[:, -1].expand(samples, -1)
    drawn = []
    for _ in range(MAX_NEW_TOKENS):
        drawn.append(torch.multinomial(logits.softmax(-1), 1, generator=generator))
        output = model(drawn[-1], past_key_values=cache, use_cache=True)
        logits = output.logits[:, -1]
    return torch.cat(drawn, dim=1)


def _cut(tokens: list[int], ends: list[int]) -> list[int]:
    """Return the tokens before the first end token."""
    return next((tokens[:i] for i, token in enumerate(tokens) if token in ends), tokens)


def score_prompt(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    record: dict[str, object],
    samples: int,
    generator: torch.Generator,
) -> Score:
    """Estimate the value of one prompt, its share of cut completions, their length."""
    prompt = tokenizer.encode(text, add_special_tokens=False)
    drawn = draw_completions(model, prompt, samples, generator).tolist()
    kept = [_cut(tokens, model.generation_config.eos_token_id) for tokens in drawn]
    texts = tokenizer.batch_decode(kept, skip_special_tokens=True)
    return Score(
        value=sum(integer(text, record) for text in texts) / samples,
        truncated=sum(len(tokens) == MAX_NEW_TOKENS for tokens in kept) / samples,
        length=sum(map(len, kept)) / samples,
    )


def score_configuration(
    name: str, samples: int, generator: torch.Generator
) -> tuple[list[dict[str, object]], list[Score]]:
    """Score every prompt in one configuration.

    Args:
        name: Key of `CONFIGURATIONS`.
        samples: Completions a prompt.
        generator: Source of randomness.

    Returns:
        The prompts' records and their scores, in the same order.
    """
    checkpoint, template, chat = CONFIGURATIONS[name]
    tokenizer = AutoTokenizer.from_pretrained(HERE / checkpoint)
    model = AutoModelForCausalLM.from_pretrained(HERE / checkpoint).eval()
    records = [json.loads(line) for line in PROMPTS.read_text("utf-8").splitlines()]
    scores = []
    for record in tqdm(records, desc=f"score {name}", unit="prompt"):
        text = template.format(problem=record["problem"])
        text = wrap_turn(tokenizer, text) if chat else text
        scores.append(score_prompt(model, tokenizer, text, record, samples, generator))
    return records, scores


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed)


def print_scores(samples: int, seed: int) -> None:
    """Print, as a Markdown table, the scores of the three configurations."""
    generator = torch.Generator().manual_seed(seed)
    rows = ["| configuration | accuracy | 0 < V < 1 | 0.05 < V < 0.95 | cut | length |"]
    rows.append("|---|---|---|---|---|---|")
    for name in CONFIGURATIONS:
        _, scores = score_configuration(name, samples, generator)
        strict = _mean(0 < score.value < 1 for score in scores)
        inner = _mean(0.05 < score.value < 0.95 for score in scores)
        rows.append(
            f"| {name} | {_mean(s.value for s in scores):.3f} | {strict:.0%} | {inner:.0%} "
            f"| {_mean(s.truncated for s in scores):.1%} "
            f"| {_mean(s.length for s in scores):.2f} |"
        )
    print("\n".join(rows))
