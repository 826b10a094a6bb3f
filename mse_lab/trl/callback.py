"""A callback of TRL's GRPOTrainer and RLOOTrainer: what suits the model while it trains.

    from mse_lab.trl import MSECallback
    trainer = GRPOTrainer(..., callbacks=[MSECallback(data, reward, every=50)])

A step calls it before completions are drawn, so the policy that is measured is the policy
that draws them. The training is the same, bit for bit, with and without it: a measurement
has random streams of its own, and leaves the model's modes and gradients as they were.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType, MethodType
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback

from mse_lab.answers.advice import Advice, make_advice
from mse_lab.answers.advice_evidence import Evidence, ask
from mse_lab.answers.ladder import Ladder
from mse_lab.api.measure import evidence_of
from mse_lab.config.given_settings import class_of
from mse_lab.config.probe_files import LAW
from mse_lab.config.schema import EstimatorEntry, Training
from mse_lab.config.trainers import TRAINERS
from mse_lab.config.training import Setting, find_setting
from mse_lab.console import ending
from mse_lab.data.prompts import Prompt, choose_prompts
from mse_lab.data.reward_functions import UserReward
from mse_lab.errors import InputError, is_count, is_share, one_line, shown
from mse_lab.formatting import share
from mse_lab.mse.rule import FIRST_COMPLETIONS, FIRST_PROMPTS, TOLERANCE
from mse_lab.report.advice_report import advice_headline
from mse_lab.results.analysis import interval_columns
from mse_lab.run.advise import LARGEST_BLOCK, sample_probe
from mse_lab.run.context import borrow_subject
from mse_lab.scores.module_hooks import replaced_forward

# The share of a process group's time limit for which the others wait for a measurement.
WAITED_SHARE = 0.5


class MSECallback(TrainerCallback):
    """Measures the live model of TRL's trainers, and logs what suits it.

    What is judged is the loss of the trainer's class and settings, or the baseline that
    `with_baseline` has put in the place of its advantages. What that leaves out, such as
    `beta`, several reward functions or several updates, is named once.

    A measurement stops as `mse_lab.advise` does. What cannot be measured is said in one
    line and counted, and the training goes on. Of several processes the first one measures
    while the others wait, for half of their group's time limit (`ddp_timeout`) at most. The
    model is measured whole, in the precision in which it is kept, without dropout.

    The numbers join the trainer's next line of the log, under `mse/`, wherever it reports
    to; what is not known is left out:

    - `best_group_size`, with `_low` and `_high`, the ends of its 95% interval;
    - `progress`, what a step makes of what the true gradient would, N / (N + noise_scale)
      for the N completions of a step;
    - `steps_saved`, the share of steps that the size to set saves, 0 where it is in use;
    - `noise_scale`, the completions at which half of the progress is made, in groups of G;
    - `alpha` and `lam`, the best baseline at any group size, and `cost_over_best`, what the
      training costs over it for the same error: they follow the policy;
    - `zero_variance_groups`, their share where G > 1, up to the number of completions
      measured of each prompt;
    - `rho`, E||W||^2 of right over wrong completions, where the prompts' mean stands among
      regimes, as `regime.rho` of `advice.json` (`mse/regime.py`);
    - `value`, the mean reward, and `step`, after which all this was measured.

    Args:
        prompts: The training set: a data set, or a list of mappings, with texts or chats in
            the column `prompt` (or `problem`). What is measured is a random sample, always
            the same.
        reward: As for TRL, `(completions, **columns) -> list`, called for some completions
            of one prompt; or `(text, row) -> float`.
        every: Steps between measurements, of which the first is before the first step.
        regret: How much more than the best size the one in use may cost.
        budget: The most completions of a measurement. The default is `share` of those that
            the training draws in all, but at least those of the first look: 32 prompts of
            12 completions.
        share: The share of the training's time that measurements after the first may take;
            one that would exceed it is left out.

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
            if not is_share(value):
                raise InputError(f"{name} = {shown(value)}: give a share such as 0.05")
        counts = {"every": every} | ({} if budget is None else {"budget": budget})
        for name, count in counts.items():
            if not is_count(count):
                raise InputError(f"{name} = {shown(count)}: give a whole number from 1")
        self._prompts, self._reward, self._every = prompts, reward, every
        self._regret, self._budget, self._share = regret, budget, share
        self._reset()

    def _reset(self) -> None:
        self.measured, self.skipped = 0, 0
        self._began, self._seconds, self._last = time.monotonic(), 0.0, 0.0
        self._rows: list[Prompt] = []  # The sample of the training set.
        self._numbers: dict[str, float] = {}  # Not logged yet.
        self._said = ("", 0)  # The verdict that was printed, and its size.
        self._rewards: list[str] = []  # The trainer's reward functions, where known.
        self._trained: Any = self._reward  # The first of them.
        self._replaced: list[str] = []  # What of the trainer a user's own code replaces.

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Forget an earlier training, and go before the reporters.

        They are given a line of the log one after another, in the order of the caller's
        list, where a user's callbacks come last. transformers hands a callback neither the
        list nor the trainer, so they are looked for where the callers have them.
        """
        self._reset()
        callbacks = getattr(_caller_with("callbacks"), "callbacks", [])
        if self in callbacks:
            callbacks.remove(self)
            callbacks.insert(0, self)
        trainer = _caller_with("reward_func_names")
        self._rewards = [*getattr(trainer, "reward_func_names", [])]
        self._trained = [*getattr(trainer, "reward_funcs", []), self._reward][0]
        self._replaced = replaced_in(trainer) if self._rewards else []

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Measure the policy that will draw the step's completions, if that is due."""
        if state.global_step % self._every:
            return
        if state.is_world_process_zero and not self._exceeds_share():
            self._attempt(args, state, given)
        if args.world_size > 1:
            args.distributed_state.wait_for_everyone()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any
    ) -> None:
        """Add the last measurement to a line of the trainer's log."""
        for line in (logs, *state.log_history[-1:]):
            if line is not None:
                line.update(self._numbers)
        self._numbers = {}

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Say what the measurements took."""
        if state.is_world_process_zero:
            spent = self._seconds / (time.monotonic() - self._began)
            _print(
                f"{self.measured} measurements took {share(spent)} of the training's time; "
                f"{self.skipped} were skipped"
            )

    def _exceeds_share(self) -> bool:
        """Whether another measurement like the last one would take too much time."""
        passed = time.monotonic() - self._began + self._last
        return self._seconds + self._last > self._share * passed

    def _attempt(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        """Measure and take the time; where that fails, say so and count it."""
        began = time.monotonic()
        try:
            self._measure(args, state, given)
        except Exception as error:  # Whatever it is, the training goes on.
            self.skipped += 1
            _print(f"step {state.global_step} is not measured: {ending(error).line}")
        self._last = time.monotonic() - began
        self._seconds += self._last

    def _measure(self, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        """Log the numbers of the live model; print its advice where that is new."""
        refuse_compiled(args, given["model"])
        step = state.global_step
        advice = make_advice(evidence := self._sample(args, state, given))
        self.measured += 1
        self._numbers = {**log_numbers(advice, evidence), "mse/step": step}
        if (said := (advice.verdict, advice.set_to)) != self._said:
            self._said = said
            _print(
                f"step {step}: {advice_headline(advice)} {advice.completions} were drawn."
            )

    def _sample(self, args: Any, state: Any, given: Mapping[str, Any]) -> Evidence:
        """Draw completions of the live model until the answer is known."""
        sampling = sampling_of(args)
        # The trainer has worked out the generation batch from what is given, too.
        values = {"processes": args.world_size, "generation_batch_size": None}
        # Those of max_steps, too; of rows without a length they say nothing.
        epochs = state.num_train_epochs
        values["num_train_epochs"] = epochs if epochs < sys.maxsize else None
        values["reward_funcs"] = self._rewards
        replaced = getattr(args, "mse_lab_estimator", None)
        setting = interpret(vars(args) | values, replaced)
        uncounted = [*setting.uncounted, *self._replaced]
        if len(self._rewards) == 1 and self._trained != self._reward:
            own = getattr(self._reward, "__name__", type(self._reward).__name__)
            uncounted.append(f"reward_funcs = {self._rewards[0]} (measured: {own})")
        if uncounted and not (self.measured or self.skipped):
            _print(f"not counted in: {', '.join(uncounted)}")
        question = ask(setting, 0.95, self._regret)
        drawn = state.max_steps * question.completions // args.num_iterations
        least = FIRST_PROMPTS * FIRST_COMPLETIONS
        budget = self._budget or max(least, int(self._share * drawn))
        if not self._rows:
            most = max(budget // FIRST_COMPLETIONS, FIRST_PROMPTS)
            self._rows = choose_prompts(self._prompts, most, args.seed)
        model, tokenizer, name = given["model"], given["processing_class"], "the live model"
        prompts: dict[str, Any] = {"source": "memory", "template": "none"}
        if chat := self._rows[0].chat is not None:
            prompts |= {"chat": True, "chat_template_kwargs": args.chat_template_kwargs}
        settings = {"prompts": prompts, "sampling": sampling, "seed": args.seed}
        reward = UserReward(self._reward, "reward", chat=chat, trainer_state=state)
        given_all = model, tokenizer, self._rows, reward, settings, name
        limit = WAITED_SHARE * args.ddp_timeout if args.world_size > 1 else math.inf
        with (
            # Mixed precision replaces a model's own `forward` by a wrapper.
            replaced_forward(model, MethodType(type(model).forward, model)),
            borrow_subject(*given_all, block=LARGEST_BLOCK) as subject,
        ):
            ended = sample_probe(
                subject, question, budget=budget, seconds=limit, shown=False
            )
        evidence = evidence_of(ended, setting, question)
        if not evidence.held:
            raise InputError("a built-in check failed")
        return evidence


def interpret(values: Mapping[str, Any], estimator: EstimatorEntry | None) -> Setting:
    """Say what the arguments of a live trainer amount to, of their table's rows.

    What a probe has, too, is left out: the live policy is the one that is measured. An
    `estimator` stands for the trainer's own weights.
    """
    rows = TRAINERS[name := class_of(values, "trl", "training")].settings
    known = {
        key: one for key, one in values.items() if key in rows and rows[key].probe is None
    }
    return find_setting(Training(trainer=name, estimator=estimator, **known))


def _caller_with(name: str) -> Any:
    """Find who calls a callback, and has something of a name; None where nobody has."""
    frame: FrameType | None = sys._getframe(2)
    while frame:
        if hasattr(owner := frame.f_locals.get("self"), name):
            return owner
        frame = frame.f_back
    return None


def replaced_in(trainer: Any) -> list[str]:
    """Name what draws or weighs completions in the place of TRL's own code."""
    kind = type(trainer)
    is_own = kind.__module__.partition(".")[0] in ("trl", "mse_lab")
    drawing = [name for name in ("rollout_func", "tools") if getattr(trainer, name, None)]
    return [*drawing, *([] if is_own else [f"{kind.__name__} (judged as TRL's own)"])]


