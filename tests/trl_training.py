"""Trainings by TRL's GRPOTrainer on tiny/base, and what a callback is given in them."""

import contextlib
import io
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import transformers

import mse_lab
from mse_lab.probe.prompt_templates import load_template

ROOT = Path(__file__).resolve().parents[1]
BASE, SET = ROOT / "probes/tiny/base", ROOT / "probes/prompts/arithmetic-tiny.jsonl"
SEED, LENGTH = 3, 8


def rows():
    """Prompts and answers, as a training set has them."""
    template = load_template("plain", ROOT)
    lines = SET.read_text().splitlines()[:12]
    for row in map(json.loads, lines):
        yield {"prompt": template.render(row["problem"], []), "answer": str(row["answer"])}


ROWS = list(rows())


def right(completions, answer, **columns):
    return [float(one.strip() == it) for one, it in zip(completions, answer, strict=True)]


def train(folder, callbacks, reward=right, adapter=None, **changes):
    """Train tiny/base, or an adapter on it; give the trainer and its screen."""
    import trl
    from datasets import Dataset

    if adapter:
        import peft

    values = {
        **{"output_dir": str(folder), "max_steps": 5, "learning_rate": 1e-3},
        **{"per_device_train_batch_size": 8, "num_generations": 2, "seed": SEED},
        **{"max_completion_length": LENGTH, "logging_steps": 1, "use_cpu": True},
        **{"report_to": [], "save_strategy": "no", "disable_tqdm": True},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        trainer = trl.GRPOTrainer(
            model=str(BASE),
            args=trl.GRPOConfig(**(values | changes)),
            reward_funcs=reward,
            train_dataset=Dataset.from_list(ROWS),
            callbacks=callbacks,
            peft_config=adapter and peft.LoraConfig(**adapter),
        )
        with contextlib.redirect_stdout(io.StringIO()) as screen:
            trainer.train()
    return trainer, screen.getvalue()


def advise_apart(budget):
    """Advise on tiny/base by completions drawn apart from any training."""
    parts = [one.from_pretrained(BASE) for one in
             (transformers.AutoModelForCausalLM, transformers.AutoTokenizer)]  # fmt: skip
    prompts = [{"id": str(at), "problem": row["prompt"], "answer": row["answer"]}
               for at, row in enumerate(ROWS)]  # fmt: skip
    return mse_lab.advise(
        *parts,
        prompts,
        lambda text, row: float(text.strip() == row["answer"]),
        sampling={"max_new_tokens": LENGTH},
        **{"budget": budget, "seed": SEED, "progress": False},
    )


def settings(**changes):
    """What the callback reads of a trainer's settings."""
    values = {
        **{"num_generations": 4, "num_iterations": 1, "max_completion_length": 4},
        **{"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None},
        **{"repetition_penalty": 1.0, "chat_template_kwargs": None, "seed": SEED},
        **{"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
        **{"world_size": 1, "torch_compile": False, "report_to": []},
        **{"output_dir": "nowhere", "generation_kwargs": None, "use_vllm": False},
        **{"reward_weights": None, "mask_truncated_completions": False},
    }
    return SimpleNamespace(**(values | changes))


def state(step=0, *, first=True):
    """Where a training is."""
    return SimpleNamespace(
        global_step=step, is_world_process_zero=first, max_steps=10, log_history=[]
    )
