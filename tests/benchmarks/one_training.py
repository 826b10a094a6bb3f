"""A training by TRL with its defaults, and the same with the group size that was advised.

    PYTHONPATH=tests python -m benchmarks.one_training FOLDER [--seeds 8]
    PYTHONPATH=tests python -m benchmarks.one_training FOLDER --draw

tiny/base on its 60 prompts, 64 completions a step, 100 steps; of TRL's settings only those
change that its size asks for: the longest completion, the batch, the learning rate. The
rate is that of `RATES` with the best J on held-out prompts at the last step of TRL's own
group size, from a seed that is not used again: chosen for the default, not for the
advice. Runs are pairs: the same seeds, and J on the same uniform numbers. The first run of
the default keeps its completions and checkpoints, and is measured by the callback.
`values.csv` has J on held-out prompts of each run and step; what it holds already stays.

Written before the runs: the first question is J at the last step, the second its mean over
the evaluated steps; each is the paired difference between the sizes over the seeds, with
Student's interval at 97.5%, for there are two.
"""

import argparse
import contextlib
import csv
import io
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from datasets import Dataset
from matplotlib.figure import Figure
from scipy import stats
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from mse_lab.report.drawing import STYLES, Style, colours_of, draw_line, save_figure
from mse_lab.studies.training.task import Task, load_task, with_prompts
from mse_lab.studies.training.trainer import AfterStep
from mse_lab.studies.training.verdict import mean_interval
from mse_lab.trl import MSECallback

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = "probes/prompts/arithmetic-tiny-held-out.jsonl"
STEPS, EVALUATED, COMPLETIONS = 100, range(0, 101, 20), 64
# TRL's own group size; the advised one, a power of two beside the best.
DEFAULT, ADVISED = 8, 4
SIZES = (DEFAULT, ADVISED)
COMPLETIONS_A_STEP = 64
RATES, PILOT_SEED = (1e-4, 3e-4, 1e-3), (100,)


def settings(folder: Path, size: int, rate: float, seed: int, kept: bool) -> GRPOConfig:
    """TRL's defaults but for the group size and what the model's size asks for."""
    return GRPOConfig(
        output_dir=str(folder),
        num_generations=size,
        learning_rate=rate,
        max_steps=STEPS,
        per_device_train_batch_size=COMPLETIONS_A_STEP,
        max_completion_length=8,
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        disable_tqdm=True,
        logging_steps=5,
        log_completions=kept,
        save_strategy="steps" if kept else "no",
        save_steps=20,
        save_only_model=True,
    )


def train(
    task: Task, held_out: Task, config: GRPOConfig, measured: bool
) -> dict[int, float]:
    """Train once; give J on the held-out prompts at each evaluated step."""
    values: dict[int, float] = {}

    def look(step, model):
        held_out.follow(model)
        values[step] = held_out.mean_reward(COMPLETIONS)

    def right(completion_ids, index, log_extra, **_):
        log_extra("completion_ids", completion_ids)
        log_extra("prompt_id", [task.prompts[one].id for one in index])
        return task.rewards(index, completion_ids)

    def reward(text, row):
        return task.reward(text, task.prompts[row["index"]].record)

    rows = [{"prompt": text, "index": one} for one, text in enumerate(task.shown)]
    data = Dataset.from_list(rows)
    calls = [AfterStep(EVALUATED, look)]
    if measured:
        calls.append(MSECallback(data, reward, every=20, share=1.0))
    trainer = GRPOTrainer(
        str(ROOT / "probes/tiny/base"), right, config, data, callbacks=calls
    )
    trainer.train()
    if measured:
        pd.DataFrame(trainer.state.log_history).to_csv(
            Path(config.output_dir).parent / "callback.csv", index=False
        )
    return values


def best_rate(table: pd.DataFrame) -> float:
    """The rate with the best J of TRL's own group size, over the pilot seeds."""
    last = table[table.seed.isin(PILOT_SEED) & (table.step == STEPS)]
    return float(last.groupby("learning_rate").held_out.mean().idxmax())


def values_of(table: pd.DataFrame, size: int) -> pd.DataFrame:
    """J of a size's runs, a row a seed and a column a step, without the pilots."""
    rows = table[(table.group_size == size) & ~table.seed.isin(PILOT_SEED)]
    return rows.pivot(index="seed", columns="step", values="held_out")


