"""The advice of a probe that was measured until it was known: written, printed."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.alternatives import Seconds
from mse_lab.answers.felt import Optimizer
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.errors import InputError
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.regret import SIZES
from mse_lab.mse.samples import Blocks, Samples
from mse_lab.mse.stopping import Stopped
from mse_lab.mse.verdict import BUDGET, Decision
from mse_lab.probe.schema import Probe
from mse_lab.probe.training import Setting, find_setting
from mse_lab.report.advice_files import write_advice
from mse_lab.results.files import write_json


def as_run(
    name: str,
    probe: Probe,
    prompts: Sequence[Blocks],
    stopped: Stopped,
    regret: float,
    *,
    held: bool,
    metric: MetricPools | None = None,
    warnings: Sequence[str] = (),
    size: float = math.inf,
    setting: Setting | None = None,
) -> SampledRun:
    """Make a run of samples of a probe's prompts, of which there are `size` in all."""
    return SampledRun(
        name=name,
        samples=Samples.of(prompts),
        stopped=stopped,
        level=probe.interval.level,
        tolerance=regret,
        seed=probe.seed,
        resamples=probe.interval.resamples,
        entries=tuple(probe.estimators),
        held=held,
        metric=metric,
        told=tuple(warnings),
        size=size,
        setting=setting or find_setting(probe.training),
    )


def advise_sampled_run(
    run: SampledRun,
    decision: Decision | None,
    sizes: Sequence[int] = (),
    seconds: Seconds | None = None,
) -> Advice:
    """Advise from samples; the decision is None where nothing could be decided."""
    if decision is None:
        samples = run.samples
        mean = sum(rewards.mean() for rewards in run.rewards) / samples.prompts
        differ = sum(len(set(rewards)) > 1 for rewards in run.rewards)
        raise InputError(
            f"{run.name}: rewards differ within {differ} of {samples.prompts} prompts, in "
            f"{samples.completions:,} completions of mean reward {mean:.2g}: nothing "
            "to advise on; check the reward, or give more prompts, or some that the model "
            "gets right now and then"
        )
    try:
        return advise(run, sizes or SIZES, BUDGET, seconds)
    except InputError as error:
        raise InputError(f"{run.name}: {error}") from None


def write_sampled_advice(
    run: SampledRun,
    decision: Decision | None,
    sizes: Sequence[int],
    folder: Path,
    optimizer: Optimizer = "adamw",
    seconds: Seconds | None = None,
    *,
    as_json: bool,
) -> str:
    """Advise from samples, and write the advice with its table and figure.

    The decision is as for `advise_sampled_run`.
    """
    advice = advise_sampled_run(run, decision, sizes, seconds)
    write_json(folder / "advice.json", advice.as_dict())
    return write_advice(
        folder,
        replace(advice, optimizer=optimizer),
        as_json=as_json,
        written=["advice.json"],
    )
