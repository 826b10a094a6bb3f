"""The Python interface: from a model in memory, or from arrays, to every answer.

    import mse_lab
    tokens = {"max_new_tokens": 32}
    result = mse_lab.measure(model, tokenizer, prompts, reward, sampling=tokens)
    print(result.advice)  # the screen of `mse-lab advise`
    result.mse, result.prompts, result.advice.set_to
    result.plot("advice").savefig("advice.png")

`analyse` needs arrays alone, no model and no torch. So scores that were computed elsewhere
can be analysed, intervals and estimators can be changed afterwards, and the statistics can
be tested on arrays whose truth is known.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from mse_lab.api.result import Result
from mse_lab.config.schema import EstimatorEntry, IntervalMethod, PromptPopulation
from mse_lab.config.training import read_training
from mse_lab.data.foreign_code import load_extra
from mse_lab.errors import InputError, shown
from mse_lab.mse.pools import Pools
from mse_lab.results.analysis import Analysis

if TYPE_CHECKING:
    from mse_lab.run.in_memory import InMemoryInputs

# One, or several; also as an array.
Sizes = int | Iterable[int]
Entries = EstimatorEntry | Iterable[EstimatorEntry]


def measure(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    reward: str | Callable[..., Any],
    *,
    group_sizes: Sizes | None = None,
    estimators: Entries | None = None,
    sampling: Mapping[str, Any] | None = None,
    pool: Mapping[str, int] | None = None,
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
) -> Result:
    """Measure the estimators' MSE for a model that is in memory already.

    This is the pipeline of `mse-lab run`, with its checks; arguments that are not given
    have the defaults of a probe. The model is measured in evaluation mode and returned as
    it was: its modes, `requires_grad` and gradients, its precision and device.

    Args:
        model: A causal language model of transformers. Parameters that do not require
            gradients do not count, as where it has an adapter of PEFT.
        tokenizer: Its tokenizer.
        prompts: Texts, mappings, or a data frame, with `problem` (or TRL's `prompt`), a
            text or with `chat` also messages, and `answer` where the reward is one of
            ours; `id` and `category` may be missing.
        reward: A name as in a probe; or a function `(text, row) -> float` of a completion's
            text and its prompt's mapping; or one as for TRL, `(completions, **columns) ->
            list`, which is called for some completions of one prompt; or verl's
            `compute_score`, called by its names.
        group_sizes: Group sizes G, or one; each divides the largest.
        estimators: As in a probe: names, or mappings of a name and parameters; or one.
        sampling: `max_new_tokens` and `temperature`.
        pool: Completions of each prompt: `reference` and `replicate`.
        training: What the advice judges, as in a probe: `trainer` (trl, rloo, verl or
            other), `config`, its file, `words`, and its own settings; of another trainer
            `G`, `completions_per_step` and `estimator`; by default TRL's defaults.
        interval: `method`, `level` and `resamples`.
        parameters: `all`, or regular expressions on the names of those that count.
        template: The text around a problem, as in a probe; by default none.
        chat: Whether prompts go through the tokenizer's chat template.
        population: `like-these` if the prompts are a random sample of those that count,
            `these` if there are no others, as where they are the training set.
        seed: The seed of all draws.
        name: The name in the rows of the tables; by default the model's.
        out: A folder for all files of a run, from which an interrupted call resumes; by
            default nothing is written.
        progress: Whether a progress bar is shown.

    Raises:
        InputError: An argument is not usable; the message names it.
    """
    inputs = in_memory_inputs(
        "measure",
        model,
        tokenizer,
        prompts,
        reward,
        name,
        out,
        group_sizes=None if group_sizes is None else read_sizes(group_sizes),
        estimators=None if estimators is None else _entries(estimators),
        sampling=sampling,
        pool=pool,
        interval=interval,
        training=training,
        parameters=parameters,
        template=template,
        chat=chat,
        population=population,
        seed=seed,
    )
    from mse_lab.run.in_memory import measure_model

    setting = read_training(training)
    analysis, checks, noted = measure_model(inputs, shown=progress)
    measured = {field.name: getattr(analysis, field.name) for field in fields(Analysis)}
    return Result(**measured, checks=tuple(checks), noted=tuple(noted), setting=setting)


def in_memory_inputs(
    function: str,
    model: Any,
    tokenizer: Any,
    prompts: Any,
    reward: Any,
    name: str | None,
    out: str | Path | None,
    *,
    template: str,
    chat: bool,
    population: PromptPopulation,
    **settings: Any,
) -> "InMemoryInputs":
    """Collect what a function of this interface is given about a model in memory.

    `settings` are keys of a probe; None stands for the default of a section.
    """
    for library in ("torch", "transformers"):
        load_extra(library, "measure", function)
    from mse_lab.run.in_memory import InMemoryInputs

    keys = {
        key: _plain(value)
        for key, value in settings.items()
        if value is not None or key in ("seed", "parameters")
    }
    keys["prompts"] = {"source": "memory", "template": template, "chat": chat}
    keys["prompts"]["population"] = population
    rows = prompts.to_dict("records") if isinstance(prompts, pd.DataFrame) else prompts
    if not (out is None or isinstance(out, str | PathLike)):
        raise InputError(f"out = {shown(out)}: give a folder, or None")
    if not (name is None or isinstance(name, str)):
        raise InputError(f"name = {shown(name)}: give a text, or None")
    folder = None if out is None else Path(out)
    return InMemoryInputs(model, tokenizer, rows, reward, keys, name, folder)


def analyse(
    arrays: Mapping[str, Any],
    *,
    group_sizes: Sizes,
    estimators: Entries = ("vanilla", "grpo", "oracle"),
    level: float = 0.95,
    resamples: int = 2000,
    method: IntervalMethod = "closed-form",
    seed: int = 0,
    name: str = "pools",
    described: pd.DataFrame | None = None,
    population: PromptPopulation = "like-these",
) -> Result:
    """Analyse pools: errors, exact laws, intervals, the paper's statements, advice.

    Args:
        arrays: By the names of `Pools`, as in `pools.npz`; the two `kind_*` and
            `logit_norms2_PN` may be absent.
        group_sizes: Group sizes G, or one; each divides the G of the blocks in `gram_PKGG`.
        estimators: As in a probe: names, or mappings of a name and parameters; or one.
        level: Coverage of intervals, between 0 and 1.
        resamples: Draws of the reference's noise, and of the bootstrap.
        method: How intervals are computed: `closed-form`, or `bootstrap`, which draws
            groups within prompts, and prompts for the advice.
        seed: The seed of all draws.
        name: The name in the rows of the tables.
        described: A row for each prompt with `prompt` (its id), `category`, `mean_length`
            and `truncated`; by default its number and what the pools know.
        population: As in `measure`.

    Raises:
        InputError: An argument is not usable; the message names it.
    """
    pools = Pools.from_arrays(arrays)
    sizes = tuple(dict.fromkeys(read_sizes(group_sizes)))
    refuse_sizes(sizes, pools.largest_group)
    level = _number("level", level, float)
    resamples, seed = _number("resamples", resamples), _number("seed", seed)
    if not 0 < level < 1:
        raise InputError(f"level: {level} is not between 0 and 1; take 0.95")
    if resamples < 2:
        raise InputError(f"resamples: {resamples} is too few; take 2000")
    if method not in get_args(IntervalMethod):
        raise InputError(f"method: {shown(method)}; give closed-form or bootstrap")
    if population not in get_args(PromptPopulation):
        raise InputError(f"population: {shown(population)}; give like-these or these")
    if described is None:
        described = _describe(pools)
    entries = tuple(_entries(estimators))
    result = Result(
        name, pools, entries, sizes, level, resamples, seed, described, method, population
    )
    if not result.estimators:  # this refuses those that do not exist, by name
        raise InputError("estimators: none given; give one or more")
    return result


def _number(name: str, given: Any, kind: Callable[[Any], Any] = operator.index) -> Any:
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise InputError(f"{name} = {shown(given)}: give a number") from None


def read_sizes(given: Any) -> list[int]:
    """Read whole numbers, or a single one; they may be NumPy's or torch's."""
    try:
        sizes = list(given)
    except TypeError:
        sizes = [given]
    try:
        return [operator.index(size) for size in sizes]
    except TypeError:
        raise InputError(
            f"group_sizes = {shown(given)}: give whole numbers, such as [4, 8]"
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [*value]
    return value


def _entries(given: Entries) -> list[EstimatorEntry]:
    if not isinstance(given, Iterable):
        what = f"estimators = {shown(given)}"
        raise InputError(f"{what}: give names, or mappings with one")
    return [given] if isinstance(given, str | dict) else list(given)


def refuse_sizes(group_sizes: Sequence[int], largest: int) -> None:
    """Refuse group sizes that do not divide the completions of a block."""
    if not group_sizes:
        raise InputError("group_sizes: none given; give one or more")
    for size in group_sizes:
        if size < 1 or largest % size:
            raise InputError(
                f"group_sizes: {size} does not divide the {largest} completions of a block"
            )


def _describe(pools: Pools) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "prompt": [str(index) for index in range(pools.prompts)],
            "category": "",
            "mean_length": pools.lengths_PN.mean(-1),
            "truncated": float("nan"),
        }
    )
