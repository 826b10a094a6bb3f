"""In the trainer: how far its gradient is from the true one, measured while it trains.

    from mse_lab.trl import MSECallback
    trainer = GRPOTrainer(..., callbacks=[MSECallback(data, reward, every=50)])

A callback sees the model before a step's completions are drawn, so the policy that is
measured is the one that they come from. The training is the same, bit for bit, with and
without it: a measurement has random streams of its own, and gives the model back with its
modes and gradients.

A callback has no handle on the trainer, and is asked about a line of its log after W&B,
trackio and tensorboard have it, and before the screen. So its numbers join the next line on
the screen and in `state.log_history`, with the `mse/step` that they are of. At that step
they go to W&B and trackio by the run that is active, as TRL's own tables of completions do,
and to any other reporter by a second one of transformers, in the same place.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm
from transformers import TrainerCallback

from mse_lab.answers.advice import Advice, GroupSize
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.console import ending
from mse_lab.errors import InputError, one_line, shown
from mse_lab.measurement.rounds import EACH, FIRST
from mse_lab.mse.beta_binomial import fit_beta_binomial
from mse_lab.mse.regret import TOLERANCE
from mse_lab.mse.stopping import decide
from mse_lab.probe.trainer_prompts import as_prompt_set, as_row_reward, choose_rows
from mse_lab.report.advice_report import headline
from mse_lab.report.sampled_advice import advise_run, as_run
from mse_lab.run.live_model import refuse, sample_live, step_size
from mse_lab.run.reporters import Reporters

# By how much a forecast may exceed the completions of a prompt, as in the logs' forecast.
BEYOND = 4


def _zero_variance(used: GroupSize, run: SampledRun) -> float:
    """Share of groups with equal rewards; of larger ones than drawn by a Beta law."""
    if used.zero_variance is not None:
        return used.zero_variance.value
    sizes_P = np.array([len(rewards) for rewards in run.rewards])
    if not run.binary or used.group_size > BEYOND * sizes_P.min():
        return math.nan
    right_P = np.array([int(rewards.sum()) for rewards in run.rewards])
    law = fit_beta_binomial(right_P, sizes_P, np.ones(len(sizes_P)))
    return law.zero_variance(used.group_size)


def _numbers(advice: Advice, run: SampledRun, args: Any) -> dict[str, float]:
    """Name what is logged; what is not known is not logged."""
    used = advice.row(args.num_generations)
    least = min(one.value for one in (*advice.curves["grpo"], used.mse))
    scale = advice.noise_scale.value * used.cost.value
    found = {
        "best_group_size": advice.best.value,
        "best_group_size_low": advice.best.low,
        "best_group_size_high": advice.best.high,
        "cost_at_G": used.mse.value / least,
        "relative_error": scale / step_size(args),
        "noise_scale": scale,
        "zero_variance_groups": _zero_variance(used, run),
        "rho": advice.regime.rho.value,
        "value": np.mean([rewards.mean() for rewards in run.rewards]),
    }
    return {f"mse/{key}": float(one) for key, one in found.items() if math.isfinite(one)}


class MSECallback(TrainerCallback):
    """Measures the live model of TRL's GRPOTrainer, and logs which group size suits it.

    A measurement ends as one of `mse_lab.advise` does. The next one comes `every` steps
    later, or once it exceeds the share of the training's time no more. What cannot be
    measured is said in a line and counted, and the training goes on. Of several processes
    the first one measures. Weights are measured in their own precision, without dropout.

    Logged under `mse/`: `best_group_size`, with `_low` and `_high`; and for groups of the
    size G in use `cost_at_G`, completions for the same error over those at the best size;
    `relative_error`, MSE / ||g||^2 of the completions of one step; `noise_scale`, the
    completions at which that is one; `zero_variance_groups`, their share, for G above
    the 16 or more completions of each prompt by a Beta law of values, up to four times as
    many; `rho`; `value`, the mean reward. What is unknown is left out.

    Args:
        prompts: The training set: a data set, or a list of mappings, with texts or chats in
            the column `prompt`. What is measured is a random sample, always the same.
        reward: As for TRL, `(completions, **columns) -> list`, called for one completion at
            a time; or `(text, row) -> float`.
        every: Steps from one measurement to the next; the first is before the first step.
        regret: How much more than the best size the recommended one may cost.
        budget: The most completions of a measurement; by default `share` of those that the
            training draws in all, and those of the first look, 384, at least.
        share: Of the training's time, what measurements after the first one may take.

    Raises:
        InputError: One of these is not usable.
    """

    def __init__(
        self,
        prompts: Any,
        reward: Callable[..., Any],
        *,
        every: int = 50,
        regret: float = TOLERANCE,
        budget: int | None = None,
        share: float = 0.05,
    ) -> None:
        if not callable(reward):
            raise InputError(f"reward = {shown(reward)}: give a function")
        for name, value in {"regret": regret, "share": share}.items():
            if not 0 < value <= 1:
                raise InputError(f"{name} = {shown(value)}: give a share such as 0.05")
        for name, count in {"every": every, "budget": budget}.items():
            if count is not None and count < 1:
                raise InputError(f"{name} = {shown(count)}: give a number above zero")
        self._prompts, self._reward, self._every = prompts, reward, every
        self._regret, self._budget, self._share = regret, budget, share
        self._start()

    def _start(self) -> None:
        self.measured, self.skipped = 0, 0
        self._began, self._spent, self._last = time.monotonic(), 0.0, 0.0
        self._next, self._recommended = 0, 0
        self._rows: list[dict[str, Any]] = []
        self._waiting: dict[str, float] = {}
        self._reporters: Reporters | None = None

    def _waits(self) -> bool:
        """Whether another measurement like the last one would exceed the share."""
        passed = time.monotonic() - self._began
        return self._spent + self._last > self._share * (passed + self._last)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Forget an earlier training."""
        self._start()

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure the model that the step's completions come from."""
        if (
            not state.is_world_process_zero
            or state.global_step < self._next
            or self._waits()
        ):
            return
        began = time.monotonic()
        self._next = state.global_step + self._every
        try:
            self._look(args, state, given)
            self.measured += 1
        except Exception as error:  # Whatever it is, the training goes on.
            self.skipped += 1
            _say(f"step {state.global_step} is not measured: {ending(error).line}")
        self._last = time.monotonic() - began
        self._spent += self._last

    def _look(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        refuse(args, given)
        advice, run = self._advise(args, state, given)
        numbers = _numbers(advice, run, args)
        self._waiting = {**numbers, "mse/step": state.global_step}
        self._say_advice(state, advice, numbers)
        self._reporters = self._reporters or Reporters(args)
        self._reporters.report(numbers, args, state, given["model"])

    def _advise(
        self, args: Any, state: Any, given: Mapping[str, Any]
    ) -> tuple[Advice, SampledRun]:
        """Advise for the live model; give what it rests on, too."""
        budget = self._budget or self._default_budget(args, state)
        if not self._rows:
            rows = choose_rows(self._prompts, max(budget // EACH, FIRST), args.seed)
            tokenizer, options = given["processing_class"], args.chat_template_kwargs
            self._rows = as_prompt_set(rows, tokenizer, options)
        reward, look = (
            as_row_reward(self._reward, state),
            partial(decide, regret=self._regret),
        )
        spec, ended = sample_live(given, args, self._rows, reward, look, budget)
        why = ended.prompts, ended.stopped
        run = as_run(spec.name, spec.probe, *why, self._regret, held=True)
        return advise_run(run, ended.decision, (args.num_generations,)), run

    def _default_budget(self, args: Any, state: Any) -> int:
        drawn = state.max_steps * step_size(args) // args.num_iterations
        return max(FIRST * EACH, int(self._share * drawn))

    def _say_advice(self, state: Any, advice: Advice, numbers: Mapping[str, float]) -> None:
        """Say the advice where it changes."""
        if advice.recommended == self._recommended:
            return
        self._recommended, words = advice.recommended, f"step {state.global_step}: "
        words += headline(advice)
        if cost := numbers.get("mse/cost_at_G"):
            words += f" The size in use costs {cost:.2f} times the best one's completions."
        _say(f"{words} {advice.completions} were drawn.")

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any
    ) -> None:
        """Add the last measurement to a line of the trainer's log."""
        if logs is not None:
            logs.update(self._waiting)
        if state.log_history:
            state.log_history[-1].update(self._waiting)
        self._waiting = {}

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Say what the measurements took."""
        if state.is_world_process_zero:
            share = self._spent / (time.monotonic() - self._began)
            _say(
                f"{self.measured} measurements took {share:.1%} of the training's time; "
                f"{self.skipped} were skipped"
            )


def _say(text: str) -> None:
    tqdm.write(f"mse_lab: {one_line(text)}")
