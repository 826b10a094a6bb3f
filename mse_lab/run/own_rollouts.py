"""Measure the model of TRL's trainer by completions that it draws anyway, its rollouts.

A reward function is given a step's rollouts, the groups of G one after the other. They are
differentiated before the optimiser's step, while the model still is the policy that drew
them; none is drawn for the measurement, and no reward is asked for twice.

A step may have few prompts. So groups of the next steps join them, each differentiated
under the policy that drew it, until a look says stop: at 24, 36, 54, ... groups, as where
completions are drawn. What is found then is of prompts and policies together: c2 and c3
are means over the policies; c1, which compares gradients of different prompts, also has
the spread of the policies' own gradients. A prompt that comes again has a block more.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.errors import InputError, shown
from mse_lab.measurement.rounds import FIRST, SCORED, Look
from mse_lab.measurement.sample import sample_pool
from mse_lab.measurement.subject import Subject, make_subject
from mse_lab.mse.measurement import SampledPrompt
from mse_lab.mse.one_pool import LEAST_COMPLETIONS
from mse_lab.mse.samples import Blocks
from mse_lab.mse.stopping import Decision, Stopped
from mse_lab.policy.alternative_samplers import log_likelihood_ratios
from mse_lab.policy.completions import Completions
from mse_lab.policy.fingerprint import fingerprint_in_memory
from mse_lab.policy.log_probabilities import sum_over_tokens, token_log_probs
from mse_lab.probe.rewards import supplied
from mse_lab.probe.streams import stream
from mse_lab.probe.trainer_prompts import PROMPT, as_prompt_set
from mse_lab.results.checks import ONE_PASS, check_alternative_samplers, check_scores
from mse_lab.run.advise import (
    AT_ONCE,
    BUDGET,
    LEAST_PROMPTS,
    LEAST_SIGNALS,
    Sampling,
    varies,
)
from mse_lab.run.in_memory import borrowing
from mse_lab.run.live_model import lend, own_forward, refuse_failed
from mse_lab.run.prepare import RunSpec
from mse_lab.run.rollout_groups import REMEDY, Batch, Group, refuse_settings
from mse_lab.scores import sketches


@dataclass(frozen=True, kw_only=True)
class _OfSteps(Subject):
    """Prompts of a step, whose gradients are kept as those of other steps are."""

    most: int  # Prompts of all steps, at most.

    def keeps_whole(self, vectors: int = 1) -> bool:
        """Whether so many vectors of each prompt of all steps are kept whole."""
        return sketches.vectors_fit(vectors * self.most, self.policy.size)


class _Window:
    """Groups of one step or more that are differentiated until an answer is known."""

    def __init__(
        self, size: int, budget: int, decide: Callable[[Sequence[Blocks]], Decision]
    ) -> None:
        self.steps: list[int] = []
        self._size, self._budget, self._decide = size, budget, decide
        self._found: dict[str, list[SampledPrompt]] = {}
        self._groups, self._next = 0, FIRST
        self._ratios: list[Floats] = []
        self._decision: Decision | None = None

    @property
    def count(self) -> int:
        """How many rollouts were differentiated."""
        return self._groups * self._size

    @property
    def _prompts(self) -> list[Blocks]:
        return [tuple(one.sample for one in each) for each in self._found.values()]

    def add(
        self, given: Mapping[str, Any], args: Any, groups: Sequence[Group], step: int
    ) -> tuple[RunSpec, Sampling[Decision]] | None:
        """Differentiate groups of a step, in a random order, until there is an answer."""
        rows = {at: {PROMPT: group.prompt} for at, group in enumerate(groups)}
        options = args.chat_template_kwargs
        prompts = as_prompt_set(rows, given["processing_class"], options)
        lent = lend(given, args, prompts, supplied)
        order = stream(args.seed, "rollouts", str(step)).permutation(len(groups))
        self.steps.append(step)
        with own_forward(lent.model), borrowing(lent) as (spec, policy):
            of_step = make_subject(spec, policy, AT_ONCE)
            subject = _OfSteps(**vars(of_step), most=self._budget // self._size)
            for at in map(int, order):
                if stopped := self._take(subject, at, groups[at]):
                    return spec, self._end(stopped, spec)
        return None

    def _take(self, subject: Subject, at: int, group: Group) -> Stopped | None:
        pool = group.pool(at, subject.policy, subject.probe.sampling.max_new_tokens)
        first = not self._found
        self._ratios.append(_compare_rivals(subject, at, pool.completions))
        found = sample_pool(subject, at, pool, SCORED, checked=first)
        self._found.setdefault(repr(group.prompt), []).append(found)
        self._groups += 1
        spent = (self._groups + 1) * self._size > self._budget
        if self._groups < self._next and not spent:
            return None
        self._next += self._next // 2
        self._decision = self._look()
        stopped = self._decision.stop if self._decision else None
        return stopped or (BUDGET if spent else None)

    def _look(self) -> Decision | None:
        prompts = self._prompts
        if len(prompts) < LEAST_PROMPTS or sum(map(varies, prompts)) < LEAST_SIGNALS:
            return None
        return self._decide(prompts)

    def _end(self, stopped: Stopped, spec: RunSpec) -> Sampling[Decision]:
        found = [one for each in self._found.values() for one in each]
        gap, dtype = found[0].gradient_gap, spec.probe.model.dtype
        rivals = check_alternative_samplers(np.stack(self._ratios))
        checks = [rivals, check_scores(ONE_PASS, gap, dtype)]
        refuse_failed(checks)
        look = Look(len(self._found), self._size)
        return Sampling(self._prompts, look, stopped, self._decision, checks, np.nan)


def _compare_rivals(subject: Subject, at: int, drawn: Completions) -> Floats:
    """Ask whether another sampler is likelier to have drawn them: no law was given."""
    policy, tokens = subject.policy, subject.tokens[at]
    log_probs_N = sum_over_tokens(token_log_probs(policy, tokens, drawn).double(), drawn)
    return log_likelihood_ratios(policy, tokens, drawn, log_probs_N.cpu().numpy())


class Rollouts:
    """What a watched reward function sees, and the measurement that comes of it."""

    def __init__(self) -> None:
        self.watched = False
        self._window: _Window | None = None
        self._batches: list[Batch] | None = None
        self._drawing = ""

    def watch(self, reward: Callable[..., Any]) -> Callable[..., list[Any]]:
        """Make a reward function that gives the same, and is seen.

        Raises:
            InputError: It is none, or another one is watched.
        """
        if not callable(reward) or inspect.iscoroutinefunction(reward):
            raise InputError(f"reward = {shown(reward)}: give a function that is not async")
        if self.watched:
            raise InputError("one reward function is watched; give one with their sum")
        self.watched = True

        @functools.wraps(reward)
        def seen(**given: Any) -> list[Any]:
            rewards = list(reward(**given))
            if self._batches is not None:
                self._batches.append(Batch(given, rewards))
            return rewards

        # The trainer names its logs by it.
        seen.__name__ = getattr(reward, "__name__", type(reward).__name__)
        return seen

    @property
    def goes_on(self) -> bool:
        """Whether a measurement has begun and is not at its end."""
        return self._window is not None

    @property
    def steps(self) -> list[int]:
        """The steps whose rollouts are in the measurement."""
        return self._window.steps if self._window else []

    @property
    def count(self) -> int:
        """How many rollouts are in the measurement."""
        return self._window.count if self._window else 0

    def begin(
        self,
        args: Any,
        model: Any,
        budget: int,
        decide: Callable[[Sequence[Blocks]], Decision],
    ) -> None:
        """Begin a measurement.

        Raises:
            InputError: The settings give no rollouts that can be measured.
        """
        refuse_settings(args, model, budget)
        self._window = _Window(args.num_generations, budget, decide)

    def expect(self, model: Any) -> None:
        """Keep the rollouts of the step that begins, and know the policy of them."""
        self._batches, self._drawing = [], fingerprint_in_memory(model)

    def take(
        self, given: Mapping[str, Any], args: Any, step: int
    ) -> tuple[RunSpec, Sampling[Decision]] | None:
        """Differentiate the rollouts of a step before the optimiser's; give what is found.

        Raises:
            InputError: They cannot be measured.
        """
        batches, self._batches = self._batches, None
        if self._window is None or not batches:
            return None
        if fingerprint_in_memory(given["model"]) != self._drawing:
            raise InputError(
                "the weights have changed since the rollouts were drawn, as under "
                f"DeepSpeed, which steps in its backward pass; {REMEDY}"
            )
        groups = [one for batch in batches for one in batch.groups(args.num_generations)]
        if not groups:
            raise InputError(
                f"this process has fewer than {LEAST_COMPLETIONS} rollouts of a prompt; "
                "raise per_device_train_batch_size"
            )
        return self._window.add(given, args, groups, step)

    def drop(self) -> None:
        """Forget the measurement, at its end or before it."""
        self._window = self._batches = None
