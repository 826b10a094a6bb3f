"""A callback of TRL's GRPOTrainer: which group size suits the model while it trains.

    from mse_lab.trl import MSECallback
    trainer = GRPOTrainer(..., callbacks=[MSECallback(data, reward, every=50)])

Where no completions may be drawn besides the training's, it measures the training's own:

    callback = MSECallback(every=50)
    trainer = GRPOTrainer(..., reward_funcs=callback.watch(reward), callbacks=[callback])

A step of the trainer calls the callback before it draws completions, so the policy that is
measured is the policy that draws them. The training is the same, bit for bit, with and
without the callback: a measurement has random streams of its own, and leaves the model's
modes and gradients as they were.

A callback cannot reach the trainer's reporters, and is asked about a line of the log after
they have it, but before the screen has it. So its numbers join the next line on the screen
and in `state.log_history`, where `mse/step` says which step they are of; reporters get them
at that step (`run/reporters.py`).
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback

from mse_lab.answers.advice_evidence import evidence_of_samples
from mse_lab.console import ending
from mse_lab.errors import InputError, is_count, is_share, one_line, shown
from mse_lab.measurement.looks import COMPLETIONS, FIRST_COMPLETIONS, FIRST_PROMPTS
from mse_lab.mse.rule import TOLERANCE
from mse_lab.mse.samples import Samples
from mse_lab.probe.trainer_prompts import as_prompt_set, as_row_reward, choose_rows
from mse_lab.report.advice_files import advise_samples
from mse_lab.report.advice_report import headline
from mse_lab.report.callback_log import log_numbers, log_of_rollouts
from mse_lab.run import live_model
from mse_lab.run.advise import Sampling
from mse_lab.run.live_rollouts import WatchedRollouts
from mse_lab.run.prepare import RunSpec
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.run.reporters import Reporters
from mse_lab.run.trainer_processes import join_trainer

Measurement = tuple[RunSpec, Sampling]  # What was measured, and how that ended.


class MSECallback(TrainerCallback):
    """Measures the live model of TRL's GRPOTrainer, and logs which group size suits it.

    A measurement stops as `mse_lab.advise` does. The next one begins `every` steps later,
    or later still where it would exceed its `share` of the training's time. What cannot be
    measured is said in one line and counted, and the training goes on. Several processes
    share a measurement, a prompt each at a time; if one of them is lost, all end with a
    line. Of rollouts the first one measures its own.
    Weights are measured in the precision in which they are kept, without dropout.

    Without prompts the callback measures the training's own rollouts. It collects those
    that the reward function made by `watch` is given in this process, G = 4 or more of each
    prompt, over as many steps as the answer takes. They are of these steps' policies.

    Logged under `mse/`; what is not known is left out:

    - `best_group_size`, with `_low` and `_high`, the ends of its 95% interval;
    - `cost_at_G`, the completions that the size G in use needs for the same error, over
      those that the best size needs;
    - `relative_error`, MSE / ||g||^2 of the completions of one step, and `noise_scale`,
      the completions at which it is 1, both in groups of G;
    - `zero_variance_groups`, their share. Where G is larger than the number of completions
      measured of each prompt, up to four times, a Beta law of the values predicts it;
    - `rho`, E||W||^2 of right over wrong completions, and `value`, the mean reward;
    - `steps`, how many steps drew the rollouts, where these are measured.

    Args:
        prompts: The training set: a data set, or a list of mappings, with texts or chats in
            the column `prompt` (or `problem`). What is measured is a random sample, always
            the same.
        reward: As for TRL, `(completions, **columns) -> list`, called for some completions
            of one prompt; or `(text, row) -> float`.
        every: Steps from one measurement to the next; the first is before the first step.
        regret: How much more than the best size the recommended one may cost.
        budget: The most completions of a measurement. The default is `share` of those that
            the training draws in all, but at least those of the first look: 48 prompts of
            8 completions, or of G rollouts where G is larger.
        share: The share of the training's time that measurements after the first may take.

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
    ) -> None:
        if not (callable(reward) or prompts is reward is None):
            raise InputError(f"reward = {shown(reward)}: give a function")
        for name, value in {"regret": regret, "share": share}.items():
            if not is_share(value):
                raise InputError(f"{name} = {shown(value)}: give a share such as 0.05")
        for name, count in {"every": every, "budget": budget}.items():
            if not (is_count(count) or (count is None and name == "budget")):
                raise InputError(f"{name} = {shown(count)}: give a whole number from 1")
        self._prompts, self._reward, self._every = prompts, reward, every
        self._regret, self._budget, self._share = regret, budget, share
        self._rollouts = WatchedRollouts()
        self._reset()

    def watch(self, reward: Callable[..., Any]) -> Callable[..., list[Any]]:
        """Make the trainer's only reward function, whose rollouts are measured.

        It gives the rewards of `reward`, `(completions, **columns) -> list`.
        """
        if self._prompts is not None:
            raise InputError("prompts are given: leave them out to measure by rollouts")
        return self._rollouts.watch(reward)

    def _reset(self) -> None:
        self.measured, self.skipped = 0, 0
        self._rollouts.drop()
        self._began = time.monotonic()
        self._seconds, self._seconds_of_last = 0.0, 0.0
        self._next_step, self._said = 0, ("", 0)  # The last verdict, and its size.
        self._rows: list[dict[str, Any]] = []
        self._unlogged: dict[str, float] = {}
        self._reporters: Reporters | None = None
        self._processes: Processes = SINGLE_PROCESS

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Forget an earlier training."""
        self._reset()
        if not self._rollouts.watched:
            self._processes = join_trainer()

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure the policy that will draw the step's completions, if that is due."""
        if not state.is_world_process_zero and self._processes.count == 1:
            return
        if self._rollouts.measurement is None:
            if state.global_step < self._next_step:
                return
            if self._processes.agree(self._exceeds_share):
                return
            self._next_step = state.global_step + self._every
            self._seconds_of_last = 0.0
        self._attempt(state, partial(self._measure, args, state, given))

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, **given: Any
    ) -> None:
        """Measure the step's own rollouts, before the policy that drew them changes."""
        if self._rollouts.measurement:
            self._attempt(state, partial(self._measure_rollouts, args, state, given))

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any
    ) -> None:
        """Add the last measurement to a line of the trainer's log."""
        if logs is not None:
            logs.update(self._unlogged)
        if state.log_history:
            state.log_history[-1].update(self._unlogged)
        self._unlogged = {}

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Say what the measurements took."""
        if self._reporters:
            self._reporters.close()
        if not state.is_world_process_zero:
            return
        if self._rollouts.measurement:
            self.skipped += 1
            count = sum(self._rollouts.measurement.sizes)
            self._print(f"{count} rollouts were differentiated, too few for an answer")
            self._rollouts.drop()
        share = self._seconds / (time.monotonic() - self._began)
        self._print(
            f"{self.measured} measurements took {share:.1%} of the training's time; "
            f"{self.skipped} were skipped"
        )

    def _exceeds_share(self) -> bool:
        """Whether another measurement like the last one would take too much time."""
        passed, last = time.monotonic() - self._began, self._seconds_of_last
        return self._seconds + last > self._share * (passed + last)

    def _attempt(self, state: Any, act: Callable[[], None]) -> None:
        """Act and take the time; where that fails, say so and count it."""
        began = time.monotonic()
        try:
            with live_model.kept_streams(), self._processes.failing_together():
                act()
        except Exception as error:  # Whatever it is, the training goes on.
            self._rollouts.drop()
            self.skipped += 1
            line = f"step {state.global_step} is not measured: {ending(error).line}"
            self._print(line)
        seconds = time.monotonic() - began
        self._seconds_of_last += seconds
        self._seconds += seconds

    def _measure(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        """Measure by completions drawn now; or prepare to measure the step's rollouts."""
        live_model.refuse(args, given)
        if args.mask_truncated_completions and not (self.measured or self.skipped):
            self._print(
                "mask_truncated_completions = True leaves truncated completions out of the "
                "loss; they are not left out of what is measured"
            )
        budget = self._budget or self._default_budget(args, state)
        if not self._rollouts.watched:
            found = self._sample(args, state, given, budget)
            if self._processes.first:
                self._log(found, args, state, given)
        else:
            look = live_model.decide_on(args, self._regret)
            self._rollouts.expect(args, given["model"], budget, look)

    def _measure_rollouts(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        measurement = self._rollouts.measure(given, args, state.global_step)
        if measurement is not None:
            self._log(measurement, args, state, given)
            self._rollouts.drop()

    def _default_budget(self, args: Any, state: Any) -> int:
        drawn = state.max_steps * live_model.step_size(args) // args.num_iterations
        each = max(FIRST_COMPLETIONS, args.num_generations * self._rollouts.watched)
        return max(FIRST_PROMPTS * each, int(self._share * drawn))

    def _sample(
        self, args: Any, state: Any, given: Mapping[str, Any], budget: int
    ) -> Measurement:
        """Draw completions of the live model until the answer is known."""
        if self._reward is None:
            raise InputError(
                "nothing to measure by: give prompts and a reward, or train with "
                "reward_funcs=callback.watch(reward)"
            )
        if not self._rows:
            most = max(budget // FIRST_COMPLETIONS, FIRST_PROMPTS)
            rows = choose_rows(self._prompts, most, args.seed)
            options = args.chat_template_kwargs
            self._rows = as_prompt_set(rows, given["processing_class"], options)
        reward = as_row_reward(self._reward, state)
        inputs = live_model.live_inputs(given, args, self._rows, reward, self._processes)
        look = live_model.decide_on(args, self._regret, COMPLETIONS)
        return live_model.sample_live(inputs, look, budget)

    def _log(
        self, measurement: Measurement, args: Any, state: Any, given: Mapping[str, Any]
    ) -> None:
        """Report the numbers of a measurement; print its advice where that is new."""
        spec, ended = measurement
        evidence = evidence_of_samples(
            spec.name,
            spec.probe,
            Samples.of(ended.prompts),
            live_model.setting_of(args),
            live_model.question_of(args, self._regret),
            ended.stopped,
            len(spec.prompts),
            warnings=ended.warnings,
        )
        of_rollouts = self._rollouts.measurement
        advice = advise_samples(evidence)
        numbers = log_numbers(advice, evidence)
        if of_rollouts:
            numbers["mse/steps"] = len(of_rollouts.steps)
        self.measured += 1
        self._unlogged = {**numbers, "mse/step": state.global_step}
        said, count = (advice.verdict, advice.num_generations), advice.completions
        if said != self._said:
            self._said, words = said, headline(advice)
            line = f"step {state.global_step}: {words} {count} were drawn."
            if of_rollouts:
                each = min(of_rollouts.sizes), max(of_rollouts.sizes)
                steps, engine = of_rollouts.steps, args.use_vllm
                line = log_of_rollouts(words, steps, count, each, engine=engine)
            self._print(line)
        self._reporters = self._reporters or Reporters(args)
        self._reporters.report(numbers, args, state, given["model"])

    def _print(self, text: str) -> None:
        if self._processes.first:
            tqdm.write(f"mse_lab: {one_line(text)}")
