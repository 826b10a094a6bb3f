"""Where the tool meets a known truth: `python tests/known_truth.py [TIMES]`.

A random four-token Qwen2 is run through the real pipeline, and all its completions are
enumerated. The exact MSE is a finite sum, by no formula of ours. TIMES multiplies the
completions: 1, the default, takes seconds, 16 a minute.
"""

import json
import sys
import tempfile
from pathlib import Path

import pandas as pd

from enumerated import aggregate, enumerate_policy, joined
from every_estimator import ENTRIES, EVERY
from models import small_probe, write_checkpoint
from mse_lab.config.probe_files import parse_probe
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import integer
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.run.run_probe import execute_run
from mse_lab.run.subject import prepare

NAMES = [name for name, one in EVERY.items() if one.group_local]
SHOWN = ["vanilla", "grpo", "oracle", "best-constant"]
SIZES = [2, 3, 4, 8, 24]
PROBLEMS = {"a": ("1 2 3", 2), "b": ("2 2", 3), "c": ("1", 1)}


def measure(checkpoint, folder, times=1):
    """Run the pipeline on the checkpoint; return its results' folder and the probe.

    `times` multiplies the sizes of the pools.
    """
    prompts = folder / "prompts.jsonl"
    records = [
        {"id": name, "problem": problem, "answer": answer}
        for name, (problem, answer) in PROBLEMS.items()
    ]
    prompts.write_text("\n".join(map(json.dumps, records)))
    values = small_probe(
        checkpoint,
        prompts,
        pool={"reference": 2048 * times, "replicate": 1200 * times},
        group_sizes=SIZES,
        estimators=[ENTRIES[name] for name in NAMES],
        interval={"resamples": 400},
    )
    values["model"]["batch"] = 512
    probe = parse_probe(values, "probe")
    outcome = execute_run(prepare("probe", probe, folder / "out", folder))
    assert outcome.noted.ok
    return folder / "out", probe


def enumerate_prompts(probe, root):
    policy = load_policy(probe, root)

    def enumerate_one(prompt):
        [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=2)

        def reward(own):
            return integer(policy.decode(list(own)), prompt.record)

        return enumerate_policy(policy, tokens, 4, 2, reward)[1]

    return joined(map(enumerate_one, load_prompts(probe.prompts, root)))


def main(times=1):
    """Print measured, law and enumerated MSE side by side."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results, probe = measure(write_checkpoint(folder / "checkpoint"), folder, times)
        prompts = enumerate_prompts(probe, folder)
        table = pd.read_csv(results / "mse.csv")
    print("estimator      G  enumerated  measured                law")
    shown = table.group_size.isin([4, 8]) & table.estimator.isin(SHOWN)
    for row in table[shown].itertuples():
        exact = aggregate(prompts, row.estimator, row.group_size)["mse"]
        print(
            f"{row.estimator:<13} {row.group_size:>2}  {exact:10.4f}  "
            f"{row.mse:.4f} [{row.mse_low:.4f}, {row.mse_high:.4f}]  "
            f"{row.law:.4f} [{row.law_low:.4f}, {row.law_high:.4f}]"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
