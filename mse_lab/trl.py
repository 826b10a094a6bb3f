"""In the trainer: how far its gradient is from the true one, measured while it trains.

    from mse_lab.trl import MSECallback
    trainer = GRPOTrainer(..., callbacks=[MSECallback(data, reward, every=50)])

Or, where no completions may be drawn beside the training's, by its own:

    callback = MSECallback(every=50)
    trainer = GRPOTrainer(..., reward_funcs=callback.watch(reward), callbacks=[callback])

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

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError
from tqdm import tqdm
from transformers import TrainerCallback

from mse_lab.console import ending
from mse_lab.errors import InputError, one_line, shown
from mse_lab.measurement.rounds import EACH, FIRST
from mse_lab.mse.regret import TOLERANCE
from mse_lab.mse.stopping import Decision, decide
from mse_lab.probe.schema import Metric
from mse_lab.probe.trainer_prompts import as_prompt_set, as_row_reward, choose_rows
from mse_lab.report.callback_log import log_numbers, log_of_rollouts, log_words
from mse_lab.report.sampled_advice import advise_sampled_run, as_run
from mse_lab.run.advise import Sampling
from mse_lab.run.live_model import measure_live_metric, refuse, sample_live, step_size
from mse_lab.run.own_rollouts import Rollouts
from mse_lab.run.prepare import RunSpec
from mse_lab.run.reporters import Reporters

# What was measured, and how it ended.
Found = tuple[RunSpec, Sampling[Decision]]


class MSECallback(TrainerCallback):
    """Measures the live model of TRL's GRPOTrainer, and logs which group size suits it.

    A measurement ends as one of `mse_lab.advise` does. The next one comes `every` steps
    later, or once it exceeds the share of the training's time no more. What cannot be
    measured is said in a line and counted, and the training goes on. Of several processes
    the first one measures. Weights are measured in their own precision, without dropout.

    Without prompts it measures by the training's own rollouts, of G = 4 or more: those that
    a reward function from `watch` is given, of this process, of as many steps as it takes.
    They are of the policies that drew them, G of each prompt.

    Logged under `mse/`: `best_group_size`, with `_low` and `_high`; and for groups of the
    size G in use `cost_at_G`, completions for the same error over those at the best size;
    `relative_error`, MSE / ||g||^2 of the completions of one step; `noise_scale`, the
    completions at which that is one; `zero_variance_groups`, their share, for G above
    the 16 or more completions of each prompt by a Beta law of values, up to four times as
    many; `rho`; `value`, the mean reward; of rollouts `steps`, those that drew them; with
    a metric `felt_group_size`, with both ends. What is unknown is left out.

    Args:
        prompts: The training set: a data set, or a list of mappings, with texts or chats in
            the column `prompt`. What is measured is a random sample, always the same.
        reward: As for TRL, `(completions, **columns) -> list`, called for one completion at
            a time; or `(text, row) -> float`.
        every: Steps from one measurement to the next; the first is before the first step.
        regret: How much more than the best size the recommended one may cost.
        budget: The most completions of a measurement; by default `share` of those that the
            training draws in all, and at least those of the first look: of 24 prompts 16
            each, or G rollouts where that is more.
        share: Of the training's time, what measurements after the first one may take.
        metric: `adam` also measures what training by this optimiser feels, as the key of a
            probe does, by its own second moments: not before its first step.

    Raises:
        InputError: One of these is not usable.
    """

    def __init__(
        self,
        prompts: Any = None,
        reward: Callable[..., Any] | None = None,
        *,
        every: int = 50,
        regret: float = TOLERANCE,
        budget: int | None = None,
        share: float = 0.05,
        metric: Any = "plain",
    ) -> None:
        if not (callable(reward) or prompts is reward is None):
            raise InputError(f"reward = {shown(reward)}: give a function")
        for name, value in {"regret": regret, "share": share}.items():
            if not 0 < value <= 1:
                raise InputError(f"{name} = {shown(value)}: give a share such as 0.05")
        for name, count in {"every": every, "budget": budget}.items():
            if count is not None and count < 1:
                raise InputError(f"{name} = {shown(count)}: give a number above zero")
        self._metric = _as_metric(metric, prompts)
        self._prompts, self._reward, self._every = prompts, reward, every
        self._regret, self._budget, self._share = regret, budget, share
        self._rollouts = Rollouts()
        self._start()

    def watch(self, reward: Callable[..., Any]) -> Callable[..., list[Any]]:
        """Measure by the rollouts that a reward function of TRL's form is given.

        Args:
            reward: `(completions, **columns) -> list`. The trainer gets what is returned,
                a function that gives the same, as its only one.

        Raises:
            InputError: It is none, or this callback draws completions of its own.
        """
        if self._prompts is not None:
            raise InputError("prompts are given: leave them out to measure by rollouts")
        return self._rollouts.watch(reward)

    def _start(self) -> None:
        self._rollouts.drop()
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
        if not state.is_world_process_zero:
            return
        if not self._rollouts.goes_on:
            if state.global_step < self._next or self._waits():
                return
            self._next, self._last = state.global_step + self._every, 0.0
        self._try(state, partial(self._look, args, state, given))

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **given: Any
    ) -> None:
        """Measure by the step's own rollouts, before the policy that drew them is gone."""
        if self._rollouts.goes_on:
            self._try(state, partial(self._take, args, state, given))

    def _try(self, state: Any, act: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            act()
        except Exception as error:  # Whatever it is, the training goes on.
            self._rollouts.drop()
            self.skipped += 1
            _say(f"step {state.global_step} is not measured: {ending(error).line}")
        took = time.monotonic() - began
        self._last += took
        self._spent += took

    def _look(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        refuse(args, given)
        budget = self._budget or self._default_budget(args, state)
        if not self._rollouts.watched:
            self._tell(self._draw(args, state, given, budget), args, state, given)
            return
        if not self._rollouts.goes_on:
            look = partial(decide, regret=self._regret)
            self._rollouts.begin(args, given["model"], budget, look)
        self._rollouts.expect(given["model"])

    def _take(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        found = self._rollouts.take(given, args, state.global_step)
        if found is not None:
            self._tell(found, args, state, given)
            self._rollouts.drop()

    def _tell(self, found: Found, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        """Advise by what was measured, and log it."""
        spec, ended = found
        why = ended.prompts, ended.stopped
        metric = ended.metric
        run = as_run(spec.name, spec.probe, *why, self._regret, held=True, metric=metric)
        advice = advise_sampled_run(run, ended.decision, (args.num_generations,))
        numbers = log_numbers(advice, run, args.num_generations, step_size(args))
        if steps := self._rollouts.steps:
            numbers["mse/steps"] = len(steps)
        self.measured += 1
        self._waiting = {**numbers, "mse/step": state.global_step}
        if advice.num_generations != self._recommended:
            self._recommended = advice.num_generations
            self._say_advice(args, state, log_words(advice, numbers), run.completions)
        self._reporters = self._reporters or Reporters(args)
        self._reporters.report(numbers, args, state, given["model"])

    def _say_advice(self, args: Any, state: Any, words: str, count: int) -> None:
        if steps := self._rollouts.steps:
            size, engine = args.num_generations, args.use_vllm
            _say(log_of_rollouts(words, steps, count, size, engine=engine))
        else:
            _say(f"step {state.global_step}: {words} {count} were drawn.")

    def _draw(self, args: Any, state: Any, given: Mapping[str, Any], budget: int) -> Found:
        """Draw completions of the live model until the answer is known."""
        if not self._rows:
            if self._reward is None:
                raise InputError(
                    "nothing to measure by: give prompts and a reward, or train with "
                    "reward_funcs=callback.watch(reward)"
                )
            rows = choose_rows(self._prompts, max(budget // EACH, FIRST), args.seed)
            tokenizer, options = given["processing_class"], args.chat_template_kwargs
            self._rows = as_prompt_set(rows, tokenizer, options)
        reward, look = (
            as_row_reward(self._reward, state),
            partial(decide, regret=self._regret),
        )
        asked = given, args, self._rows, reward
        spec, ended = sample_live(*asked, look, budget)
        # Before its first step an optimiser has no moments.
        if self._metric.kind == "plain" or not given["optimizer"].state:
            return spec, ended
        pools = measure_live_metric(*asked, self._metric.model_dump())
        return spec, ended._replace(metric=pools)

    def _default_budget(self, args: Any, state: Any) -> int:
        drawn = state.max_steps * step_size(args) // args.num_iterations
        each = max(EACH, args.num_generations * self._rollouts.watched)
        return max(FIRST * each, int(self._share * drawn))

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
        if self._reporters:
            self._reporters.close()
        if state.is_world_process_zero:
            self._drop_unfinished()
            share = self._spent / (time.monotonic() - self._began)
            _say(
                f"{self.measured} measurements took {share:.1%} of the training's time; "
                f"{self.skipped} were skipped"
            )

    def _drop_unfinished(self) -> None:
        """Count a measurement by rollouts that has no answer yet, and say so."""
        if self._rollouts.goes_on:
            self.skipped += 1
            count = self._rollouts.count
            _say(f"{count} rollouts were differentiated, too few for an answer")
            self._rollouts.drop()


def _as_metric(metric: Any, prompts: Any) -> Metric:
    try:
        found = Metric.model_validate(metric)
    except ValidationError:
        found = Metric(kind="curvature")
    if found.kind == "curvature" or found.optimizer:
        raise InputError(
            f"metric = {shown(metric)}: give adam, or a mapping of it, its prompts and "
            "completions; D is that of the optimiser that trains"
        )
    if found.kind != "plain" and prompts is None:
        raise InputError("metric: needs completions of its own: give prompts and a reward")
    return found


def _say(text: str) -> None:
    tqdm.write(f"mse_lab: {one_line(text)}")
