"""The advice of a probe that was measured until it was known: written, printed."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from mse_lab.answers.advice import BUDGET, Advice, advise
from mse_lab.answers.epochs import NOT_SAID, Training
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.errors import InputError
from mse_lab.formatting import wrap
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.regret import SIZES
from mse_lab.mse.samples import Blocks, Samples
from mse_lab.mse.stopping import Decision, Stopped
from mse_lab.probe.schema import Probe
from mse_lab.report.advice_files import json_values, screen_width, write_advice
from mse_lab.report.advice_report import advice_text
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
) -> SampledRun:
    """Take samples of a probe's prompts for a run."""
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
    )


def advise_run(
    run: SampledRun, decision: Decision | None, sizes: Sequence[int] = ()
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
        return advise(run, sizes or SIZES, BUDGET)
    except InputError as error:
        raise InputError(f"{run.name}: {error}") from None


def say_limit(run: SampledRun, decision: Decision, limit: float) -> str:
    """Say what more completions of each prompt could still give, where there are no more.

    With endless ones the interval of log(G*-1) would have the half-width `limit`; NaN where
    that is not known.
    """
    if run.stopped not in ("budget", "exhausted"):
        return ""
    if math.isnan(limit) or math.isinf(decision.width):
        return "It is not known yet what more completions of these prompts would add."
    now, then = (f"{math.exp(width):.2g}" for width in (decision.width, limit))
    known = f"G*-1 is known within a factor of {now}."
    if now == then:
        return f"{known} More prompts can narrow that, more completions of these cannot."
    return (
        f"{known} More completions of these prompts can bring that down to {then}, more "
        "prompts further."
    )


def advise_samples(
    run: SampledRun,
    decision: Decision | None,
    limit: float,
    sizes: Sequence[int],
    folder: Path,
    training: Training = NOT_SAID,
    *,
    as_json: bool,
) -> str:
    """Advise from samples, and write the advice with its table and figure.

    Decision and limit are as for `advise_run` and `say_limit`.
    """
    advice = advise_run(run, decision, sizes)
    write_json(folder / "advice.json", advice.as_dict())
    advice = advice.for_training(training)
    if as_json:
        return json.dumps(json_values(advice), indent=2)
    screen = advice_text(advice, sizes, screen_width())
    if not advice.held:
        return screen.rstrip()
    written = ", ".join(["advice.json", *write_advice(folder, advice)])
    assert decision is not None  # or there would be no advice
    more = say_limit(run, decision, limit)
    more = f"{wrap(more, screen_width())}\n" * bool(more)
    return f"{screen}{more}Written to {folder}:\n  {written}"
