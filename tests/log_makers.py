"""Logs as trainers write them, on the disk and in memory."""

import json

import numpy as np

from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import read_log
from mse_lab.trainer_logs.summary import Summary


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def groups_of(*rewards, **more):
    """Lines of the general form, a prompt and a group each."""
    return [
        {"prompt_id": f"p{number}", "rewards": list(group), **more}
        for number, group in enumerate(rewards)
    ]


def two_rewards(pairs, advantages=None, prompt="a"):
    """Lines of one group, whose completions have two rewards each."""
    return [
        {"prompt": prompt, "rewards": {"right": one, "tidy": other}}
        | ({} if advantages is None else {"advantage": advantages[n]})
        for n, (one, other) in enumerate(pairs)
    ]


def draw_groups(values, size, seed=0, groups=1):
    """Draw binary rewards of prompts with these values, lines of the general form."""
    rng = np.random.default_rng(seed)
    return [
        {"prompt_id": f"p{number}", "step": step, "rewards": drawn.astype(int).tolist()}
        for step in range(groups)
        for number, value in enumerate(values)
        for drawn in [rng.random(size) < value]
    ]


def summarise(tmp_path, records, name="log.jsonl", **settings):
    log = read(tmp_path, records, name)
    return Summary(log, make_groups(log, settings.pop("group_size", None)), **settings)


def read(tmp_path, records, name="log.jsonl"):
    """Write records and read them as columns."""
    return read_log([write_lines(tmp_path / name, records)])
