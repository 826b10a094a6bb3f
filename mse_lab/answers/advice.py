"""Advice: the verdict on a training's group size, with every number behind it.

By `mse_lab.mse.prompt_table` and `mse_lab.mse.loss`, for N completions a step, G of each
of N/G prompts drawn at random,

    N MSE      c1 G + c2 + c3/(G-1) of GRPO-type, least at G* = 1 + sqrt(c3/c1)
    ns         N MSE / ||g||^2, the noise scale in completions
    progress   N / (N + ns) of what the true gradient would give
    steps      in proportion to N + ns

||g||^2 is that of the population's mean gradient, not of the run's fixed prompts.
"""

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from mse_lab.answers.advice_evidence import Evidence, UserSetting, evidence_of_run
from mse_lab.answers.ladder import Ladder, LadderRow
from mse_lab.config.training import Setting, batch_for, fits
from mse_lab.console import COMMAND_PREFIX
from mse_lab.data.streams import stream
from mse_lab.errors import InputError, NoAnswer
from mse_lab.mse.cluster_means import cluster_share
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.loss import find_aims, halved_step_size, noise_scale, ratio_of_costs
from mse_lab.mse.regime import Regime
from mse_lab.mse.rule import LEAST_PROMPTS, LEAST_SIGNALS, TOLERANCE, Stopped, Verdict
from mse_lab.mse.zero_variance import zero_variance_shares
from mse_lab.results.files import as_data, open_intact
from mse_lab.results.finished_run import read_run
from mse_lab.results.folder import RESTORE, ResultsFolder


class StepProgress(NamedTuple):
    """A row of the table of progress: what a step makes of the progress possible."""

    completions_per_step: int
    group_size: int
    progress: Estimate
    steps: Estimate  # Steps with this size over those with the present one.


class SetBaseline(NamedTuple):
    """The baseline alpha + lam m to set, m the mean reward of a group's others."""

    alpha: float
    lam: float


@dataclass(frozen=True)
class Advice:
    """What measured prompts say of a training, every number with its interval over prompts.

    Fields are those of `advice.json`.
    """

    name: str  # The probe's.
    prompts: int
    population: int | None  # How many there are in all, if a set; None for a random sample.
    level: float  # Coverage of intervals.
    held: bool  # Whether the built-in checks hold.
    warnings: tuple[str, ...]  # What a reader should know, a sentence each.
    setting: UserSetting  # What the verdict is about.
    completions_per_step: int | None  # N; None where it is unknown.
    regret: float  # How much more than the best size is all right.
    verdict: Verdict  # Whether to keep the group size in use.
    set_to: int  # The size to type: the one in use unless the verdict is `change`.
    baseline: SetBaseline | None  # And the baseline, None for your own loss.
    unless_one_in: int | None  # It holds unless one prompt in so many is unlike these.
    asks_batch: bool  # Whether it would be a verdict, were N known to be small.
    of_loss: bool  # Whether this is about the user's own loss, else about GRPO-type.
    steps_saved: Estimate | None  # Share of steps that it saves at N; None: unknown.
    saves: Estimate | None  # Share of completions for the same error: the limit of small N.
    at_most: float  # How much more than the best size the one in use costs, at most,
    at_least: float  # and at least.
    noise_scale: Estimate  # The N at which half of the progress is made, present size.
    learning_rate_factor: Estimate  # Of Adam, where the batch is halved; SGD's: its square.
    ladder: tuple[LadderRow, ...]  # What could be set, over what is set.
    # N MSE = c1 G + c2 + c3/(G-1) of GRPO-type; c1 G + vanilla, and so on.
    c1: Estimate
    c2: Estimate
    c3: Estimate
    vanilla: Estimate
    batch_mean: Estimate
    best_constant: Estimate
    gradient2: Estimate  # ||E g(X)||^2.
    best: Estimate  # G*; infinite above where c1 is not significantly positive.
    regime: Regime  # On which side of vanilla the run and its prompts are.
    zero_variance: Estimate | None  # Share of groups of equal rewards, present size.
    mean_reward: float
    needed: int | None = None  # Prompts at hand that hardly tell yet.
    completions: int | None = None  # How many were drawn; None for a finished run.
    differentiated: int | None = None
    stopped: Stopped | None = None  # Why no more were drawn.
    # What of the batch is typed with a size, so that N stays as it is; where something is.
    batches: Mapping[int, str] = field(default_factory=dict)

    @property
    def num_generations(self) -> int:
        """The size to set, under TRL's name."""
        return self.set_to

    @property
    def unbounded(self) -> bool:
        """Whether G* has no upper bound on this evidence."""
        return math.isinf(self.best.high)

    @property
    def best_group_size(self) -> float:
        """G*."""
        return self.best.value

    @property
    def low(self) -> float:
        """The lower end of the interval of G*."""
        return self.best.low

    @property
    def high(self) -> float:
        """The upper end of the interval of G*; infinite where there is none."""
        return self.best.high

    @property
    def progress(self) -> list[StepProgress]:
        """At some N, of the present size and of the one that is set, or is your best."""
        yours = self.ladder[0]
        row = {str(one.row): one for one in self.ladder}
        other = row.get("trainer" if self.baseline else "size", yours)
        rows = [yours] if other[1:3] == yours[1:3] else [yours, other]
        made = [
            StepProgress(one[0], row.group_size, *one[1:])
            for row in rows
            for one in row.progress
        ]
        return sorted(made, key=lambda one: one.completions_per_step)

    def progress_at(self, completions: int) -> Estimate:
        """What a step of N completions makes of the progress possible, as it is now."""
        return next(one[1] for one in self.ladder[0].progress if one[0] == completions)

    @property
    def set_row(self) -> LadderRow:
        """The row of the ladder that the verdict sets."""
        name = "trainer" if self.baseline else "size"
        row = {str(one.row): one for one in self.ladder}
        return row[name if self.verdict == "change" else "yours"]

    def as_dict(self) -> dict[str, Any]:
        """Give the content of `advice.json`: five digits, as value, low, high."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        values |= {"num_generations": self.num_generations, "progress": self.progress}
        return {name: as_data(value) for name, value in values.items()}


def _zero_variance(evidence: Evidence, size: int) -> Estimate | None:
    """Share of groups whose rewards are all equal; None beyond the completions at hand."""
    if size > min(map(len, evidence.rewards)):
        return None
    shares_P = zero_variance_shares(evidence.rewards, size)
    rng = stream(evidence.seed, "advice", f"zero variance at {size}")
    level = evidence.question.level
    return cluster_share(shares_P, np.arange(len(shares_P)), level, rng)


def _refuse(evidence: Evidence) -> None:
    """Refuse prompts that tell nothing; say why."""
    table, drawn = evidence.table, evidence.table.drawn
    if table.prompts < LEAST_PROMPTS:
        why = f"{table.prompts} prompts: advice needs three or more; raise prompts.limit"
    elif table.varied < LEAST_SIGNALS:
        why = (
            f"rewards differ within {table.varied} of {table.prompts} prompts: nothing to "
            "advise on; measure more prompts, or some that the model gets right now and "
            "then"
        )
    elif math.isnan(table.best_group_size(evidence.question.level).value):
        why = "no price of a baseline is seen: nothing to advise on; take more"
    else:
        return
    if drawn is None:
        raise InputError(why)
    mean = sum(rewards.mean() for rewards in evidence.rewards) / len(evidence.rewards)
    raise NoAnswer(
        f"{evidence.name}: in {drawn.completions:,} completions of mean reward "
        f"{mean:.2g} {why}; check the reward, too"
    )


def _constants(evidence: Evidence) -> dict[str, Estimate]:
    """Estimate the constants; few completions do not tell a prompt's best baseline."""
    constants = evidence.table.estimates(evidence.question.level)
    if evidence.table.drawn:
        value = constants["best_constant"].value
        constants["best_constant"] = Estimate(value, math.nan, math.nan)
    return constants


