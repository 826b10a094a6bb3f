"""The files of a log: found in a folder, each form recognised by content.

A folder may hold checkpoints, data sets and other files beside the rollouts: what is of no
known form is passed over, and counted. Evaluations, which do not train the policy, are left
out. Most trainers write them to files or folders whose names say so. TRL writes them over
the file of the step that trains; its `trainer_state.json` names these steps. Where that is
missing, an evaluation shows by its prompts: the same at every multiple of some step, and at
no other step.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mse_lab.errors import InputError, shorten
from mse_lab.probe.engine_dumps import answers_in
from mse_lab.probe.plain_text import reading
from mse_lab.trainer_logs import forms
from mse_lab.trainer_logs.collect import Columns
from mse_lab.trainer_logs.completion import Form, RecordPosition
from mse_lab.trainer_logs.general_form import GENERAL
from mse_lab.trainer_logs.records import (
    PICKLES,
    SUFFIXES,
    has_samples,
    records_of,
    suffix_of,
)

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
    looks alike: there none is found, nor where they are few.
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
    rhythm, several = min({*found} - {0}, default=0), len(found) > 1
    # In two epochs of one prompt a step two are chance in 3 of 10 trainings (simulated).
    several &= len(found) + len(sets[found[0]]) > 4
    if not several or rhythm < 2 or found != [one for one in sets if not one % rhythm]:
        return False
    others = {(at % rhythm, sets[at]) for at in {*sets} - {*found}}
    return len(others) > len({place for place, _ in others})


_STEP = re.compile(r"completions_(\d+)")

# The keys of SkyRL's evaluations.
_SKYRL = {"input_prompt", "output_response", "score"}


@dataclass
class Source:
    """What was read."""

    name: str  # The folder or files.
    form: Form  # The form of the log.
    # The files that were read, and the form of each.
    forms: dict[Path, Form] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)  # Files of no known form.
    unreadable: list[Path] = field(default_factory=list)
    evaluations: list[str] = field(default_factory=list)  # Files or steps left out.
    damaged: list[RecordPosition] = field(default_factory=list)  # Lines left out.
    copies: int = 0  # Number of files that repeat the one before.
    state: TrainerState | None = None  # TRL's state, where it was found.


def _natural(path: Path) -> list[tuple[int, str]]:
    """Make a key that sorts 2.jsonl before 10.jsonl."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """List the files that may hold rollouts, each with the path it was found by."""
    for path in paths:
        with reading(path):
            if path.is_dir():
                files = (one for one in path.rglob("*") if suffix_of(one) in SUFFIXES)
                named = sorted(filter(Path.is_file, files), key=_natural)
                yield from ((one, path) for one in named)
            elif path.is_file():
                yield path, path
            else:
                raise InputError(f"{path}: no such file or folder; name a run's folder")


def _first_record(path: Path) -> Mapping[str, Any]:
    """Read a file's first record; empty where it has none."""
    return next(records_of(path, []), {})


def _refuse_unknown(paths: Sequence[Path], source: Source) -> None:
    where = shorten(", ".join(map(str, paths)))
    pickles = [one for path in paths for one in path.rglob("*") if one.suffix in PICKLES]
    if pickles:
        raise InputError(
            f"{where}: rollouts in a pickle ({shorten(str(pickles[0]))}) are never "
            "loaded; save their rows as JSONL with prompt_id and reward"
        )
    if source.unreadable:
        _first_record(source.unreadable[0])
    if not source.unknown:
        raise InputError(
            f"{where}: has no {', '.join(SUFFIXES)} file; name the folder that "
            "the trainer writes its rollouts to. OpenRLHF writes none, SkyRL pickles: "
            "write lines with prompt, reward and step in the reward function"
        )
    record = _first_record(source.unknown[0])
    if {*record} >= _SKYRL:
        raise InputError(
            f"{where}: SkyRL's evaluations, its training batches are pickles; read them by "
            "--columns prompt=input_prompt,reward=score,text=output_response"
        )
    has = shorten(", ".join(record))
    has = f"the first has {has}" if record else "no record in the first"
    needs = "; ".join(f"{form.name}: {', '.join(form.needs)}" for form in forms.FORMS)
    raise InputError(
        f"{where}: no rollouts of a known form. Looked at: "
        f"{shorten(', '.join(map(str, source.unknown)))} ({has}). Name your columns by "
        f"--columns prompt=...,reward=...; known forms have these: {needs}"
    )


