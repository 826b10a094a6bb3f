"""Evaluations among a trainer's rollouts: drawn to judge the policy, not to train it.

Most trainers write them to files or folders whose names say so. TRL writes them over the
training's file of the step; its `trainer_state.json` names these steps. Where that is
missing, an evaluation shows by its prompts: the same at every multiple of some step, and at
no other step.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mse_lab.trainer_logs.collect import Columns

# eval_7.pt, eval-rollout, dumped_evals, val_data_step3.jsonl, validation; not "values".
_NAME = re.compile(r"(?:^|[^a-z])(?:eval|valid|val(?![a-z]))", re.IGNORECASE)
_FUNCTION = re.compile(r"rewards/(.+)/mean")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def is_named_evaluation(path: Path, root: Path) -> bool:
    """Whether the name of a file, or of a folder between the root and it, says so."""
    return any(map(_NAME.search, path.relative_to(root).parts or (path.name,)))


@dataclass(frozen=True)
class TrainerState:
    """What a `trainer_state.json` says of a training by TRL."""

    last_step: int  # The step it was written at.
    evaluated: frozenset[int]  # The steps that were evaluated until then.
    functions: tuple[str, ...]  # The names of the reward functions.

    def holds_evaluation(self, step: int) -> bool:
        """Whether the file of a step holds an evaluation, later ones at the same rhythm."""
        rhythm = min(self.evaluated - {0}, default=0)
        if step <= self.last_step or not rhythm:
            return step == 0 or step in self.evaluated
        return step % rhythm == 0 and not any(one % rhythm for one in self.evaluated)


def _parse_state(path: Path) -> TrainerState | None:
    """Read a state; None where it is not there, or is not one."""
    try:
        state: Any = json.loads(path.read_bytes())
        entries = [entry for entry in state["log_history"] if "step" in entry]
        evaluated = {
            int(entry["step"])
            for entry in entries
            if any(key.startswith("eval_") for key in entry)
        }
        names = [_FUNCTION.fullmatch(key) for entry in entries for key in entry]
        functions = dict.fromkeys(name[1] for name in names if name)
        return TrainerState(
            int(state["global_step"]), frozenset(evaluated), tuple(functions)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def find_state(completions: Path) -> TrainerState | None:
    """Find the newest state beside the folder `completions` of TRL."""
    folder = completions.resolve().parent
    numbered = {
        int(name[1]): one
        for one in folder.glob("checkpoint-*")
        if (name := _CHECKPOINT.fullmatch(one.name))
    }
    last = [numbered[max(numbered)]] if numbered else []
    states = [_parse_state(one / "trainer_state.json") for one in (folder, *last)]
    known = [state for state in states if state is not None]
    return max(known, key=lambda state: state.last_step, default=None)


def steps_by_prompts(columns: Columns) -> Sequence[int]:
    """Find the steps that were evaluated, by their prompts.

    The prompts of these steps are the same, and occur at no other step; the steps are all
    logged multiples of the first. A training that repeats its batches at the same rhythm
    looks alike: there none is found.
    """
    if (columns.step_N < 0).any():
        return []
    pairs = np.unique(np.stack([columns.step_N, columns.prompt_N], axis=-1), axis=0)
    steps, starts = np.unique(pairs[:, 0], return_index=True)
    sets = {
        int(step): frozenset(prompts.tolist())
        for step, prompts in zip(steps, np.split(pairs[:, 1], starts[1:]), strict=True)
    }
    by_prompts: dict[frozenset[int], list[int]] = {}
    for step, prompts in sets.items():
        by_prompts.setdefault(prompts, []).append(step)
    for prompts, found in by_prompts.items():
        if _is_rhythm(found, sets) and not any(
            prompts & other for other in by_prompts if other != prompts
        ):
            return found
    return [0] if 0 in sets and len(sets) > 1 else []


def _is_rhythm(found: Sequence[int], sets: Mapping[int, frozenset[int]]) -> bool:
    rhythm = min({*found} - {0}, default=0)
    if len(found) < 2 or rhythm < 2 or found != [one for one in sets if not one % rhythm]:
        return False
    return any(sets[at] != sets.get(at + rhythm, sets[at]) for at in {*sets} - {*found})
