"""Rollouts that TRL itself has written: a short run on the tiny checkpoint."""

import contextlib
import io
import json
import warnings
from pathlib import Path

from mse_lab.config.prompt_templates import TEMPLATES

ROOT = Path(__file__).resolve().parents[1]
BASE = ROOT / "probes" / "tiny" / "base"
PROMPTS = ROOT / "probes" / "prompts" / "arithmetic-tiny.jsonl"


def plain_problems(count):
    """The first problems as the probe tiny/base shows them to its model."""
    rows = [json.loads(line) for line in PROMPTS.read_text().splitlines()][:count]
    return [
        {
            "prompt": TEMPLATES["plain"].format(problem=row["problem"]),
            "answer": str(row["answer"]),
            "id": row["id"],
        }
        for row in rows
    ]


def train_with_logs(
    folder,
    *,
    prompts,
    steps,
    group_size=8,
    with_ids=False,
    functions=1,
    evaluated=None,
    **settings,
):
    """Train tiny/base by TRL; its completions lie in `folder/completions` as parquet."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from mse_lab.data.rewards import REWARDS

    def right(completions, completion_ids, answer, id, log_extra, **columns):
        if with_ids:
            log_extra("completion_ids", completion_ids)
            log_extra("prompt_id", id)
        rows = [{"answer": one} for one in answer]
        return [
            float(REWARDS["integer"](text, row))
            for text, row in zip(completions, rows, strict=True)
        ]

    def brief(completion_ids, **columns):
        return [float(len(ids) < 4) for ids in completion_ids]

    given = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 32,
        "num_generations": group_size,
        "max_completion_length": 8,
        "temperature": 1.0,
        "learning_rate": 0.0,
        "logging_steps": 1,
        "log_completions": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 0,
    }
    silence = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(silence):
        warnings.simplefilter("ignore", FutureWarning)
        trainer = GRPOTrainer(
            model=str(BASE),
            args=GRPOConfig(**(given | settings)),
            reward_funcs=[right, brief][:functions],
            train_dataset=Dataset.from_list(prompts),
            eval_dataset=evaluated and Dataset.from_list(evaluated),
        )
        trainer.train()
    return Path(folder) / "completions"
