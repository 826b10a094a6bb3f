"""Logs as trainers write them, small, and what pandas counts of their groups."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from mse_lab.errors import InputError
from mse_lab.logs.forms import check_columns, parse_columns
from mse_lab.logs.read_logs import read_log
from mse_lab.logs.reward_groups import make_groups
from mse_lab.logs.summary import Summary


def write_lines(path, records):
    """Write lines of JSON, compressed where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    raw = text.encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def completions(prompts=12, size=8, steps=5, seed=3):
    """Draw completions with binary rewards, groups of a prompt in their order."""
    rng, rows = np.random.default_rng(seed), []
    for number, value in enumerate(rng.beta(0.6, 0.6, size=prompts * steps)):
        step = 1 + number // prompts
        for place in range(size):
            length = int(rng.integers(3, 21))
            rows.append(
                {
                    "step": step,
                    "id": number,
                    "prompt": f"What is {number} plus {step}?",
                    "text": f"{'so ' * length}{place}",
                    "reward": float(rng.random() < value),
                    "length": length,
                    "place": place,
                }
            )
    return pd.DataFrame(rows)


def counted(frame, *keys, reward="reward"):
    """Count groups by pandas: as many as there are combinations of the keys."""
    groups = frame.groupby(list(keys), sort=False)[reward]
    spread = groups.std(ddof=1).fillna(0)
    several = groups.size() > 1
    return {
        "groups": len(spread),
        "completions": len(frame),
        "mean_reward": frame[reward].mean(),
        "zero_variance": (spread <= 1e-8)[several].mean(),
        "group_size": int(groups.size().mode().max()),
    }


def numbers_of(summary):
    """What a summary says of the same."""
    found = summary.as_dict()
    share = found["zero_variance"]
    found["zero_variance"] = share["value"] if share else np.nan
    return found


def with_advantages(frame, size, reward="reward", scale=True):
    """Add advantages as TRL computes them of blocks, and writes them: 32 bits."""
    rewards = frame[reward].to_numpy(dtype=float).reshape(-1, size)
    centred = rewards - np.nanmean(rewards, axis=1, keepdims=True)
    spread = np.nanstd(rewards, axis=1, keepdims=True, ddof=1) if scale else 1.0
    advantages = np.nan_to_num(centred / (spread + 1e-4 * scale)).ravel()
    return frame.assign(advantage=advantages.astype(np.float32))


def write_trl(folder, frame, rewards=("reward",), extras=(), state=None, whole=False):
    """Write a file for each step as `GRPOTrainer.log` does, or a `whole`; and a state."""
    columns = ["step", "prompt", "completion", *rewards, *extras, "advantage"]
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    frame = frame.rename(columns={"text": "completion"})
    for step, rows in [(0, frame)] if whole else frame.groupby("step"):
        path = folder / f"completions/completions_{step:05d}.parquet"
        rows[columns].to_parquet(path)
    if state is not None:
        (folder / "trainer_state.json").write_text(json.dumps(state))
    return folder


def write_verl(folder, frame, suffix=".jsonl", **columns):
    """Write a file for each step as `RayPPOTrainer` does, with columns more or others."""
    names = {"prompt": "input", "text": "output", "reward": "score"}
    for step, rows in frame.groupby("step"):
        lines = rows.rename(columns=names)[["input", "output", "score", "step"]]
        lines = lines.assign(gts="7", **columns).to_dict("records")
        write_lines(folder / f"{step}{suffix}", lines)


def state_of(last, functions=("reward",), evaluated=()):
    """A `trainer_state.json`, written at a step."""
    entries = [{"step": 1, **{f"rewards/{name}/mean": 0.5 for name in functions}}]
    entries += [{"step": step, "eval_loss": 0.0} for step in evaluated]
    return {"global_step": last, "log_history": entries}


def read(given, columns=None, **settings):
    """Read a log: its columns, and its groups."""
    log = read_log(
        given if isinstance(given, pd.DataFrame | list) else [given],
        check_columns(columns or {}),
        partial_ok=settings.pop("partial", False),
    )
    return Summary.of(make_groups(log, settings.pop("group_size", None)), **settings)


def check(given, expected, columns="", **settings):
    """Read a log, hold what is said of it to what was counted, and return it."""
    found = read(given, parse_columns(columns) if columns else None, **settings)
    numbers = numbers_of(found)
    assert {key: numbers[key] for key in expected} == pytest.approx(expected)
    return found


def refuse(given, line, columns="", **settings):
    """Read a log that is refused with this line."""
    with pytest.raises(InputError, match=line):
        read(given, parse_columns(columns) if columns else None, **settings)


def groups_of(*rewards, **more):
    """Lines of the completions of groups, each of a prompt of its own."""
    return [
        {"prompt_id": f"p{number}", "reward": reward, **more}
        for number, group in enumerate(rewards)
        for reward in group
    ]


def draw_groups(values, size, seed=0, groups=1):
    """Draw binary rewards of prompts with these values, a line for each completion."""
    rng = np.random.default_rng(seed)
    return [
        {"prompt_id": f"p{number}", "step": step, "reward": reward}
        for step in range(groups)
        for number, value in enumerate(values)
        for reward in (rng.random(size) < value).astype(int).tolist()
    ]


def summarise(tmp_path, records, name="log.jsonl", **settings):
    """Write lines and read them."""
    return read(write_lines(tmp_path / name, records), **settings)
