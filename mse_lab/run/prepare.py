"""Prepare a run: all that may be refused is, before anything is measured.

`prepare` needs no model, so that a finished run is found at once; `load` brings the policy
to the prompts. `run` and `plan` start by both, and refuse the same.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from numpy import float32
from numpy.typing import NDArray

from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.policy.policy import Policy, encode_prompts, load_policy
from mse_lab.policy.supplied_completions import Supplied, find_completions
from mse_lab.probe.probe_files import dump_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import Reward, load_reward, try_reward
from mse_lab.probe.schema import Probe
from mse_lab.results.records import Record
from mse_lab.run.memory import Memory, plan_memory
from mse_lab.run.processes import ALONE, Processes
from mse_lab.scores import sketches
from mse_lab.scores.reference import Gradient


@dataclass(frozen=True)
class Prepared:
    """What one run is about, but for the model.

    Attributes:
        name: The probe's name, for tables and the progress bar.
        root: The project's folder, which relative paths may start from.
        reward: The reward, tried on every prompt.
        supplied: The completions that are read instead of drawn, if any.
        record: The folder of the results.
        digest: Hash of what prompts and supplied completions are: on resuming the same?
        processes: Those that share the prompts.
    """

    name: str
    probe: Probe
    root: Path
    prompts: list[Prompt]
    estimators: list[Estimator]
    reward: Reward
    supplied: Supplied | None
    record: Record
    digest: str
    processes: Processes


@dataclass(frozen=True)
class Bench(Prepared):
    """All that a prompt is measured with.

    Attributes:
        tokens: The token ids of each prompt.
        keep_vectors: Whether reference vectors are kept as they are, not as sketches.
        memory: How much is done at once.
    """

    policy: Policy
    tokens: list[list[int]]
    keep_vectors: bool
    memory: Memory

    def keep(self, gradient: Gradient) -> NDArray[float32]:
        """Give what is kept of a reference vector beyond its prompt."""
        if not self.keep_vectors:
            return sketches.sketch(gradient, self.probe.seed)
        # A prompt may leave out parameters that another uses, such as an expert's.
        whole = {
            name: gradient.get(name, torch.zeros_like(parameter))
            for name, parameter in self.policy.parameters.items()
        }
        return sketches.flatten(whole)

    def with_batch(self, completions: int) -> Policy:
        """Give the policy, so many completions in one of its passes."""
        return replace(self.policy, batch=completions)


def digest_of(prompts: list[Prompt], supplied: Supplied | None = None) -> str:
    """Hash what prompts and supplied completions are."""
    rows = [[prompt.text, dict(prompt.record)] for prompt in prompts]
    # What is in memory may hold anything.
    text = json.dumps(rows, default=str)
    if supplied is not None:
        text += supplied.digest
    return hashlib.sha256(text.encode()).hexdigest()


def prepare(
    name: str, probe: Probe, folder: Path, root: Path, processes: Processes = ALONE
) -> Prepared:
    """Read everything that a run needs beside the model; the results go to `folder`.

    Raises:
        InputError: Something of the user's is at fault.
    """
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward, chat=probe.prompts.chat)
    try_reward(reward, prompts)
    supplied = find_completions(probe, prompts, root) if probe.completions else None
    digest = digest_of(prompts, supplied)
    mine = [dump_probe(probe), digest]
    if processes.agree(lambda: mine) != mine:
        raise InputError(
            "this process's probe, prompts or completions are not those of process 0; "
            "give all machines the same files"
        )
    return Prepared(
        name, probe, root, prompts, estimators, reward, supplied, Record(folder), digest,
        processes,
    )  # fmt: skip


def load(run: Prepared) -> Bench:
    """Load the model, and see that prompts and completions fit it.

    Raises:
        InputError: They do not, or the model cannot be loaded or measured.
    """
    return equip(run, load_policy(run.processes.place(run.probe), run.root))


def equip(run: Prepared, policy: Policy) -> Bench:
    """See that prompts and completions fit a policy.

    Raises:
        InputError: They do not, or the policy cannot be measured.
    """
    probe, prompts, supplied = run.probe, run.prompts, run.supplied
    new_tokens = probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=probe.prompts.chat, new_tokens=new_tokens)
    bench = Bench(
        **vars(run),
        policy=policy,
        tokens=tokens,
        keep_vectors=sketches.vectors_fit(len(prompts), policy.size),
        memory=plan_memory(probe, policy, tokens),
    )
    if supplied is not None:
        run.processes.agree(lambda: supplied.validate(policy, probe))
    return bench
