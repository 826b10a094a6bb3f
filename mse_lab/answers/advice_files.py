"""The advice in its folder: worked out of a run or read back, kept as `advice.json`."""

import json
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter

from mse_lab.answers.advice import Advice, make_advice
from mse_lab.answers.advice_evidence import UserSetting, evidence_of_run
from mse_lab.config.training import Setting
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError
from mse_lab.mse.rule import TOLERANCE
from mse_lab.results.files import open_intact
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import RESTORE, ResultsFolder


def restore_advice(path: Path) -> Advice:
    """Read an `advice.json`."""
    with open_intact(path, RESTORE) as file:
        values = json.loads(file.read())
        for follows in ("num_generations", "progress"):
            values.pop(follows, None)
        return TypeAdapter(Advice).validate_python(values)


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
