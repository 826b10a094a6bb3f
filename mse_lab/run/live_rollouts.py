"""Measure the model of TRL's trainer by its rollouts, the completions that training draws.

A reward function is given a step's rollouts, in groups of G, one group after the other.
They are differentiated before the optimiser's step, while the model still is the policy
that drew them. The measurement draws no completion and calls no reward function.

A step may have few prompts. So groups of the next steps join them, each differentiated
under the policy that drew it. The answer is looked for at 48, 72, 108, ... groups, as where
completions are drawn for it. It is an answer for prompts and policies together: c2 and c3
are means over the policies; c1, which compares gradients of different prompts, also
contains the spread of the policies' gradients. A prompt that comes again gets another
block of completions.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from mse_lab.arrays import Floats
from mse_lab.errors import InputError, shown
from mse_lab.measurement.looks import FIRST_PROMPTS, MOST_SCORED, Look
from mse_lab.measurement.sample import sample_pool
from mse_lab.measurement.subject import Subject, make_subject
from mse_lab.mse.measurement import SampledPrompt
from mse_lab.mse.one_pool import LEAST_COMPLETIONS
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import Decision, Stopped
from mse_lab.mse.samples import Blocks, Samples
from mse_lab.policy.alternative_samplers import log_likelihood_ratios
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sum_over_tokens, token_log_probs
from mse_lab.probe.rewards import supplied
from mse_lab.probe.streams import stream
from mse_lab.probe.trainer_prompts import PROMPT, as_prompt_set
from mse_lab.results.checks import ONE_PASS, check_alternative_samplers, check_scores
from mse_lab.run.advise import (
    LARGEST_BLOCK,
    LEAST_PROMPTS,
    LEAST_SIGNALS,
    Decide,
    Sampling,
    rewards_differ,
    warn_of_samples,
)
from mse_lab.run.in_memory import borrow_model
from mse_lab.run.live_model import live_inputs, refuse_failed, unpatched_forward
from mse_lab.run.prepare import RunSpec
from mse_lab.run.rollout_groups import REMEDY, Batch, Group, refuse_settings


class Measurement:
    """Groups of one step or more, differentiated until an answer is known."""

    def __init__(self, size: int, budget: int, decide: Decide) -> None:
        self.steps: list[int] = []  # Those whose rollouts are in it.
        self._size, self._budget, self._decide = size, budget, decide
        self._sampled: dict[str, list[SampledPrompt]] = {}  # The blocks of each prompt.
        # Rollouts of each group: of one that processes share, those of this process.
        self.sizes: list[int] = []
        self._next_look = FIRST_PROMPTS
        self._ratios: list[Floats] = []
        self._decision: Decision | None = None

    @property
    def _prompts(self) -> list[Blocks]:
        return [tuple(each.sample for each in blocks) for blocks in self._sampled.values()]

    def add(
        self, given: Mapping[str, Any], args: Any, groups: Sequence[Group], step: int
    ) -> tuple[RunSpec, Sampling] | None:
        """Differentiate groups of a step, in a random order, until there is an answer."""
        rows = {index: {PROMPT: group.prompt} for index, group in enumerate(groups)}
        options = args.chat_template_kwargs
        prompts = as_prompt_set(rows, given["processing_class"], options)
        inputs = live_inputs(given, args, prompts, supplied)
        order = stream(args.seed, "rollouts", str(step)).permutation(len(groups))
        self.steps.append(step)
        with unpatched_forward(inputs.model), borrow_model(inputs) as (spec, policy):
            subject = make_subject(spec, policy, LARGEST_BLOCK)
            # The gradients of all steps are kept alike.
            subject = replace(subject, kept_prompts=self._budget // self._size)
            for index in map(int, order):
                if stopped := self._add_group(subject, index, groups[index]):
                    return spec, self._end(stopped, subject)
        return None

    def _add_group(self, subject: Subject, index: int, group: Group) -> Stopped | None:
        """Differentiate one group, and look where it is time to; give why to stop."""
        pool = group.pool(index, subject.policy, subject.probe.sampling.max_new_tokens)
        first = not self._sampled
        self._ratios.append(_compare_samplers(subject, index, pool.completions))
        sampled = sample_pool(subject, index, pool, MOST_SCORED, checked=first)
        self._sampled.setdefault(repr(group.prompt), []).append(sampled)
        self.sizes.append(len(group.tokens))
        spent = (len(self.sizes) + 1) * self._size > self._budget
        if len(self.sizes) < self._next_look and not spent:
            return None
        self._next_look += self._next_look // 2
        prompts = self._prompts
        differ = sum(map(rewards_differ, prompts))
        enough = len(prompts) >= LEAST_PROMPTS and differ >= LEAST_SIGNALS
        if enough:
            self._decision = self._decide(PromptTable.of_samples(Samples.of(prompts)))
            if self._decision.stop:
                return "regret"
        return "budget" if spent else None

    def _end(self, stopped: Stopped, subject: Subject) -> Sampling:
        first, *_ = (block for blocks in self._sampled.values() for block in blocks)
        checks = [
            check_alternative_samplers(np.stack(self._ratios)),
            check_scores(ONE_PASS, first.gradient_gap, subject.probe.model.dtype),
        ]
        refuse_failed(checks)
        look = Look(len(self._sampled), self._size)
        blocks = list(self._sampled.values())
        return Sampling(
            self._prompts, look, stopped, self._decision, checks,
            warnings=warn_of_samples(subject, blocks),
        )  # fmt: skip


def _compare_samplers(subject: Subject, index: int, drawn: Completions) -> Floats:
    """Compare other samplers with the policy: the trainer gives no log-probabilities."""
    policy, tokens = subject.policy, subject.tokens[index]
    log_probs_N = sum_over_tokens(token_log_probs(policy, tokens, drawn).double(), drawn)
    return log_likelihood_ratios(policy, tokens, drawn, log_probs_N.cpu().numpy())


def fingerprint_in_memory(model: Any) -> str:
    """Hash some numbers of every parameter of a model."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        flat = parameter.detach().flatten()
        some = flat[:: max(1, len(flat) // 4096)].cpu().contiguous()
        digest.update(some.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class WatchedRollouts:
    """The rollouts that a watched reward function is given, and their measurement."""

    def __init__(self) -> None:
        self.watched = False  # Whether a reward function is watched.
        self.measurement: Measurement | None = None  # The one under way.
        # The rollouts of the step; None if none are kept.
        self._batches: list[Batch] | None = None
        self._fingerprint = ""  # That of the policy that draws them.

    def watch(self, reward: Callable[..., Any]) -> Callable[..., list[Any]]:
        """Make a reward function that gives the same rewards, and is watched."""
        if not callable(reward) or inspect.iscoroutinefunction(reward):
            raise InputError(f"reward = {shown(reward)}: give a function that is not async")
        if self.watched:
            raise InputError("one reward function is watched; give one with their sum")
        self.watched = True

        @functools.wraps(reward)
        def watched(**given: Any) -> list[Any]:
            rewards = list(reward(**given))
            if self._batches is not None:
                self._batches.append(Batch(given, rewards))
            return rewards

        # The trainer names its logs by it; an instance of a class has no name.
        watched.__name__ = getattr(reward, "__name__", type(reward).__name__)
        return watched

    def expect(self, args: Any, model: Any, budget: int, decide: Decide) -> None:
        """Keep the rollouts of the step that begins, for a new or the last measurement."""
        if self.measurement is None:
            refuse_settings(args, model, budget)
            self.measurement = Measurement(args.num_generations, budget, decide)
        self._batches, self._fingerprint = [], fingerprint_in_memory(model)

    def measure(
        self, given: Mapping[str, Any], args: Any, step: int
    ) -> tuple[RunSpec, Sampling] | None:
        """Differentiate the rollouts of a step; give the answer once there is one."""
        batches, self._batches = self._batches, None
        if self.measurement is None or not batches:
            return None
        if fingerprint_in_memory(given["model"]) != self._fingerprint:
            raise InputError(
                "the weights have changed since the rollouts were drawn, as under "
                f"DeepSpeed, which steps in its backward pass; {REMEDY}"
            )
        groups = [
            group for batch in batches for group in batch.groups(args.num_generations)
        ]
        if not groups:
            raise InputError(
                f"this process has fewer than {LEAST_COMPLETIONS} rollouts of a prompt; "
                "raise per_device_train_batch_size"
            )
        return self.measurement.add(given, args, groups, step)

    def drop(self) -> None:
        """Forget the measurement, at its end or before it."""
        self.measurement = self._batches = None
