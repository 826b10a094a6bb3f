"""Measure a model that is in memory, by the pipeline of `run_probe`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mse_lab.config.probe_files import parse_probe
from mse_lab.config.schema import Probe
from mse_lab.data.identity import identify_function, identify_prompts
from mse_lab.data.prompts import take_prompts
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import (
    Reward,
    identify_reward,
    load_reward,
    try_reward,
)
from mse_lab.errors import InputError, shown
from mse_lab.estimators import find_estimators, identify_estimators
from mse_lab.policy.borrowed_model import borrow_policy
from mse_lab.results.analysis import Analysis
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import START_OVER_IN_PYTHON, ResultsFolder
from mse_lab.results.measurement import PromptMeasurement
from mse_lab.results.shards import Item
from mse_lab.run.context import attach
from mse_lab.run.finish import conclude
from mse_lab.run.run_probe import execute_run, measure_prompts
from mse_lab.run.subject import Subject


def _model_path(model: Any) -> str:
    return str(getattr(model, "name_or_path", "") or type(model).__name__)


def _configure(model: Any, reward: Any, settings: Mapping[str, Any]) -> Probe:
    device, dtype = getattr(model, "device", "cpu"), getattr(model, "dtype", "float32")
    source = reward if hasattr(reward, "__qualname__") else type(reward)
    named = (
        reward if isinstance(reward, str) else f"{source.__module__}:{source.__qualname__}"
    )
    values = {
        "model": {
            "path": _model_path(model),
            "device": str(device),
            "dtype": str(dtype).removeprefix("torch."),
        },
        "reward": named,
    }
    return parse_probe(values | dict(settings), "measure")


def _load_reward(reward: Any, probe: Probe) -> Reward:
    if isinstance(reward, str):
        return load_reward(reward, chat=probe.prompts.chat)
    if isinstance(reward, UserReward):
        return reward
    if callable(reward):
        return UserReward(reward, f"reward = {probe.reward}", chat=probe.prompts.chat)
    raise InputError(f"reward = {shown(reward)}: give a name or a function")


@contextmanager
def borrow_subject(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    reward: Any,
    settings: Mapping[str, Any],
    name: str | None = None,
    folder: Path | None = None,
    *,
    block: int | None = None,
) -> Iterator[Subject]:
    """Make a subject of a model in memory for the body of a `with`; then it is as it was.

    `settings` are keys of a probe. If there is a folder, the results are written there, and
    a later call goes on from them. `block` is as in `attach`.
    """
    if not hasattr(tokenizer, "decode"):
        raise InputError(f"tokenizer: {type(tokenizer).__name__}; give the model's")
    probe = _configure(model, reward, settings)
    function, named = _load_reward(reward, probe), isinstance(reward, str)
    rows = take_prompts(prompts, probe.prompts, answered=named)
    try_reward(function, rows)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(rows))
    own = (
        identify_reward(function, reward)
        if named
        else {"reward": identify_function(reward)}
    )
    subject = Subject(
        name=name or Path(_model_path(model)).name,
        probe=probe,
        prompts=rows,
        reward=function,
        estimators=estimators,
        identity=identify_prompts(rows) | own | identify_estimators(estimators),
        results=None if folder is None else ResultsFolder(folder, START_OVER_IN_PYTHON),
    )
    with borrow_policy(probe, model, tokenizer) as policy:
        yield attach(subject, policy, block)


def measure_model(subject: Subject, *, shown: bool) -> Analysis:
    """Measure a borrowed subject, with a progress bar if `shown`."""
    if subject.results is not None:
        execute_run(subject, shown=shown)
        return read_run(subject.folder.path)
    store = dict[Item, PromptMeasurement]()
    measure_prompts(subject, store, range(len(subject.prompts)), shown=shown)
    result, noted, _ = conclude(subject, list(store.values()))
    return replace(result, noted=noted)