def _savings(evidence: Evidence) -> tuple[Estimate | None, Estimate | None]:
    """Shares of steps at N, and of completions, that the size to set saves, if known."""
    ruling, question = evidence.ruling, evidence.question
    if ruling.saves is None:
        return None, None
    if not question.completions:
        return None, ruling.saves
    if ruling.verdict == "keep":
        return ruling.saves, ruling.saves
    entry = question.estimator if ruling.of_loss and question.estimator else "grpo"
    aims = find_aims(evidence.table, entry, [question.present, ruling.set_to])
    to = ruling.baseline.aim if ruling.baseline else aims[ruling.set_to]
    top, base = to.cost(0.0), aims[question.present].cost(0.0)
    ratio = ratio_of_costs(evidence.table, top, base, question.level)
    return ruling.saves, Estimate(1 - ratio.value, 1 - ratio.high, 1 - ratio.low)


def _batches(setting: Setting, ladder: Iterable[LadderRow]) -> dict[int, str]:
    """Write what a trainer that counts prompts needs for as many completions a step."""
    known = {one.group_size for one in ladder}
    sizes = [size for size in known - {setting.group_size} if fits(setting, size)]
    typed = {size: batch_for(setting, size) for size in sizes}
    return {size: line for size, line in typed.items() if line}


def make_advice(evidence: Evidence) -> Advice:
    """Work out the advice from three prompts or more.

    Raises:
        InputError: There are fewer, or no rewards differ.
        NoAnswer: So it is with few completions of each.
    """
    _refuse(evidence)
    table, question, level = evidence.table, evidence.question, evidence.question.level
    ruling, ladder = evidence.ruling, Ladder(evidence)
    # Another objective has no price here.
    rows = tuple(ladder.rows())[: 1 if evidence.setting.elsewhere else None]
    steps_saved, saves = _savings(evidence)
    completions = int(question.completions)
    drawn = table.drawn
    return Advice(
        name=evidence.name,
        prompts=table.prompts,
        population=int(table.size) if table.size < math.inf else None,
        level=level,
        held=evidence.held,
        warnings=evidence.warnings,
        setting=UserSetting.of(evidence.setting),
        completions_per_step=completions or None,
        regret=question.tolerance,
        verdict=ruling.verdict,
        set_to=ruling.set_to,
        baseline=SetBaseline(fit.alpha, fit.lam) if (fit := ruling.baseline) else None,
        unless_one_in=ruling.unless_one_in,
        asks_batch=ruling.asks_batch,
        of_loss=ruling.of_loss,
        steps_saved=steps_saved,
        saves=saves,
        at_most=ruling.at_most,
        at_least=ruling.at_least,
        noise_scale=noise_scale(table, ladder.base, level),
        learning_rate_factor=halved_step_size(table, ladder.base, completions or 1, level),
        ladder=rows,
        **_constants(evidence),
        best=table.best_group_size(level),
        regime=evidence.regime,
        zero_variance=_zero_variance(evidence, question.present),
        mean_reward=float(np.mean([rewards.mean() for rewards in evidence.rewards])),
        needed=evidence.needed,
        completions=drawn.completions if drawn else None,
        differentiated=drawn.differentiated if drawn else None,
        stopped=evidence.stopped,
        batches=_batches(evidence.setting, rows),
    )


def restore_advice(path: Path) -> Advice:
    """Read an `advice.json`."""
    with open_intact(path, RESTORE) as file:
        # What follows from fields is no field itself, and is left out.
        return TypeAdapter(Advice).validate_python(json.loads(file.read()))


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
