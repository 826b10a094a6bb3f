"""Prepare a run: all input is checked before anything is measured.

`prepare` needs no model, so that a finished run is recognised at once; `load` adds the
model. All commands that measure start with these two, and refuse the same input.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimators
from mse_lab.policy.answers import identify_answers
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.probe.identity import digest
from mse_lab.probe.probe_files import dump_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import identify_reward, load_reward, try_reward
from mse_lab.probe.schema import Probe
from mse_lab.results.folder import ResultsFolder, identify_code
from mse_lab.run.loop import Item
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.run.subject import Inputs, Subject, make_subject
from mse_lab.run.supplied import find_source

# Keys of a probe on which no draw and no score depends.
NOT_DRAWN: Any = {"prompts": {"population"}, "training": True}


@dataclass(frozen=True, kw_only=True)
class RunSpec(Inputs):
    """What a run measures, and where its results go; without the model."""

    root: Path  # The project's folder, which relative paths may start from.
    results: ResultsFolder  # The folder of the results.
    # Hash of prompts and supplied completions, which must be the same when it is resumed.
    digest: str
    # Identity of the user's own reward and estimators, by part.
    code: Mapping[str, str]
    processes: Processes = SINGLE_PROCESS  # Those that share the prompts.


@dataclass(frozen=True)
class RunContext:
    """A run and its model."""

    spec: RunSpec
    subject: Subject
    answers: Mapping[str, str]  # What the loaded model reads and answers, by part.

    @property
    def of_model(self) -> dict[str, str]:
        """Identity of the policy: of its files, and of what it answers, by part."""
        return {**self.subject.policy.identity, **self.answers}

    @property
    def identity(self) -> dict[str, str]:
        """Identity of the policy and of the user's own code, by part."""
        return {**self.of_model, **self.spec.code}

    @cached_property
    def _digest(self) -> str:
        probe = self.spec.probe.model_dump(mode="json", exclude=NOT_DRAWN)
        return digest([probe, self.spec.digest, self.identity])

    def origin(self, item: Item) -> str:
        """Hash all that the measurement of an item depends on."""
        index, *block = item
        return digest([self._digest, self.spec.prompts[index].id, *block])


def digest_of(prompts: Sequence[Prompt], completions: str | None = None) -> str:
    """Hash prompts, and completions by their own digest."""
    rows = [[prompt.text, dict(prompt.record)] for prompt in prompts]
    # Rows given in memory may hold any objects.
    text = json.dumps(rows, default=str) + (completions or "")
    return hashlib.sha256(text.encode()).hexdigest()


def prepare(
    name: str, probe: Probe, folder: Path, root: Path, processes: Processes = SINGLE_PROCESS
) -> RunSpec:
    """Read everything that a run needs besides the model; the results go to `folder`."""
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward, chat=probe.prompts.chat)
    try_reward(reward, prompts)
    source = find_source(probe, prompts, root)
    prompts_digest = digest_of(prompts, source.digest)
    code = identify_code(estimators, identify_reward(reward, probe.reward))
    here = [dump_probe(probe), prompts_digest, code]
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
        digest=prompts_digest,
        code=code,
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
