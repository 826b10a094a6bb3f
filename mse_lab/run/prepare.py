"""Prepare a run: all that may be refused is, before anything is measured.

`prepare` needs no model, so that a finished run is found at once; `load` brings the policy
to the prompts. `run` and `plan` start by both, and refuse the same.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.policy.policy import encode_prompts, load_policy
from mse_lab.policy.supplied import Supplied, find_completions
from mse_lab.probe.probe_files import dump_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import Reward, load_reward, try_reward
from mse_lab.probe.schema import Probe
from mse_lab.results.records import Record
from mse_lab.run.memory import plan_memory
from mse_lab.run.one_prompt import Bench
from mse_lab.run.processes import ALONE, Processes
from mse_lab.scores.sketches import vectors_fit


@dataclass(frozen=True)
class Prepared:
    """What one run is about.

    Attributes:
        name: The probe's name, for tables and the progress bar.
        probe: The configuration.
        root: The project's folder, which relative paths may start from.
        prompts: The prompts.
        estimators: The estimators.
        reward: The reward, tried on the first prompt.
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


def _digest(prompts: list[Prompt], supplied: Supplied | None) -> str:
    text = json.dumps([[prompt.text, dict(prompt.record)] for prompt in prompts])
    if supplied is not None:
        text += supplied.digest
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_unequal(processes: Processes, probe: Probe, digest: str) -> None:
    """See that all processes, maybe on different machines, are about the same thing."""
    mine = (dump_probe(probe), digest)
    if processes.agree(lambda: mine) != mine:
        raise InputError(
            "this process's probe, prompts or completions are not those of process 0; "
            "give all machines the same files"
        )


def prepare(
    name: str, probe: Probe, folder: Path, root: Path, processes: Processes = ALONE
) -> Prepared:
    """Read everything that a run needs beside the model.

    Args:
        name: The probe's name.
        probe: The configuration.
        folder: Where the results go.
        root: The project's folder, which relative paths may start from.
        processes: Those that share the prompts; each of them calls this.

    Raises:
        InputError: Something of the user's is at fault.
    """
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward)
    try_reward(reward, prompts)
    supplied = find_completions(probe, prompts, root) if probe.completions else None
    digest = _digest(prompts, supplied)
    _refuse_unequal(processes, probe, digest)
    return Prepared(
        name, probe, root, prompts, estimators, reward, supplied, Record(folder), digest,
        processes,
    )  # fmt: skip


def load(run: Prepared) -> Bench:
    """Load the model, and see that prompts and completions fit it.

    Raises:
        InputError: They do not, or the model cannot be loaded or measured.
    """
    probe, prompts = run.probe, run.prompts
    policy = load_policy(run.processes.place(probe), run.root)
    new_tokens = probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=probe.prompts.chat, new_tokens=new_tokens)
    supplied = run.supplied
    bench = Bench(
        probe=probe,
        policy=policy,
        reward=run.reward,
        prompts=prompts,
        tokens=tokens,
        keep_vectors=vectors_fit(len(prompts), policy.size),
        memory=plan_memory(probe, policy, tokens),
        supplied=supplied,
    )
    if supplied is not None:
        run.processes.agree(lambda: supplied.validate(policy, probe))
    return bench
