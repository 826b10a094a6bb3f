"""The advice in Python: measure a model in memory until its answer is known.

import mse_lab
tokens = {"max_new_tokens": 32}
advice = mse_lab.advise(model, tokenizer, prompts, reward, sampling=tokens)
print(advice)  # the screen of `mse-lab advise`
advice.verdict, advice.set_to, advice.steps_saved, advice.completions, advice.stopped
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mse_lab.answers.advice import make_advice
from mse_lab.answers.advice_evidence import Evidence, ask, evidence_of_samples
from mse_lab.api.measure import in_memory_inputs
from mse_lab.api.result import Advice
from mse_lab.config.schema import PromptPopulation
from mse_lab.config.training import Setting, read_training
from mse_lab.errors import InputError, is_count, is_share, shown
from mse_lab.mse.rule import TOLERANCE, Question
from mse_lab.mse.samples import Samples
from mse_lab.results.checks import none_failed

if TYPE_CHECKING:
    from mse_lab.run.advise import SamplingEnd
    from mse_lab.run.in_memory import InMemoryInputs
    from mse_lab.run.prepare import Inputs


def advise(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    reward: str | Callable[..., Any],
    *,
    regret: float = TOLERANCE,
    budget: int | None = None,
    completions_per_step: int | None = None,
    sampling: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    interval: Mapping[str, Any] | None = None,
    parameters: str | Sequence[str] = "all",
    template: str = "none",
    chat: bool = False,
    population: PromptPopulation = "like-these",
    seed: int = 0,
    name: str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Advice:
    """Measure a model that is in memory until it is known which group size suits it.

    This is the pipeline of `mse-lab advise`. All arguments are as in `measure` unless said
    otherwise here.

    Args:
        model: A causal language model of transformers; it is returned as it was.
        tokenizer: Its tokenizer.
        prompts: As in `measure`, in any order: they are chosen at random.
        reward: As in `measure`.
        regret: How much more than the best size is all right.
        budget: The most completions that are drawn in all; None for 8,192.
        completions_per_step: N of the training, where `training` does not say it.
        sampling: `max_new_tokens` and `temperature`.
        training: As in `measure`: what the verdict is about.
        interval: `level` and `resamples`.
        parameters: As in `measure`.
        template: As in `measure`.
        chat: As in `measure`.
        population: As in `measure`.
        seed: The seed of all draws.
        name: The name of what is advised on; by default the model's.
        out: A folder for the samples, from which a later call resumes; by default nothing
            is written.
        progress: Whether the interval of the best size is shown as it narrows.

    Raises:
        InputError: An argument is not usable, or no reward varied; the message says which.
    """
    if not is_share(regret):
        raise InputError(f"regret = {shown(regret)}: give a share such as 0.05")
    counts = {"budget": budget, "completions_per_step": completions_per_step}
    for key, count in counts.items():
        if not (count is None or is_count(count)):
            raise InputError(f"{key} = {shown(count)}: give a whole number, or None")
    inputs = in_memory_inputs(
        "advise",
        model,
        tokenizer,
        prompts,
        reward,
        name,
        out,
        sampling=sampling,
        training=training,
        interval=interval,
        parameters=parameters,
        template=template,
        chat=chat,
        population=population,
        seed=seed,
    )
    setting = read_training(training)
    level = interval.get("level", 0.95) if isinstance(interval, Mapping) else 0.95
    question = ask(setting, level, regret, completions_per_step or 0)
    evidence = sample_evidence(inputs, setting, question, budget, shown=progress)
    return Advice(**vars(make_advice(evidence)))


def sample_evidence(
    inputs: "InMemoryInputs",
    setting: Setting,
    question: Question,
    budget: int | None,
    *,
    seconds: float = math.inf,
    shown: bool,
) -> Evidence:
    """Measure a model in memory until its answer is known, within so many `seconds`."""
    from mse_lab.run.in_memory import sample_model

    ended = sample_model(inputs, question, budget, seconds=seconds, shown=shown)
    return evidence_of(*ended, setting, question)


def evidence_of(
    spec: "Inputs", ended: "SamplingEnd", setting: Setting, question: Question
) -> Evidence:
    """Take what a measurement until the answer is known has ended with."""
    return evidence_of_samples(
        spec.name,
        spec.probe,
        Samples.of(ended.prompts),
        setting,
        question,
        ended.stopped,
        ended.at_hand,
        held=none_failed(ended.checks),
        warnings=ended.warnings,
    )
