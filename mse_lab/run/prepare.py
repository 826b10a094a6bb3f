"""Prepare a measurement: all input but the model is read and checked, without torch.

So what is wrong is refused at once, and a finished run is recognised without its model.
`run/context.py` goes on with the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.config.probe_files import dump_probe
from mse_lab.config.schema import Probe
from mse_lab.data.identity import identify_code, identify_prompts
from mse_lab.data.prompts import Prompt, read_prompts
from mse_lab.data.rewards import (
    Reward,
    identify_reward,
    load_reward,
    reads_answer,
    reward_kind,
    try_reward,
)
from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.processes import SINGLE_PROCESS, Processes

if TYPE_CHECKING:
    from mse_lab.policy.supplied_completions import Supplied


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What is measured, without the model."""

    name: str  # The probe's name, for tables and the progress bar.
    probe: Probe  # The settings: sampling, pool sizes, group sizes, seed.
    prompts: Sequence[Prompt]
    in_source: int = 0  # How many prompts there are beside; 0 where that is not known.
    reward: Reward  # The reward, tried on every prompt.
    # The estimators that will be evaluated; rewards that one cannot take are refused.
    estimators: Sequence[Estimator] = ()
    # The file that completions are read from; None where the policy draws them.
    supplied: "Supplied | None" = None

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each prompt: copies are one kind, but all of a set differ."""
        if self.probe.prompts.population == "these":
            return [prompt.id for prompt in self.prompts]
        return [reward_kind(prompt, self.reward) for prompt in self.prompts]


@dataclass(frozen=True, kw_only=True)
class RunSpec(Inputs):
    """What a run measures, and where its results go; without the model."""

    root: Path  # The project's folder, which relative paths may start from.
    results: ResultsFolder  # The folder of the results.
    # What must be the same when it is resumed, by part: prompts, supplied completions, and
    # the user's own reward and estimators.
    identity: Mapping[str, str]
    processes: Processes = SINGLE_PROCESS  # Those that share the prompts.


def find_supplied(probe: Probe, prompts: Sequence[Prompt], root: Path) -> "Supplied | None":
    """Read the file of completions that a probe names; None where it names none."""
    if probe.completions is None:
        return None
    from mse_lab.policy.supplied_completions import find_completions

    return find_completions(probe, prompts, root)


def prepare(
    name: str, probe: Probe, folder: Path, root: Path, processes: Processes = SINGLE_PROCESS
) -> RunSpec:
    """Read everything that a run needs besides the model; the results go to `folder`."""
    prompts, in_source = read_prompts(
        probe.prompts, root, seed=probe.seed, answered=reads_answer(probe.reward)
    )
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward, chat=probe.prompts.chat)
    try_reward(reward, prompts)
    supplied = find_supplied(probe, prompts, root)
    identity = {
        **identify_prompts(prompts),
        **({} if supplied is None else {"file of completions": supplied.digest}),
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
        in_source=in_source,
        estimators=estimators,
        reward=reward,
        supplied=supplied,
        results=ResultsFolder(folder),
        identity=identity,
        processes=processes,
    )