def _refuse_mixture(forms_by_path: Mapping[Path, Form]) -> None:
    kinds = {form.name.split()[0]: path for path, form in forms_by_path.items()}
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(
            f"{shorten(some, 300)}: rollouts of several forms; name the files of one"
        )


def _recognise(
    path: Path, *, named: bool, columns: Form | None
) -> tuple[Form | None, bool]:
    """Find the form of a file, and whether its records have a key `reward`."""
    if suffix_of(path) == ".pt" and not (named or has_samples(path)):
        return None, False
    if suffix_of(path) == ".pt" and columns is None:
        return forms.SLIME, False
    record = _first_record(path)
    keys = {*record}
    if columns is None:
        dumped = GENERAL if answers_in(record) else None
        return forms.recognise([*keys]) or dumped, "reward" in keys
    has_all = all(name in keys or name.split(".")[0] in keys for name in columns.needs)
    # In a file that is named the first record tells what is missing.
    return columns if has_all or named else None, False


def _leave_out_evaluations(
    source: Source, roots: Mapping[Path, Path], judged: set[Path]
) -> None:
    """Leave out evaluations, and `effective` traces of prime-rl where `all` has them too.

    verl's validations have a key `reward`, which its training rollouts do not have.
    """
    unwanted = {path for path in source.forms if is_named_evaluation(path, roots[path])}
    if any("all" in path.parts for path in source.forms if path not in unwanted):
        unwanted |= {
            path
            for path, form in source.forms.items()
            if form.name == "prime-rl" and "effective" in path.parts
        }
    if source.form.name == "verl" and judged != {*source.forms}:
        unwanted |= judged
    if source.form is forms.TRL:
        states = {folder: find_state(folder) for folder in {one.parent for one in roots}}
        for path in source.forms:
            state, name = states[path.parent], _STEP.fullmatch(path.stem)
            source.state = state or source.state
            if state and name and state.holds_evaluation(int(name[1])):
                unwanted.add(path)
    if unwanted == {*source.forms}:
        if all(path == root for path, root in roots.items()):
            return  # They were asked for.
        over = ", which TRL writes over the rollouts of their steps"
        why = over if source.form is forms.TRL else ""
        raise InputError(
            f"{source.name}: evaluations only{why}; to read them name the files: "
            f"{shorten(str(min(unwanted)))}"
        )
    for path in sorted(unwanted, key=_natural):
        del source.forms[path]
        if "effective" not in path.parts:
            source.evaluations.append(str(path))


def find_logs(paths: Sequence[Path], columns: Form | None = None) -> Source:
    """Find the files of a log, of the user's own columns or of one recognised form."""
    source = Source(", ".join(map(str, paths)), GENERAL)
    roots, judged = dict[Path, Path](), set[Path]()
    for path, root in _files(paths):
        named = path == root
        try:
            form, has_reward = _recognise(path, named=named, columns=columns)
        except InputError:
            if named:
                raise
            source.unreadable.append(path)
            continue
        if form is not None:
            source.forms[path], roots[path] = form, root
            judged |= {path} if has_reward else set()
        elif suffix_of(path) != ".pt":  # Those of checkpoints.
            source.unknown.append(path)
    if not source.forms:
        _refuse_unknown(paths, source)
    _refuse_mixture(source.forms)
    kinds = [*source.forms.values()]
    # prime-rl's traces come before its token exports.
    source.form = next((form for form in kinds if form is not forms.EXPORTS), kinds[0])
    _leave_out_evaluations(source, roots, judged)
    return source
