"""The public door to the advice: a model in memory, measured until its answer is known.

import mse_lab
tokens = {"max_new_tokens": 32}
advice = mse_lab.advise(model, tokenizer, prompts, reward, sampling=tokens)
print(advice)  # the screen of `mse-lab advise`
advice.recommended, advice.near_best, advice.completions, advice.stopped
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mse_lab.errors import InputError, shown
from mse_lab.mse.regret import TOLERANCE
from mse_lab.mse.stopping import decide
from mse_lab.public_api import as_rows, load_model_libraries, probe_settings
from mse_lab.report.sampled_advice import advise_sampled_run, as_run
from mse_lab.result import Advice
from mse_lab.results.checks import none_failed


def advise(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    reward: str | Callable[..., Any],
    *,
    regret: float = TOLERANCE,
    budget: int | None = None,
    sampling: Mapping[str, Any] | None = None,
    metric: str | Mapping[str, Any] = "plain",
    interval: Mapping[str, Any] | None = None,
    parameters: str | Sequence[str] = "all",
    template: str = "none",
    chat: bool = False,
    seed: int = 0,
    name: str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Advice:
    """Measure a model that is in memory until it is known which group size suits it.

    The command's own pipeline. Arguments that are not named here are as in `measure`.

    Args:
        model: It comes back as it was.
        tokenizer: Its tokenizer.
        prompts: In any order: they are taken at random.
        reward: A name or a function.
        regret: How much more than the best size the recommended one may cost.
        budget: The most completions that are drawn in all; None for no limit.
        sampling: `max_new_tokens` and `temperature`.
        metric: As in `measure`; what training feels is measured after the last look.
        interval: `level` and `resamples`.
        parameters: As in `measure`.
        template: As in `measure`.
        chat: As in `measure`.
        seed: Of all draws.
        name: Of what is advised on; by default the model's.
        out: A folder for the samples, from which a later call goes on; by default nothing
            is written.
        progress: Whether the best range is shown as it narrows.

    Raises:
        InputError: Something of these is not usable, or no reward varied; the message says
            which.
    """
    load_model_libraries("advise")
    from mse_lab.run.in_memory import Lent, sample_model

    if not 0 < regret <= 1:
        raise InputError(f"regret = {shown(regret)}: give a share such as 0.05")
    sections = {"sampling": sampling, "interval": interval}
    settings = probe_settings(
        sections,
        metric=metric,
        parameters=parameters,
        template=template,
        chat=chat,
        seed=seed,
    )
    level = (interval or {}).get("level", 0.95)
    folder = None if out is None else Path(out)
    lent = Lent(model, tokenizer, as_rows(prompts), reward, settings, name, folder)
    look = partial(decide, level=level, regret=regret)
    spec, ended = sample_model(lent, look, budget, shown=progress)
    held = none_failed(ended.checks)
    run = as_run(
        spec.name, spec.probe, ended.prompts, ended.stopped, regret,
        held=held, metric=ended.metric,
    )  # fmt: skip
    return Advice(**vars(advise_sampled_run(run, ended.decision)))