def _print(text: str) -> None:
    tqdm.write(f"mse_lab: {one_line(text)}")


def sampling_of(args: Any) -> dict[str, Any]:
    """Read how completions are drawn; refuse what changes their law."""
    rows = TRAINERS["trl"].settings
    law = {name: getattr(args, name) for name in LAW}
    given = {name: one for name, one in law.items() if not rows[name].allows(one)}
    for name, value in (given | (args.generation_kwargs or {})).items():
        raise InputError(
            f"{name} = {shown(value)}: completions are not of the policy that is "
            "differentiated, and cannot be measured; leave it out"
        )
    return {"max_new_tokens": args.max_completion_length, "temperature": args.temperature}


def refuse_compiled(args: Any, model: Any) -> None:
    """Refuse a model that was compiled, in place or in a wrapper, or will be."""
    # torch has no public name for either.
    compiled = getattr(model, "_compiled_call_impl", None) is not None
    if compiled or hasattr(model, "_orig_mod") or args.torch_compile:
        raise InputError("a compiled model cannot be measured; do not compile it")


def log_numbers(advice: Advice, evidence: Evidence) -> dict[str, float]:
    """Name the numbers to log; unknown ones are left out."""
    size, completions = advice.setting.group_size, advice.completions_per_step or 0
    equal, ladder = advice.zero_variance, Ladder(evidence)
    saves = ladder.price(ladder.best.aim, 0.0).value
    numbers = {
        **interval_columns("best_group_size", advice.best),
        "progress": advice.progress_at(completions).value or None,
        "steps_saved": advice.steps_saved.value if advice.steps_saved else None,
        "noise_scale": advice.noise_scale.value,
        "alpha": ladder.best.alpha,
        "lam": ladder.best.lam,
        "cost_over_best": 1 / saves if saves > 0 else None,
        "zero_variance_groups": equal.value if equal and size > 1 else None,
        "rho": advice.regime.rho.value,
        "value": advice.mean_reward,
    }
    return {
        f"mse/{name}": float(value)
        for name, value in numbers.items()
        if value is not None and math.isfinite(value)
    }
