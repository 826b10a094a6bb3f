"""TRL's logs: which files hold rollouts, which columns are rewards, how long blocks are.

`GRPOTrainer.log` writes the last generation batch, gathered over the processes, in the
order in which it was drawn: blocks of num_generations completions of a prompt. With
`num_iterations` or `steps_per_generation` a batch is written at several steps. An
evaluation is written over the rollouts of its step, and stays in the files until the next
batch; `trainer_state.json` names the steps that were evaluated, and the reward functions.

The advantage of a completion is its reward less the mean of its group, over a number of the
group or batch. So a reading of rewards and block length is right only if advantages follow
the centred rewards in every block (`follows`).
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats, Ints
from mse_lab.errors import InputError, shorten
from mse_lab.logs.find_logs import LeftOut, State, count_left_out
from mse_lab.logs.forms import which_rewards
from mse_lab.records.records import PART

# How far apart, of a length of one, a block's advantages and centred rewards may lie: they
# are floats of 32 bits, of rewards of some size.
_APART, _ROUNDING = 1e-3, 1e-6

KEEP = 'eval_strategy="no" keeps them'

NO_STATE = (
    "No trainer_state.json lies beside these files: if the training evaluated, the files "
    "of those steps hold evaluations, which count here."
)
NO_FIT = (
    "The advantages do not follow these rewards (a KL term, weights): zero variance is "
    "that of the rewards as they are named."
)


def _repeats(table: pd.DataFrame, one: Ints, other: Ints) -> bool:
    """Whether rows of two steps hold the same completions, rewards and advantages."""
    first, second = (
        table.iloc[at].drop(columns=["file", "row", "step"]).reset_index(drop=True)
        for at in (one, other)
    )
    return first.equals(second)


def leave_out(
    table: pd.DataFrame, state: State | None, *, asked: bool
) -> tuple[pd.DataFrame, list[LeftOut]]:
    """Leave out evaluations and repeated batches; order what is left by its steps.

    Files that were named one by one (`asked`) hold no evaluation unless the state says so;
    where there is nothing else, evaluations are read.
    """
    rows = {int(step): at for step, at in table.groupby("step").indices.items()}
    sorts = {step: _sort(step, state, asked=asked) for step in rows}
    for before, step in pairwise(rows):
        if _repeats(table, rows[before], rows[step]):
            sorts[step] = "repeated" if sorts[before] == "training" else sorts[before]
    if "training" not in sorts.values() and not asked:
        raise InputError(
            "evaluations only, which TRL writes over the rollouts of their steps; "
            f"{KEEP}. To read them name their files"
        )
    kept = "training" if "training" in sorts.values() else "evaluated"
    at = np.concatenate([rows[step] for step, one in sorts.items() if one == kept])
    last = state.last_step if state else 0
    says = {
        "evaluated": "step(s) whose files hold an evaluation in the place of rollouts: "
        f"left out; {KEEP}",
        "repeated": "step(s) whose files repeat the batch of the one before "
        "(num_iterations, steps_per_generation): counted once",
        "unknown": f"step(s) after {last}, that of trainer_state.json, evaluations or an "
        "older training's perhaps: left out; name the files that hold rollouts",
    }
    steps_of = {
        words: [f"step {step}" for step, one in sorts.items() if one == sort != kept]
        for sort, words in says.items()
    }
    return table.iloc[at].reset_index(drop=True), count_left_out(steps_of)


def _sort(step: int, state: State | None, *, asked: bool) -> str:
    """Say what a step's file holds; before the first step TRL writes evaluations alone."""
    if step == 0 or (state and step in state.evaluated):
        return "evaluated"
    trained = asked or not state or step <= state.last_step
    return "training" if trained else "unknown"