def difference(values_S: pd.Series, level: float) -> tuple[float, float, float]:
    """Mean over seeds of a paired difference, with Student's interval."""
    mean, error = values_S.mean(), stats.sem(values_S)
    low, high = stats.t.interval(level, len(values_S) - 1, mean, error)
    return mean, low, high


def compare(table: pd.DataFrame) -> None:
    """Print J of both sizes, and the two questions' answers."""
    advised, default = (values_of(table, size).dropna() for size in (ADVISED, DEFAULT))
    gap = (advised - default).dropna()
    print(pd.DataFrame({ADVISED: advised.mean(), DEFAULT: default.mean()}).round(4))
    outcomes = {"last step": gap[STEPS], "mean": gap.drop(columns=0).mean(axis=1)}
    for name, gaps in outcomes.items():
        mean, low, high = difference(gaps, 0.975)
        print(f"{name}: {mean:.4f} ({low:.4f} to {high:.4f}), {len(gap)} seeds")


def compose(table: pd.DataFrame, callback: pd.DataFrame, along: pd.DataFrame) -> Figure:
    """J on held-out prompts against completions, and the best group size on the way."""
    figure = Figure(figsize=(7.6, 3.1), layout="constrained")
    left, right = figure.subplots(1, 2)
    for size, colour in zip(sorted(SIZES), colours_of(len(SIZES), "viridis"), strict=True):
        values = values_of(table, size).dropna()
        intervals = np.array([mean_interval(values[step], 0.95) for step in values])
        name = f"G = {size}, " + ("advised" if size == ADVISED else "TRL's default")
        draw_line(
            left, values.columns * COMPLETIONS_A_STEP, intervals, Style(colour, "o", name)
        )
    left.set_xlabel("Completions drawn")
    left.set_ylabel("Mean reward J, held-out prompts")
    left.legend(frameon=False)
    names = ["mse/best_group_size", "mse/best_group_size_low", "mse/best_group_size_high"]
    live = callback.dropna(subset=["mse/step", names[0]])
    draw_line(right, live["mse/step"], live[names].to_numpy(float),
              Style(STYLES["grpo"].colour, "s", "callback, live"))  # fmt: skip
    best = along[["best_group_size", "best_group_size_low", "best_group_size_high"]]
    value, low, high = best.to_numpy(float).T
    right.errorbar(along["step"], value, [value - low, high - value], fmt="^", ms=4, lw=1,
                   color="0.3", label="along, on its checkpoints")  # fmt: skip
    right.set_xlabel("Training step of the run with G = 8, seed 0")
    right.set_ylabel("Best group size G*")
    right.set_ylim(bottom=1)
    right.legend(frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--draw", action="store_true", help="train nothing")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "values.csv"
    if given.draw:
        table, callback, along = (
            pd.read_csv(given.folder / name)
            for name in ("values.csv", "callback.csv", "along.csv")
        )
        compare(table)
        save_figure(lambda: compose(table, callback, along), given.folder / "training.png")
        return
    if not file.exists():
        file.write_text("group_size,learning_rate,seed,step,held_out\n")
    task = load_task("tiny/base", ROOT)
    held_out = with_prompts(task, HELD_OUT, ROOT)

    def run(size, rate, seed):
        table = pd.read_csv(file)
        same = (table.group_size == size) & (table.seed == seed)
        if (same & (table.learning_rate == rate)).any():
            return
        kept = (size, seed) == (DEFAULT, 0)
        config = settings(given.folder / "kept", size, rate, seed, kept)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as said:
            warnings.simplefilter("ignore", FutureWarning)
            values = train(task, held_out, config, kept)
        if kept:
            (given.folder / "screen.txt").write_text(said.getvalue())
        with file.open("a") as rows:
            csv.writer(rows, lineterminator="\n").writerows(
                (size, rate, seed, step, round(value, 6)) for step, value in values.items()
            )

    for seed in PILOT_SEED:
        for rate in RATES:
            run(DEFAULT, rate, seed)
    rate = best_rate(pd.read_csv(file))
    for seed in range(given.seeds):
        for size in SIZES:
            run(size, rate, seed)


if __name__ == "__main__":
    main()
