"""TRL's `trainer_state.json`: the steps that were evaluated, and the reward functions."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FUNCTION = re.compile(r"rewards/(.+)/mean")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class State:
    """What a `trainer_state.json` says."""

    last_step: int  # The step it was written at.
    evaluated: frozenset[int]  # The steps that were evaluated until then.
    functions: tuple[str, ...]  # The names of the reward functions.


def _parse_state(path: Path) -> State | None:
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
        functions = dict.fromkeys(
            name[1] for name in names if name and not name[1].startswith("eval_")
        )
        return State(int(state["global_step"]), frozenset(evaluated), tuple(functions))
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ):
        return None


def find_state(completions: Path) -> State | None:
    """Find the newest state beside the folder `completions`."""
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