def follows(reward_N: Floats, advantage_N: Floats, size: int) -> bool:
    """Whether advantages are a multiple of the centred rewards in every block of a size."""
    rewards = reward_N.reshape(-1, size)
    given = np.where(np.isnan(rewards), 0.0, advantage_N.reshape(-1, size))
    count = np.maximum((~np.isnan(rewards)).sum(axis=1, keepdims=True), 1)
    centred = np.nan_to_num(rewards - np.nansum(rewards, axis=1, keepdims=True) / count)
    lengths = [np.linalg.norm(one, axis=1) for one in (centred, given)]
    largest = np.nanmax(np.abs(rewards), axis=1, initial=0.0, where=~np.isnan(rewards))
    flat = lengths[0] <= _ROUNDING * np.maximum(largest, 1e-2)
    if (lengths[1][flat] > 1e-2).any() or (lengths[1][~flat] == 0).any():
        return False
    one, other = (
        part[~flat] / length[~flat, None]
        for part, length in zip((centred, given), lengths, strict=True)
    )
    allowed = _APART + _ROUNDING * largest[~flat] / lengths[0][~flat]
    return bool((np.linalg.norm(one - other, axis=1) <= allowed).all())


def _run_lengths(table: pd.DataFrame) -> Ints:
    """Count the neighbours of one prompt and step."""
    changes = table[["prompt", "step"]].diff().fillna(1).to_numpy().any(axis=1)
    return np.diff(np.append(np.flatnonzero(changes), len(table)))


def _sizes(runs: Ints, group_size: int | None) -> list[int]:
    """List the lengths that blocks may have: they divide every run of one prompt."""
    common = int(np.gcd.reduce(runs))
    sizes = [group_size] if group_size else [*range(2, common + 1)]
    if sizes := [size for size in sizes if common % size == 0]:
        return sizes
    some = shorten(", ".join(map(str, np.unique(runs)[:4].tolist())), 40)
    asked = f"--group-size {group_size}: " if group_size else ""
    raise InputError(
        f"{asked}TRL writes a group as a block of one prompt, and here blocks have {some} "
        "completions: rows are missing, or in another order; name what identifies a group, "
        "--columns reward=...,group=..., of groups of one group=prompt"
    )


def rewards_of(
    table: pd.DataFrame, parts: tuple[str, ...], functions: Sequence[str]
) -> tuple[str, ...]:
    """Name the columns that are rewards: those of the functions that the state names.

    Without a state the only column of floats is one; of several `log_extra` may have
    written some, and no number tells which.
    """
    if functions and {*functions} == {*parts}:
        return parts
    scored = tuple(name for name in parts if not table[PART + name].isna().all())
    if len(scored) == 1:
        return scored
    raise InputError(which_rewards(parts))


def block_length(
    table: pd.DataFrame, group_size: int | None, *, named: bool
) -> tuple[int, bool]:
    """Find the length of a block, and whether the advantages follow the rewards in each.

    Where the user has named the rewards (`named`), advantages that do not follow them, as
    with a KL term in the reward, are let through. Where several lengths fit, it is that of
    every run of a prompt, if a step has several prompts and their runs are alike.
    """
    runs = _run_lengths(table)
    reward_N, advantage_N = (table[name].to_numpy() for name in ("reward", "advantage"))
    sizes = _sizes(runs, group_size)
    fitting = [size for size in sizes if follows(reward_N, advantage_N, size)]
    if len(fitting) == 1:
        return fitting[0], True
    if not fitting and not named:
        raise InputError(
            "the advantages do not follow the rewards in blocks of "
            f"{' or '.join(map(str, sizes))}: with reward_weights give them, --columns "
            "reward=A,reward=0.5*B; with a KL term in the reward name the rewards as they "
            "are, --columns reward=A, with a baseline of your own, too; else a row is "
            "missing or in another place, or files are evaluations"
        )
    alike = (runs == sizes[-1]).all() and len(runs) > table["step"].nunique()
    if len(sizes) > 1 and not alike:
        raise InputError(
            f"groups of {' or '.join(map(str, sizes))}? Several may share a prompt, and "
            "the advantages do not tell: give --group-size G (num_generations)"
        )
    return sizes[-1], bool(fitting)
