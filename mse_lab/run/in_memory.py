"""Measure a model that is in memory: the pipeline of `run_probe`, on a lent model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.errors import InputError, shown
from mse_lab.estimators import find_estimators
from mse_lab.policy.lent_model import lend_policy
from mse_lab.policy.policy import Policy
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.prompts import take_prompts
from mse_lab.probe.rewards import Reward, guard_reward, load_reward, try_reward
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Check
from mse_lab.results.finished_run import read_result
from mse_lab.results.records import Record
from mse_lab.results.shard import Shard
from mse_lab.run.finish import conclude
from mse_lab.run.prepare import Bench, Prepared, digest_of, equip
from mse_lab.run.processes import ALONE
from mse_lab.run.resume import measure_one
from mse_lab.run.run_probe import carry_out, measure_prompts

# Where nothing can be written.
NOWHERE = Path("/dev/null")

PROJECT = Path(__file__).resolve().parents[2]


class Measured(NamedTuple):
    """What was measured, the checks, and all that a reader should know."""

    analysis: Analysis
    checks: list[Check]
    warnings: list[str]


def _name(reward: Any) -> str:
    """Name a function as a probe would."""
    named = reward if hasattr(reward, "__qualname__") else type(reward)
    return f"{named.__module__}:{named.__qualname__}"


def _path(model: Any) -> str:
    return str(getattr(model, "name_or_path", "") or type(model).__name__)


def _configure(model: Any, reward: Any, settings: Mapping[str, Any]) -> Probe:
    """Write down as a probe what is measured, as far as a probe can say it."""
    device, dtype = getattr(model, "device", "cpu"), getattr(model, "dtype", "float32")
    own = {
        "model": {
            "path": _path(model),
            "device": str(device),
            "dtype": str(dtype).removeprefix("torch."),
        },
        "reward": reward if isinstance(reward, str) else _name(reward),
    }
    return parse_probe(own | dict(settings), "measure")


def _load_reward(reward: Any, probe: Probe) -> Reward:
    if isinstance(reward, str):
        return load_reward(reward)
    if callable(reward):
        what, chat = f"reward = {probe.reward}", probe.prompts.chat
        return guard_reward(reward, what, chat=chat)
    raise InputError(f"reward = {shown(reward)}: give a name or a function")


def _prepare(probe: Probe, prompts: Any, reward: Any, name: str, folder: Path) -> Prepared:
    function = _load_reward(reward, probe)
    ours = isinstance(reward, str)
    found = take_prompts(prompts, probe.prompts.template, answered=ours)
    try_reward(function, found)
    return Prepared(
        name=name,
        probe=probe,
        root=PROJECT,
        prompts=found,
        estimators=find_estimators(probe.estimators, probe.group_sizes, len(found)),
        reward=function,
        supplied=None,
        record=Record(folder),
        digest=digest_of(found),
        processes=ALONE,
    )


def _measure_unwritten(run: Prepared, policy: Policy, shown: bool) -> Measured:
    shards: list[Shard] = []

    def measure(bench: Bench, index: int) -> Shard:
        shards.append(measure_one(bench, index))
        return shards[-1]

    bench = equip(run, policy)
    measure_prompts(bench, range(len(run.prompts)), 0, measure, shown=shown)
    result, checks, warnings, _ = conclude(bench, shards)
    return Measured(result, checks, warnings)


def measure_model(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    reward: Any,
    settings: Mapping[str, Any],
    *,
    name: str | None,
    folder: Path | None,
    shown: bool,
) -> Measured:
    """Measure a model in memory, which is given back as it was.

    The `settings` are keys of a probe. The results go to the folder, from which a later
    call goes on, if there is one; a progress bar may be `shown`.

    Raises:
        InputError: Something of the user's is at fault.
    """
    probe = _configure(model, reward, settings)
    name = name or Path(_path(model)).name
    run = _prepare(probe, prompts, reward, name, folder or NOWHERE)
    with lend_policy(probe, model, tokenizer) as policy:
        if folder is None:
            return _measure_unwritten(run, policy, shown)
        done = carry_out(
            run, lambda run: equip(run, policy), identity=policy.identity, shown=shown
        )
    return Measured(read_result(folder), done.checks, done.warnings)
