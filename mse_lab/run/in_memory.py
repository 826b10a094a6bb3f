"""Measure a model that is in memory, by the pipeline of `run_probe` and `advise`."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.config.probe_files import parse_probe
from mse_lab.config.schema import Probe
from mse_lab.data.identity import identify_code, identify_function, identify_prompts
from mse_lab.data.prompts import take_prompts
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import (
    Reward,
    identify_reward,
    load_reward,
    try_reward,
)
from mse_lab.errors import InputError, shown
from mse_lab.estimators import find_estimators
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.mse.rule import Question
from mse_lab.policy.borrowed_model import borrow_policy
from mse_lab.policy.policy import Policy
from mse_lab.project import PROJECT
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Check
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import (
    ADVICE,
    START_OVER_IN_PYTHON,
    ResultsFolder,
)
from mse_lab.results.shards import Item
from mse_lab.run.advise import (
    LARGEST_BLOCK,
    SamplingEnd,
    order_prompts,
    refuse_few,
    sample_context,
    sample_until,
)
from mse_lab.run.context import attach_model, make_subject
from mse_lab.run.finish import conclude
from mse_lab.run.prepare import Inputs, RunSpec
from mse_lab.run.run_probe import execute_run, measure_prompts

# The analysis of what was measured, its checks, and its warnings.
AnalysedModel = tuple[Analysis, list[Check], list[str]]


class InMemoryInputs(NamedTuple):
    """A model in memory, and what it is measured on.

    `settings` are keys of a probe. If there is a folder, the results are written there, and
    a later call goes on from them.
    """

    model: Any
    tokenizer: Any
    prompts: Any
    reward: Any
    settings: Mapping[str, Any]
    name: str | None = None
    folder: Path | None = None


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
        return load_reward(reward)
    if callable(reward):
        return UserReward(reward, f"reward = {probe.reward}", chat=probe.prompts.chat)
    raise InputError(f"reward = {shown(reward)}: give a name or a function")


@contextmanager
def borrow_model(given: InMemoryInputs) -> Iterator[tuple[Inputs | RunSpec, Policy]]:
    """Make a policy of a model for the body of a `with`; afterwards it is as it was.

    With it comes what is measured, with a folder as a run's.
    """
    model, tokenizer, prompts, reward, settings, name, folder = given
    if not hasattr(tokenizer, "decode"):
        raise InputError(f"tokenizer: {type(tokenizer).__name__}; give the model's")
    probe = _configure(model, reward, settings)
    function, named = _load_reward(reward, probe), isinstance(reward, str)
    rows = take_prompts(prompts, probe.prompts, answered=named)
    try_reward(function, rows)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(rows))
    with borrow_policy(probe, model, tokenizer) as policy:
        inputs = Inputs(
            name=name or Path(_model_path(model)).name,
            probe=probe,
            prompts=rows,
            estimators=estimators,
            reward=function,
        )
        if folder is None:
            yield inputs, policy
            return
        identity = identify_reward(function, reward) if named else identify_function(reward)
        yield (
            RunSpec(
                **vars(inputs),
                root=PROJECT,
                results=ResultsFolder(folder, START_OVER_IN_PYTHON),
                identity=identify_prompts(rows) | identify_code(estimators, identity),
            ),
            policy,
        )


def measure_model(given: InMemoryInputs, *, shown: bool) -> AnalysedModel:
    """Measure a model in memory, with a progress bar if `shown`."""
    with borrow_model(given) as (inputs, policy):
        if isinstance(inputs, RunSpec):
            done = execute_run(inputs, policy=policy, shown=shown)
            return read_run(inputs.results.path), done.checks, done.warnings
        subject, store = make_subject(inputs, policy), dict[Item, PromptMeasurement]()
        measure_prompts(subject, store, range(len(inputs.prompts)), shown=shown)
        result, checks, warnings, _ = conclude(subject, list(store.values()))
        return result, checks, warnings


def sample_model(
    given: InMemoryInputs,
    question: Question,
    budget: int | None,
    *,
    seconds: float = math.inf,
    shown: bool,
) -> tuple[Inputs, SamplingEnd]:
    """Sample a model in memory until its answer is known, as `sample_probe` does.

    What is written nowhere is sampled for so many `seconds` at most.
    """
    if given.folder is not None:
        given = given._replace(folder=given.folder / ADVICE)
    with borrow_model(given) as (inputs, policy):
        refuse_few(len(order_prompts(inputs)), budget)
        if isinstance(inputs, RunSpec):
            context = attach_model(inputs, policy, LARGEST_BLOCK)
            return inputs, sample_context(context, question, budget, shown=shown)
        subject = make_subject(inputs, policy, LARGEST_BLOCK)
        ended = sample_until(subject, {}, question, budget, seconds=seconds, shown=shown)
        return inputs, ended
