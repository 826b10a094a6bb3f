"""A pretrained model trained by TRL with four group sizes, each at its own learning rate.

    PYTHONPATH=tests python -m benchmarks.real_training FOLDER [--seeds 4]
    PYTHONPATH=tests python -m benchmarks.real_training FOLDER --compare

smollm2/icl on its first 100 sums by AdamW, 32 completions a step, 8 steps at a constant
rate, TRL's `dr_grpo` without division by the group's standard deviation: the estimator
whose errors results/smollm2/icl has. For each group size the rate is that of `RATES` with
the best accuracy on 50 further sums at the last step, from a seed that is not used again.
Accuracy is measured on 50 more sums, by 16 completions of each on uniform numbers common to
all runs. `values.csv` has it of each run and step; what it holds already stays. The first
run of `MEASURED` is measured by the callback, which changes nothing of it.

The grid was 1e-5, 3e-5, 1e-4. After two pilots, in which accuracy fell between steps 4 and
8 at 1e-5 with G = 4, it was moved down by 3, and for the time that it takes 3e-5 was left
out; no run that is judged had begun. Written before all runs, from results/smollm2/icl as
it was, of 128 + 64 completions a prompt: G* is 2.9 (2.7 to 3.1), and 32 completions have
the error of the best size's times 1.10 with G = 2, 1.05 with 4, 1.48 with 8, 2.48 with 16.
So 4 and 2 should train best, 16 worst. The question is accuracy at the last step: the
paired differences from G = 4 over the seeds, with Student's interval at 98.3%, for there
are three.
"""

import argparse
import contextlib
import csv
import io
import warnings
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from datasets import Dataset
from scipy import stats
from transformers import PrinterCallback

from mse_lab.studies.training.settings import Arm, Evaluation, Run, Training
from mse_lab.studies.training.task import Task, load_task, with_prompts
from mse_lab.studies.training.trainer import AfterStep, make_trainer
from mse_lab.trl import MSECallback

ROOT = Path(__file__).resolve().parents[2]
SIZES, RATES, PILOT_SEED = (2, 4, 8, 16), (3e-6, 1e-5), 100
STEPS, EVALUATED, COMPLETIONS = 8, (4, 8), 16
CHOOSING, TESTING = slice(100, 150), slice(150, 200)
MEASURED = 8  # TRL's own group size.
REFERENCE = 4  # A power of two beside the predicted best.
COLUMNS = ("prompts", "group_size", "learning_rate", "seed", "step", "accuracy")


def arm_of(rate: float) -> Arm:
    """What is the same for all group sizes of a rate."""
    training = Training(
        probe="smollm2/icl", budget=32, group_sizes=list(SIZES), steps=STEPS, eta=rate,
        optimiser="adamw",
    )  # fmt: skip
    return Arm("main", training, Evaluation(steps=[*EVALUATED]))


def cut(task: Task, prompts: slice) -> Task:
    """Take some of a task's prompts."""
    return replace(task, prompts=task.prompts[prompts], tokens=task.tokens[prompts])


def callback_of(task: Task) -> MSECallback:
    """Measure the training at its first step and in the middle."""
    rows = [{"prompt": text, "index": one} for one, text in enumerate(task.shown)]

    def reward(text, row):
        return task.reward(text, task.prompts[row["index"]].record)

    return MSECallback(Dataset.from_list(rows), reward, every=4, share=1.0)


def train(task: Task, judged: Task, run: Run, *, measured: bool, folder: Path) -> dict:
    """Train once; give the accuracy at each evaluated step."""
    values: dict[int, float] = {}

    def look(step, model):
        judged.follow(model)
        values[step] = judged.mean_reward(COMPLETIONS)

    calls = [AfterStep(EVALUATED, look), *([callback_of(task)] if measured else [])]
    with TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()) as said:
        trainer = make_trainer(run, task, place, callbacks=calls)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    if measured:
        (folder / "screen.txt").write_text(said.getvalue())
        log = pd.DataFrame(trainer.state.log_history)
        log.to_csv(folder / "callback.csv", index=False)
    return values


def best_rate(table: pd.DataFrame, size: int) -> float:
    """The rate with the best accuracy of a group size in the pilots."""
    mine = table[(table.prompts == "choosing") & (table.group_size == size)]
    last = mine[mine.step == STEPS]
    return float(last.set_index("learning_rate").accuracy.idxmax())


def compare(table: pd.DataFrame) -> None:
    """Print the accuracy of each group size, and the differences from `REFERENCE`."""
    judged = table[table.prompts == "testing"]
    seeds = judged.pivot(index=["step", "seed"], columns="group_size", values="accuracy")
    print(seeds.groupby("step").agg(["mean", "min", "max"]).round(3).T.to_string())
    level = 1 - 0.05 / (len(SIZES) - 1)
    for step in EVALUATED:
        for size in SIZES:
            if size != REFERENCE:
                gaps = (seeds[size] - seeds[REFERENCE]).loc[step].dropna()
                mean, error = gaps.mean(), stats.sem(gaps)
                ends = stats.t.interval(level, len(gaps) - 1, mean, error)
                found = [f"{value:.3f}" for value in (mean, *ends)]
                print(f"step {step}: {size} less {REFERENCE}:", *found, len(gaps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--compare", action="store_true", help="train nothing")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "values.csv"
    if given.compare:
        compare(pd.read_csv(file))
        return
    if not file.exists():
        file.write_text(",".join(COLUMNS) + "\n")
    task = load_task("smollm2/icl", ROOT)
    everything = with_prompts(task, task.probe.prompts.source, ROOT)

    def run(prompts: str, size: int, rate: float, seed: int) -> None:
        table = pd.read_csv(file)
        same = (table.group_size == size) & (table.seed == seed)
        if (same & (table.learning_rate == rate)).any():
            return
        judged = cut(everything, CHOOSING if prompts == "choosing" else TESTING)
        measured = (size, seed) == (MEASURED, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            values = train(task, judged, Run(arm_of(rate), size, seed),
                           measured=measured, folder=given.folder)  # fmt: skip
        with file.open("a") as rows:
            csv.writer(rows, lineterminator="\n").writerows(
                (prompts, size, rate, seed, step, value) for step, value in values.items()
            )

    for rate in RATES:
        for size in SIZES:
            run("choosing", size, rate, PILOT_SEED)
    table = pd.read_csv(file)
    for seed in range(given.seeds):
        for size in SIZES:
            run("testing", size, best_rate(table, size), seed)


if __name__ == "__main__":
    main()
