"""The advice in its folder, of a run or of few completions: kept, written, printed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from mse_lab.answers.advice import Advice, advise
from mse_lab.answers.alternatives import Seconds
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.console import columns
from mse_lab.errors import InputError
from mse_lab.formatting import WIDTH
from mse_lab.mse.regret import SIZES
from mse_lab.mse.samples import Blocks, Samples
from mse_lab.mse.stopping import Stopped
from mse_lab.mse.verdict import BUDGET, Decision
from mse_lab.probe.schema import Probe
from mse_lab.probe.training import Setting, find_setting
from mse_lab.report.advice_figure import compose_advice
from mse_lab.report.advice_report import advice_text, answer, headline
from mse_lab.report.drawing import save_figure
from mse_lab.results.files import write_json, write_table
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.integrity import open_intact
from mse_lab.results.tables import columns_of


def restore_advice(path: Path) -> Advice:
    """Read an `advice.json`."""
    with open_intact(path) as file:
        return TypeAdapter(Advice).validate_json(file.read())


def advice_table(advice: Advice) -> pd.DataFrame:
    """Make `advice.csv`: a row for each group size, its MSE at the budget.

    Columns: `mse` of GRPO-type; `cost`, completions for the same MSE over those at the
    recommended size; `zero_variance`, the share of groups whose rewards are all equal.
    """
    rows = [
        {
            "group_size": row.group_size,
            "budget": advice.budget,
            **columns_of("mse", row.mse),
            **columns_of("cost", row.cost),
            **columns_of("zero_variance", row.zero_variance),
        }
        for row in advice.rows
    ]
    return pd.DataFrame(rows)


def json_values(advice: Advice) -> dict[str, Any]:
    """Give what programs read: what to set and why, then the content of `advice.json`."""
    return {
        "headline": headline(advice),
        "num_generations": advice.num_generations,
        **advice.as_dict(),
    }


def _advise(
    run: FinishedRun,
    sizes: Sequence[int] = SIZES,
    budget: int = BUDGET,
    seconds: Seconds | None = None,
) -> Advice:
    try:
        return advise(run, sizes, budget, seconds)
    except InputError as error:
        raise InputError(f"{run.where}{error}") from None


def keep_advice(folder: Path) -> Advice:
    """Work out the advice of a run that is just made, and keep it as `advice.json`."""
    advice, results = _advise(read_run(folder)), ResultsFolder(folder)
    write_json(results.file("advice.json"), advice.as_dict())
    results.write_manifest()
    return advice


def write_advice(
    folder: Path,
    advice: Advice,
    *,
    as_json: bool,
    written: Sequence[str] = (),
) -> str:
    """Write the table and the figure of an advice into a folder; return what to print.

    That is JSON, for which nothing is written; or the screen and the names of the files:
    those that the caller has `written` and these. Nothing is written if a built-in check
    failed, no figure without pools.
    """
    if as_json:
        return json.dumps(json_values(advice), indent=2)
    screen = advice_text(advice, screen_width())
    if not advice.held:
        return screen.rstrip()
    results = ResultsFolder(folder)
    write_table(results.file("advice.csv"), advice_table(advice))
    figures = ["advice.png", "advice.pdf"] if advice.curves else []
    for name in figures:
        save_figure(lambda: compose_advice(advice), results.file(name))
    names = ", ".join([*written, "advice.csv", *figures])
    return f"{screen}Written to {folder}:\n  {names}"


def find_advice(
    folder: Path,
    sizes: Sequence[int] = (),
    budget: int = BUDGET,
    *,
    setting: Setting | None = None,
    seconds: Seconds | None = None,
) -> Advice:
    """Advise from the pools of a run, or read its advice where it has none."""
    results = ResultsFolder(folder)
    if results.has("pools.npz") or not results.has("advice.json"):
        return _advise(read_run(folder, setting), sizes or SIZES, budget, seconds)
    advice = restore_advice(results.file("advice.json"))
    priced = {row.group_size for row in advice.rows}
    known = priced.issuperset(sizes) and budget == advice.budget and seconds is None
    about = advice.setting
    same = setting is None or (setting.trainer, setting.named) == (about[0], about[3])
    if not (known and same):
        raise InputError(
            f"{folder}: has no pools.npz, only the answers for --at "
            f"{','.join(map(str, sorted(priced)))} --budget {advice.budget} and "
            f"{about.trainer} with {about.named}; measure it again with mse-lab run "
            f"{advice.name}"
        )
    return advice


def screen_width() -> int:
    """Columns that a text may take: the terminal's, 100 at most; 80 where there is none."""
    return min(columns() or WIDTH, 100)


def answer_lines(folder: Path) -> list[str]:
    """Say the advice of a run in a few lines; keep it in the folder if it is new."""
    kept = ResultsFolder(folder).has("advice.json")
    try:
        advice = restore_advice(folder / "advice.json") if kept else keep_advice(folder)
    except InputError as error:
        return [f"no advice: {str(error).removeprefix(f'{folder}: ')}"]
    return list(answer(advice))


def as_run(
    name: str,
    probe: Probe,
    prompts: Sequence[Blocks],
    stopped: Stopped,
    regret: float,
    **known: Any,
) -> SampledRun:
    """Make a run of samples of a probe's prompts; `known` are further fields of it."""
    fields: dict[str, Any] = {
        "level": probe.interval.level,
        "seed": probe.seed,
        "resamples": probe.interval.resamples,
        "entries": tuple(probe.estimators),
        "setting": find_setting(probe.training, probe),
    }
    samples = Samples.of(prompts)
    return SampledRun(name, samples, stopped, tolerance=regret, **fields | known)


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


def keep_sampled_advice(
    folder: Path,
    run: SampledRun,
    decision: Decision | None,
    sizes: Sequence[int] = (),
    seconds: Seconds | None = None,
) -> Advice:
    """Advise as `advise_sampled_run` does, and keep the advice as `advice.json`."""
    advice = advise_sampled_run(run, decision, sizes, seconds)
    write_json(folder / "advice.json", advice.as_dict())
    return advice
