"""How often the checkpoints of a family answer right: samples of each of its prompts."""

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

from mse_lab.data.rewards import integer
from probes.making.family import Family, wrap_turn

PROMPTS = Path(__file__).parents[1] / "prompts"


class Configuration(NamedTuple):
    """A checkpoint, and how its prompts are put: with examples, as a chat's turn."""

    checkpoint: str
    few_shot: bool
    chat: bool


CONFIGURATIONS = {
    "base": Configuration("base", few_shot=False, chat=False),
    "instruct": Configuration("instruct", few_shot=False, chat=True),
    "icl": Configuration("instruct", few_shot=True, chat=True),
}


class Score(NamedTuple):
    """Samples of one prompt: share right, share without an end token, mean length."""

    value: float
    truncated: float
    length: float


@torch.inference_mode()
def draw_completions(
    model: PreTrainedModel,
    prompt: list[int],
    shape: tuple[int, int],
    generator: torch.Generator,
) -> torch.Tensor:
    """Draw completions at temperature 1, not yet cut at their end tokens.

    Args:
        model: The language model.
        prompt: Token ids of the prompt.
        shape: Number of completions, and of the tokens of each.
        generator: Source of randomness.

    Returns:
        Token ids of that shape.
    """
    samples, length = shape
    output = model(torch.tensor([prompt]), use_cache=True)
    cache = output.past_key_values
    cache.batch_repeat_interleave(samples)
    logits = output.logits[:, -1].expand(samples, -1)
    drawn = []
    for _ in range(length):
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
    shape: tuple[int, int],
    generator: torch.Generator,
) -> Score:
    """Estimate the value of one prompt, its share of cut completions, their length."""
    prompt = tokenizer.encode(text, add_special_tokens=False)
    drawn = draw_completions(model, prompt, shape, generator).tolist()
    kept = [_cut(tokens, model.generation_config.eos_token_id) for tokens in drawn]
    texts = tokenizer.batch_decode(kept, skip_special_tokens=True)
    samples, longest = shape
    return Score(
        value=sum(integer(text, record) for text in texts) / samples,
        truncated=sum(len(tokens) == longest for tokens in kept) / samples,
        length=sum(map(len, kept)) / samples,
    )


def score_configuration(
    family: Family, name: str, samples: int, generator: torch.Generator
) -> list[Score]:
    """Score every prompt in one configuration.

    Args:
        family: Its checkpoints are scored.
        name: Key of `CONFIGURATIONS`.
        samples: Completions a prompt.
        generator: Source of randomness.

    Returns:
        The prompts' scores, in the order of their file.
    """
    checkpoint, few_shot, chat = CONFIGURATIONS[name]
    template = family.few_shot if few_shot else family.plain
    tokenizer = AutoTokenizer.from_pretrained(family.folder / checkpoint)
    model = AutoModelForCausalLM.from_pretrained(family.folder / checkpoint).eval()
    lines = (PROMPTS / f"{family.prompts}.jsonl").read_text("utf-8").splitlines()
    records, shape = [json.loads(line) for line in lines], (samples, family.max_new_tokens)
    scores = []
    for record in tqdm(records, desc=f"score {name}", unit="prompt"):
        text = template.format(problem=record["problem"])
        text = wrap_turn(tokenizer, text) if chat else text
        scores.append(score_prompt(model, tokenizer, text, record, shape, generator))
    return scores


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return sum(listed) / len(listed)


def print_scores(family: Family, samples: int, seed: int) -> None:
    """Print, as a Markdown table, the scores of the three configurations."""
    generator = torch.Generator().manual_seed(seed)
    rows = ["| configuration | accuracy | 0 < V < 1 | 0.05 < V < 0.95 | cut | length |"]
    rows.append("|---|---|---|---|---|---|")
    for name in CONFIGURATIONS:
        scores = score_configuration(family, name, samples, generator)
        strict = _mean(0 < score.value < 1 for score in scores)
        inner = _mean(0.05 < score.value < 0.95 for score in scores)
        rows.append(
            f"| {name} | {_mean(s.value for s in scores):.3f} | {strict:.0%} | {inner:.0%} "
            f"| {_mean(s.truncated for s in scores):.1%} "
            f"| {_mean(s.length for s in scores):.2f} |"
        )
    print("\n".join(rows))
