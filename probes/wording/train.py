"""Make checkpoints with random words before the answer: `python -m probes.wording.train`.

The dials' sums of two digits (`probes.dials.sums`): after so many words, each one of 8 at
random, stands the sum, which alone decides the reward. A folder for each checkpoint, and
the problems: 60 to train on, 40 held out, all of those that there are.
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig, Qwen2ForCausalLM

from probes.dials import dials, sums
from probes.dials.sums import Corpus

HERE = Path(__file__).parent
CHECKPOINTS = {
    "two": Corpus(words=2, ahead=True),
    "six": Corpus(words=6, ahead=True),
    "twenty-four": Corpus(words=24, ahead=True),
}
HIDDEN, UPDATES, SEED = 64, 800, 0
TRAINED, HELD_OUT = 60, 40


def lines_of_problems() -> dict[str, str]:
    """Draw the problems in random order, and write both sets as JSON lines."""
    rng = np.random.default_rng(SEED)
    drawn = sums.draw_prompts(Corpus(), TRAINED + HELD_OUT, rng)
    lines = [
        json.dumps({key: one[key] for key in ("id", "problem")} | {"answer": answer}) + "\n"
        for one in drawn
        for answer in one["answers"]
    ]
    return {"problems": "".join(lines[:TRAINED]), "held-out": "".join(lines[TRAINED:])}


def build(corpus: Corpus, updates: int = UPDATES) -> Qwen2ForCausalLM:
    """Train a checkpoint on texts of a corpus."""
    *_, model = dials.train(corpus, SEED, updates, HIDDEN)
    ends = {"eos_token_id": model.config.eos_token_id}
    model.generation_config = GenerationConfig(
        pad_token_id=model.config.pad_token_id, **ends
    )
    return model.eval()


def main() -> None:
    """Write the problems and every checkpoint that is missing."""
    torch.set_num_threads(1)
    for name, lines in lines_of_problems().items():
        (HERE / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    for name, corpus in CHECKPOINTS.items():
        if not (HERE / name / "model.safetensors").exists():
            build(corpus).save_pretrained(HERE / name)
            sums.build_tokenizer().save_pretrained(HERE / name)


if __name__ == "__main__":
    main()
