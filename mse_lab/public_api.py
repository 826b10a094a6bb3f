"""The public door: a model in memory, or documented arrays, to every answer.

    import mse_lab
    tokens = {"max_new_tokens": 32}
    result = mse_lab.measure(model, tokenizer, prompts, reward, sampling=tokens)
    print(result.advice)  # the screen of `mse-lab advise`
    result.mse, result.prompts, result.advice.recommended
    result.plot("advice").savefig("advice.png")

Arrays need no model and no torch: scores that were computed elsewhere can be brought,
intervals and estimators changed afterwards, and the statistics put to arrays whose truth is
known. Of the configuration of a finished run only what is used after the scores can be set:
group sizes that divide those measured, estimators, intervals, the seed of their draws.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.errors import InputError, shown
from mse_lab.mse.pools import Pools
from mse_lab.probe.probe_files import assign, flatten, parse_probe
from mse_lab.probe.schema import EstimatorEntry
from mse_lab.result import Result
from mse_lab.results.analysis import Analysis
from mse_lab.results.finished_run import read_finished
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.integrity import read_arrays

SETTINGS = ("group_sizes", "estimators", "interval.level", "interval.resamples", "seed")

# Of pools that come without a configuration, those that divide the largest group.
GROUP_SIZES = (4, 8, 16, 32, 64)

# One, or several; sizes of an array, too.
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
    interval: Mapping[str, Any] | None = None,
    parameters: str | Sequence[str] = "all",
    template: str = "none",
    chat: bool = False,
    seed: int = 0,
    name: str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Result:
    """Measure the estimators' MSE for a model that is in memory already.

    The command's own pipeline, checks included; what is not given has the default of a
    probe. The model is measured in evaluation mode and comes back as it was: its modes,
    `requires_grad` and gradients, its precision and device.

    Args:
        model: A causal language model of transformers; of one with an adapter of PEFT, or
            with frozen parameters, only those count that require gradients.
        tokenizer: Its tokenizer.
        prompts: Texts, mappings, or a data frame, with `problem`, and `answer` where the
            reward is one of ours; `id` and `category` may be missing.
        reward: A name as in a probe; or a function `(text, row) -> float` of a completion's
            text and its prompt's mapping; or one as for TRL, `(completions, **columns) ->
            list`, called for one completion at a time.
        group_sizes: Group sizes G, or one; each divides the largest.
        estimators: As in a probe: names, or mappings of a name and parameters; or one.
        sampling: `max_new_tokens` and `temperature`.
        pool: Completions of each prompt: `reference` and `replicate`.
        interval: `level` and `resamples`.
        parameters: `all`, or regular expressions on the names of those that count.
        template: The text around a problem, as in a probe; by default none.
        chat: Whether prompts go through the tokenizer's chat template.
        seed: Of all draws.
        name: Heads the rows of the tables; by default the model's.
        out: A folder for all files of a run, which then goes on where it was interrupted;
            by default nothing is written.
        progress: Whether a bar is shown.

    Raises:
        InputError: Something of these is not usable; the message names it.
    """
    from mse_lab.run.in_memory import measure_model

    sections = {"sampling": sampling, "pool": pool, "interval": interval}
    settings = {
        "prompts": {"source": "memory", "template": template, "chat": chat},
        "seed": _plain(seed),
        **{
            key: {name: _plain(value) for name, value in section.items()}
            for key, section in sections.items()
            if section is not None
        },
        **({} if group_sizes is None else {"group_sizes": _sizes(group_sizes)}),
        **({} if estimators is None else {"estimators": _entries(estimators)}),
        "parameters": parameters if isinstance(parameters, str) else list(parameters),
    }
    analysis, checks, noted = measure_model(
        model,
        tokenizer,
        prompts.to_dict("records") if isinstance(prompts, pd.DataFrame) else prompts,
        reward,
        settings,
        name=name,
        folder=None if out is None else Path(out),
        shown=progress,
    )
    given = {field.name: getattr(analysis, field.name) for field in fields(Analysis)}
    return Result(**given, checks=tuple(checks), noted=tuple(noted))


def analyse(
    arrays: Mapping[str, Any],
    *,
    group_sizes: Sizes,
    estimators: Entries = ("vanilla", "grpo", "oracle"),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    name: str = "pools",
    described: pd.DataFrame | None = None,
) -> Result:
    """Analyse pools: errors, exact laws, intervals, the paper's statements, advice.

    Args:
        arrays: By the names of `Pools`, as in `pools.npz`; the two `kind_*` may be absent.
        group_sizes: Group sizes G, or one; each divides the G of the blocks in `gram_PKGG`.
        estimators: As in a probe: names, or mappings of a name and parameters; or one.
        level: Coverage of intervals, between 0 and 1.
        resamples: Draws of the reference's noise.
        seed: Of all draws.
        name: Heads the rows of the tables.
        described: Of each prompt `prompt` (its id), `category`, `mean_length` and
            `truncated`; by default its number and what the pools know.

    Raises:
        InputError: Something of these is not usable; the message names it.
    """
    pools = Pools.from_arrays(arrays)
    sizes = tuple(dict.fromkeys(_sizes(group_sizes)))
    _refuse_sizes(sizes, pools.largest_group)
    level = _number("level", level, float)
    resamples, seed = _number("resamples", resamples), _number("seed", seed)
    if not 0 < level < 1:
        raise InputError(f"level: {level} is not between 0 and 1; take 0.95")
    if resamples < 2:
        raise InputError(f"resamples: {resamples} is too few; take 2000")
    if described is None:
        described = _describe(pools)
    entries = tuple(_entries(estimators))
    result = Result(name, pools, entries, sizes, level, resamples, seed, described)
    if not result.estimators:  # those that are not to be had are named here
        raise InputError("estimators: none given; give one or more")
    return result


def _number(name: str, given: Any, kind: Callable[[Any], Any] = operator.index) -> Any:
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise InputError(f"{name} = {shown(given)}: give a number") from None


def _sizes(given: Any) -> list[int]:
    """Read whole numbers, of Python's, NumPy's or torch's, or a single one."""
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
    """Make Python's number of one of NumPy's."""
    return value.item() if isinstance(value, np.generic) else value


def _entries(given: Entries) -> list[EstimatorEntry]:
    return [given] if isinstance(given, str | dict) else list(given)


def _refuse_sizes(group_sizes: Sequence[int], largest: int) -> None:
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


def reanalyse(source: Path, assignments: Sequence[str]) -> Result:
    """Analyse pools again.

    Args:
        source: The folder of a finished run, or a file like its `pools.npz`.
        assignments: Texts `dotted.key=value` for the keys of `SETTINGS`.

    Raises:
        InputError: The source cannot be read, or a setting cannot be used.
    """
    if source.is_dir():
        name, _, pools, described = read_finished(source)
        values = ResultsFolder(source).configuration()
    else:
        name, described = source.stem, None
        pools = Pools.from_arrays(read_arrays(source, "name a file like pools.npz"))
        values = _least_configuration(pools)
    for assignment in assignments:
        assign(values, assignment)
        _refuse_measured(assignment)
    _refuse_sizes(_sizes(values["group_sizes"]), pools.largest_group)
    probe = parse_probe(values, "--set" if assignments else name)
    return analyse(
        vars(pools),
        group_sizes=probe.group_sizes,
        estimators=probe.estimators,
        level=probe.interval.level,
        resamples=probe.interval.resamples,
        seed=probe.seed,
        name=name,
        described=described,
    )


def _least_configuration(pools: Pools) -> dict[str, Any]:
    largest, counts = pools.largest_group, (pools.reference_rewards_PN, pools.rewards_PN)
    reference, replicate = (rewards_PN.shape[1] for rewards_PN in counts)
    return {
        "model": {"path": "none"},
        "prompts": {"source": "none"},
        "pool": {"reference": reference, "replicate": replicate},
        "group_sizes": [one for one in GROUP_SIZES if largest % one == 0] or [largest],
    }


def _refuse_measured(assignment: str) -> None:
    values: dict[str, Any] = {}
    assign(values, assignment)
    for key in flatten(values):
        if not any(f"{key}.".startswith(f"{known}.") for known in SETTINGS):
            raise InputError(
                f"--set {key}: is not of the analysis; it can change {', '.join(SETTINGS)}"
            )
