"""What the runs of a study are runs of: a probe's settings, prompts and checkpoint.

A study goes on for hours and is started again; its runs must not mix two of them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mse_lab.policy.fingerprint import identify_model
from mse_lab.probe.probe_files import flatten, load_probe, probe_file
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import identify_reward, load_reward
from mse_lab.results.folder import identify_code
from mse_lab.run.prepare import digest_of
from mse_lab.studies.training.settings import Arm, trained_estimator
from mse_lab.studies.training.task import probe_of_prompts

# Of a probe's settings those that a training, its pilots and J depend on.
USED = {"model", "prompts", "reward", "sampling", "parameters", "seed"}


def origin_of(name: str, held_out: str | None, root: Path) -> dict[str, Any]:
    """Describe a probe by its settings and hashes.

    A checkpoint that is still to be downloaded has no hash.

    Raises:
        InputError: Something of it cannot be read.
    """
    probe = load_probe(probe_file(name, root))
    parts = flatten(probe.model_dump(mode="json", include=USED))
    parts["prompts"] = digest_of(load_prompts(probe.prompts, root))
    if held_out:
        others = probe_of_prompts(probe, held_out).prompts
        parts["held_out"] = digest_of(load_prompts(others, root))
    if code := identify_reward(load_reward(probe.reward), probe.reward):
        parts["reward.code"] = code
    for part, digest in identify_model(probe.model, root).items():
        if digest:
            parts[f"checkpoint.{part}"] = digest
    return parts


def origins_of(arms: Sequence[Arm], root: Path) -> dict[str, dict[str, Any]]:
    """Describe the probes of a study and its users' estimators: name -> `origin_of`."""
    probes = {arm.training.probe: arm.evaluation.held_out for arm in arms}
    origins = {name: origin_of(name, held_out, root) for name, held_out in probes.items()}
    for arm in arms:
        origins[arm.training.probe] |= identify_code([trained_estimator(arm.training)])
    return origins
