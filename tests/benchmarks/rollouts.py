"""A million completions of a trainer's logs: what `mse-lab rollouts` takes.

    python tests/benchmarks/rollouts.py [COMPLETIONS]

Each form is written to a temporary folder, 8 completions of a prompt, 128 prompts a step,
and read by the command in a process of its own: a processor's seconds, and memory.
"""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

GROUP, PROMPTS = 8, 128
WORDS = "we add the two numbers and then we subtract the third one so that it is "


def _texts(rng: np.random.Generator) -> Iterator[str]:
    """Completions of 300 to 900 characters."""
    while True:
        yield f"{WORDS * int(rng.integers(4, 13))}{rng.integers(10**6)}"


def _drawn(count: int) -> Iterator[tuple[int, int, float, str]]:
    """Step, prompt, reward and text of each completion."""
    rng = np.random.default_rng(0)
    texts, values = _texts(rng), rng.beta(0.5, 0.5, size=count // GROUP + 1)
    for number in range(count):
        prompt = number // GROUP
        yield prompt // PROMPTS, prompt, float(rng.random() < values[prompt]), next(texts)


def write_rewards(folder: Path, count: int) -> None:
    """The general form, a line for each group, rewards alone."""
    rng = np.random.default_rng(0)
    with (folder / "log.jsonl").open("w") as file:
        for prompt in range(count // GROUP):
            rewards = (rng.random(GROUP) < rng.random()).astype(int).tolist()
            line = {"prompt_id": prompt, "step": prompt // PROMPTS, "rewards": rewards}
            file.write(json.dumps(line) + "\n")


def write_verl(folder: Path, count: int) -> None:
    """Verl's form, a file a step, texts of 600 characters."""
    lines: list[str] = []
    last = 0
    for step, prompt, reward, text in _drawn(count):
        if step != last:
            (folder / f"{last}.jsonl").write_text("".join(lines))
            lines, last = [], step
        row = {"input": f"What is {prompt} + {prompt}?", "output": text, "gts": str(prompt),
               "score": reward, "step": step}  # fmt: skip
        lines.append(json.dumps(row) + "\n")
    (folder / f"{last}.jsonl").write_text("".join(lines))


def write_trl(folder: Path, count: int) -> None:
    """TRL's form, Parquet, a file a step, texts of 600 characters."""
    import pandas as pd

    names = ["step", "prompt", "completion", "right", "advantage"]
    rows: list[tuple[object, ...]] = []

    def flush(step: int) -> None:
        frame = pd.DataFrame(rows, columns=names)
        frame.to_parquet(folder / f"completions_{step:05d}.parquet")
        rows.clear()

    last = 0
    for step, prompt, reward, text in _drawn(count):
        if step != last:
            flush(last)
            last = step
        rows.append((step, f"What is {prompt} + {prompt}?", text, reward, reward))
    flush(last)


def write_open_instruct(folder: Path, count: int) -> None:
    """open-instruct's form: 100 tokens of a completion, and their log-probabilities."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 150_000, size=(64, 100)).tolist()
    log_probs = rng.normal(-0.3, 0.1, size=(64, 100)).round(4).tolist()
    with (folder / "run_rollouts_000000.jsonl").open("w") as file:
        for number in range(count):
            row = {
                "step": number // GROUP // PROMPTS, "sample_idx": number % GROUP,
                "prompt_idx": number // GROUP, "prompt_tokens": tokens[number % 64][:20],
                "response_tokens": tokens[number % 61], "reward": float(number % 3 == 0),
                "advantage": 0.0, "finish_reason": "stop", "dataset": "x",
                "logprobs": log_probs[number % 61],
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "rewards of groups (JSONL)": write_rewards,
    "verl (JSONL, texts)": write_verl,
    "TRL (Parquet, texts)": write_trl,
    "open-instruct (JSONL, 100 tokens)": write_open_instruct,
}


def measure(folder: Path) -> tuple[float, float]:
    """Summarise a folder in a process of its own: seconds, and megabytes at most."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "mse_lab", "rollouts", str(folder), "--json"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, after.ru_maxrss / 1024


def main(count: int) -> None:
    """Print a table; the memory is that of the largest process so far."""
    print(f"| {count:,} completions | MB on disk | seconds | MB of memory |")
    print("|---|--:|--:|--:|")
    for name, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as given:
            folder = Path(given)
            write(folder, count)
            size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            seconds, megabytes = measure(folder)
        print(f"| {name} | {size:,.0f} | {seconds:.1f} | {megabytes:.0f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
