"""The advice in its folder: worked out or read back, kept as `advice.json`, printed."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mse_lab.answers.advice import Advice, make_advice
from mse_lab.answers.advice_evidence import Evidence, UserSetting, evidence_of_run
from mse_lab.config.training import Setting
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError, NoAnswer
from mse_lab.mse.rule import TOLERANCE
from mse_lab.report.advice_report import Advices, advice_headline, advice_text
from mse_lab.report.rendering import screen_width
from mse_lab.results.files import open_intact
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.inventory import RESTORE


def restore_advice(path: Path) -> Advice:
    """Read an `advice.json`."""
    with open_intact(path, RESTORE) as file:
        values = json.loads(file.read())
        values.pop("num_generations", None)
        return TypeAdapter(Advice).validate_python(values)


def json_values(advice: Advice) -> dict[str, Any]:
    """Give what programs read: the headline, then the content of `advice.json`."""
    return {"headline": advice_headline(advice), **advice.as_dict()}


def advise_run(
    folder: Path,
    setting: Setting | None = None,
    regret: float = TOLERANCE,
) -> Advice:
    """Advise from a finished run; from its `advice.json` where it has no pools."""
    results = ResultsFolder(folder)
    if results.has("pools.npz") or not results.has("advice.json"):
        run = read_run(folder)
        try:
            return make_advice(evidence_of_run(run, setting or run.setting, regret))
        except InputError as error:
            raise InputError(f"{folder}: {error}") from None
    advice = restore_advice(results.file("advice.json"))
    about, asked = advice.setting, None if setting is None else UserSetting.of(setting)
    if asked not in (None, about) or regret != advice.regret:
        steps = about.completions_per_step or "unknown"
        raise InputError(
            f"{folder}: has no pools.npz, only the answer for {about.trainer} with "
            f"{about.named}, completions_per_step = {steps}, "
            f"at regret = {advice.regret:g}; measure for yours with --fresh, "
            f"or all of it with {COMMAND_PREFIX} run {advice.name}"
        )
    return advice


def advise_samples(evidence: Evidence) -> Advice:
    """Advise from few completions of each prompt."""
    try:
        return make_advice(evidence)
    except InputError as error:
        drawn = evidence.drawn
        assert drawn is not None
        mean = sum(rewards.mean() for rewards in evidence.rewards) / len(evidence.rewards)
        raise NoAnswer(
            f"{evidence.name}: in {drawn.completions:,} completions of mean reward "
            f"{mean:.2g} {error}; check the reward, too"
        ) from None


def keep_advice(folder: Path, advice: Advice) -> None:
    """Write `advice.json` into a folder."""
    ResultsFolder(folder).write("advice.json", advice.as_dict())


def keep_advice_of_run(folder: Path, advice: Advice) -> None:
    """Write the advice on a run, where the folder has none or its pools answer anew.

    The answer to another question stays, and so does a file that is no answer.
    """
    results = ResultsFolder(folder)
    if not results.has("advice.json"):
        keep_advice(folder, advice)
    elif results.has("pools.npz"):
        with suppress(InputError):
            kept = restore_advice(results.file("advice.json"))
            if (kept.setting, kept.regret) == (advice.setting, advice.regret):
                keep_advice(folder, advice)


def say_advice(advice: Advice, *, as_json: bool) -> str:
    """Write what a command prints: JSON, or the screen."""
    if as_json:
        return json.dumps(json_values(advice), indent=2)
    return advice_text(advice, screen_width()).rstrip()


def advice_list(what: str, advices: Advices) -> str:
    """Write all advices as one JSON document, a list."""

    def values(advice: Advice | str) -> dict[str, Any]:
        return {"refused": advice} if isinstance(advice, str) else json_values(advice)

    return json.dumps([{what: at} | values(one) for at, one in advices.items()], indent=2)
