"""Prepare a run: all input is checked before anything is measured.

`prepare` needs no model, so that a finished run is recognised at once; `load` adds the
model, and `measuring` begins in the folder. All commands that measure start with these
three, and refuse the same input.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mse_lab.console import show_status
from mse_lab.errors import InputError, shorten
from mse_lab.estimators import find_estimators
from mse_lab.policy.answers import identify_answers
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.probe.identity import digest
from mse_lab.probe.probe_files import dump_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import identify_reward, load_reward, try_reward
from mse_lab.probe.schema import Probe
from mse_lab.results.files import remove
from mse_lab.results.folder import ResultsFolder, identify_code
from mse_lab.results.shards import Item, Shards
from mse_lab.run.loop import Measured
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.run.subject import Drawn, Inputs, Subject, make_subject

# Keys of a probe on which no draw and no score depends.
NOT_DRAWN: Any = {"prompts": {"population"}, "training": True}


@dataclass(frozen=True, kw_only=True)
class RunSpec(Inputs):
    """What a run measures, and where its results go; without the model."""

    root: Path  # The project's folder, which relative paths may start from.
    results: ResultsFolder  # The folder of the results.
    # What must be the same when it is resumed, by part: prompts, supplied completions, and
    # the user's own reward and estimators.
    identity: Mapping[str, str]
    processes: Processes = SINGLE_PROCESS  # Those that share the prompts.


@dataclass(frozen=True)
class RunContext:
    """A run and its model."""

    spec: RunSpec
    subject: Subject
    answers: Mapping[str, str]  # What the loaded model reads and answers, by part.

    @property
    def identity(self) -> dict[str, str]:
        """Identity of all that is measured: the policy's files, its answers, the rest."""
        return {**self.subject.policy.identity, **self.answers, **self.spec.identity}

    @cached_property
    def _digest(self) -> str:
        probe = self.spec.probe.model_dump(mode="json", exclude=NOT_DRAWN)
        return digest([probe, self.identity])

    def origin(self, item: Item) -> str:
        """Hash all that the measurement of an item depends on."""
        index, *block = item
        return digest([self._digest, self.spec.prompts[index].id, *block])

    def shards(self, kind: type[Measured]) -> Shards[Measured]:
        """Give the measurements of this kind in the folder of results."""
        return Shards(kind, self.spec.results.file("shards"), self.origin)


def identify_prompts(prompts: Sequence[Prompt]) -> dict[str, str]:
    """Hash the texts and records of prompts."""
    rows = [[prompt.text, dict(prompt.record)] for prompt in prompts]
    # Rows given in memory may hold any objects.
    text = json.dumps(rows, default=str)
    return {"set of prompts": hashlib.sha256(text.encode()).hexdigest()}


def find_source(probe: Probe, prompts: Sequence[Prompt], root: Path) -> Drawn:
    """Give the source of a probe's completions: the policy, or a file that it names."""
    if probe.completions is None:
        return Drawn()
    from mse_lab.run.supplied import FromFile

    return FromFile(probe, prompts, root)


def prepare(
    name: str, probe: Probe, folder: Path, root: Path, processes: Processes = SINGLE_PROCESS
) -> RunSpec:
    """Read everything that a run needs besides the model; the results go to `folder`."""
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward, chat=probe.prompts.chat)
    try_reward(reward, prompts)
    source = find_source(probe, prompts, root)
    identity = {
        **identify_prompts(prompts),
        **({"file of completions": source.digest} if source.digest else {}),
        **identify_code(estimators, identify_reward(reward, probe.reward)),
    }
    here = [dump_probe(probe), identity]
    if processes.agree(lambda: here) != here:
        raise InputError(
            "this process's probe, prompts, completions or code are not those of "
            "process 0; give all machines the same files"
        )
    return RunSpec(
        name=name,
        probe=probe,
        root=root,
        prompts=prompts,
        estimators=estimators,
        reward=reward,
        source=source,
        results=ResultsFolder(folder),
        identity=identity,
        processes=processes,
    )


def load(spec: RunSpec, scored: int | None = None) -> RunContext:
    """Load the model, and check that prompts and completions fit it; see `attach_model`."""
    probe = spec.processes.assign_device(spec.probe)
    return attach_model(spec, load_policy(probe, spec.root), scored)


def attach_model(spec: RunSpec, policy: Policy, scored: int | None = None) -> RunContext:
    """Check that prompts and completions fit a policy; `scored` as in `make_subject`."""
    subject = make_subject(spec, policy, scored)
    spec.processes.agree(lambda: spec.source.validate(policy, spec.probe))
    # Those of the first process: another machine's may round otherwise.
    answers = spec.processes.agree(lambda: identify_answers(policy, subject.tokens))
    return RunContext(spec, subject, answers)


@contextmanager
def measuring(
    context: RunContext, kind: type[Measured], *, fresh: bool
) -> Iterator[Shards[Measured]]:
    """Keep other starts out of a folder of results, and measure there.

    What an earlier start has begun there is resumed, or with `fresh` removed: only now,
    when all input is known to be usable.
    """
    processes, shards = context.spec.processes, context.shards(kind)
    processes.barrier()
    with processes.locked(context.spec.results.path):
        processes.agree(lambda: _begin(context, shards, fresh=fresh))
        yield shards


def _begin(context: RunContext, shards: Shards[Measured], *, fresh: bool) -> None:
    spec, results = context.spec, context.spec.results
    results.refuse_foreign()
    if fresh:
        results.clear()
    else:
        results.refuse_other(spec.probe, context.identity)
        if results.is_complete():
            # It was not when this start began to load the model.
            raise InputError(f"{results.path}: another start has finished it meanwhile")
    results.begin(spec.probe, context.identity)
    if spoilt := [shards.path(item) for item in shards.items() if item not in shards]:
        _drop(results, spoilt)


def _drop(results: ResultsFolder, spoilt: Sequence[Path]) -> None:
    """Remove the shards that cannot be gone on from, and say which."""
    names = shorten(", ".join(path.name for path in spoilt))
    show_status()
    print(
        f"{results.path}: {len(spoilt)} measurements are made again: what there is of "
        f"them ({names} in shards/) is damaged, or of another run or version",
        file=sys.stderr,
    )
    for path in spoilt:
        remove(path)
