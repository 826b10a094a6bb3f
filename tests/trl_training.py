"""Trainings by TRL's trainers on tiny/base, and what a callback is given in them."""

import contextlib
import io
import json
import warnings
from types import SimpleNamespace

import mse_lab
from models import load_parts
from mse_lab.config.prompt_templates import load_template
from mse_lab.project import PROJECT as ROOT

BASE, SET = ROOT / "probes/tiny/base", ROOT / "probes/prompts/arithmetic-tiny.jsonl"
SEED, LENGTH = 3, 8
# Arguments of a trainer, not of its settings.
KEPT = ("eval_dataset", "peft_config", "processing_class")


# Prompts and answers, as a training set has them.
TEMPLATE = load_template("plain", ROOT)
ROWS = [
    {"prompt": TEMPLATE.format(problem=row["problem"]), "answer": str(row["answer"])}
    for row in map(json.loads, SET.read_text().splitlines()[:12])
]


def right(completions, answer, **columns):
    return [float(one.strip() == it) for one, it in zip(completions, answer, strict=True)]


def spread(completions, **columns):
    """Rewards that differ often."""
    return [sum(map(ord, one)) % 5 / 4 for one in completions]


def make(folder, callbacks=(), reward=right, made=None, rows=ROWS, model=BASE, **changes):
    """Make a trainer of tiny/base for five steps, of TRL's class or of a given one."""
    import trl
    from datasets import Dataset

    made = made or trl.GRPOTrainer
    named = {name: changes.pop(name) for name in KEPT if name in changes}
    config = trl.RLOOConfig if issubclass(made, trl.RLOOTrainer) else trl.GRPOConfig
    values = {
        **{"output_dir": str(folder), "max_steps": 5, "learning_rate": 1e-3},
        **{"per_device_train_batch_size": 8, "num_generations": 2, "seed": SEED},
        **{"max_completion_length": LENGTH, "logging_steps": 1, "use_cpu": True},
        **{"report_to": [], "save_strategy": "no", "disable_tqdm": True},
    }
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        return made(
            model=str(model),
            args=config(**(values | changes)),
            reward_funcs=reward,
            train_dataset=Dataset.from_list(rows),
            callbacks=[*callbacks],
            **named,
        )


def train(folder, callbacks, reward=right, resume=None, **changes):
    """Train tiny/base for five steps; give the trainer and its screen."""
    trainer = make(folder, callbacks, reward, **changes)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as screen:
        warnings.simplefilter("ignore", FutureWarning)
        trainer.train(resume_from_checkpoint=resume)
    return trainer, screen.getvalue()


def load(path=BASE):
    """Give a model and its tokenizer, by the names that a callback gets them under."""
    return dict(zip(("model", "processing_class"), load_parts(path), strict=True))


def advise_apart(model, tokenizer, prompts, reward, **settings):
    """Advise as the callback does: all settings of its trainer, and its own draws."""
    return mse_lab.advise(
        model, tokenizer, prompts, reward, seed=SEED, progress=False, **settings
    )


def settings(**changes):
    """What the callback reads of a trainer's settings."""
    values = {
        **{"num_generations": 4, "num_iterations": 1, "max_completion_length": 4},
        **{"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None},
        **{"repetition_penalty": 1.0, "chat_template_kwargs": None, "seed": SEED},
        **{"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
        **{"world_size": 1, "torch_compile": False, "ddp_timeout": 1800},
        **{"generation_kwargs": None},
    }
    return SimpleNamespace(**(values | changes))


def state(step=0, *, first=True):
    """Where a training is."""
    return SimpleNamespace(
        global_step=step,
        is_world_process_zero=first,
        max_steps=10,
        num_train_epochs=1,
        log_history=[],
    )
