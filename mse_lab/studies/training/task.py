"""What is trained, and how good it is: the probe's policy, prompts and reward.

J is the mean reward over the prompts, of completions that are drawn on uniform numbers
common to all runs, so that runs that differ little are compared closely.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw_together
from mse_lab.probe.probe_files import load_probe, probe_file
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import Reward, load_reward, reward_completions, try_reward
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import stream, uniforms
from mse_lab.studies.training.settings import Run

# Completions that are drawn together, of several prompts.
ROWS = 1024


@dataclass(frozen=True)
class Task:
    """A policy, its prompts and its reward.

    Attributes:
        policy: The checkpoint; a trained model is evaluated by loading its weights into it.
        tokens: The token ids of each prompt.
    """

    probe: Probe
    policy: Policy
    prompts: list[Prompt]
    tokens: list[list[int]]
    reward: Reward

    @property
    def shown(self) -> list[Any]:
        """Each prompt as TRL takes it: a text, or the user's turn of a chat."""
        texts = [prompt.text for prompt in self.prompts]
        if not self.probe.prompts.chat:
            return texts
        return [[{"role": "user", "content": text}] for text in texts]

    def rewards(self, index: Sequence[int], completion_ids: Any, **_: Any) -> list[float]:
        """Reward completions, each of the prompt of its index, as TRL asks for it."""
        pairs = zip(index, completion_ids, strict=True)
        return [
            self.reward(self.policy.decode(tokens), self.prompts[prompt].record)
            for prompt, tokens in pairs
        ]

    def draw_prompts(self, run: Run) -> NDArray[np.int64]:
        """Draw the prompts of a run's groups, in the order in which they are trained on."""
        training, count = run.arm.training, len(self.prompts)
        groups = training.steps * training.budget // run.group_size
        rng = stream(run.seed, "training prompts")
        if training.prompts == "iid":
            return rng.integers(count, size=groups)
        epochs = [rng.permutation(count) for _ in range(-(-groups // count))]
        return np.concatenate(epochs)[:groups]

    def follow(self, model: Any) -> Policy:
        """Load a trained model's weights into the policy; return it."""
        self.policy.model.load_state_dict(model.state_dict())
        return self.policy

    def mean_reward(self, completions: int, most: int | None = None) -> float:
        """Estimate J of the policy, from completions of each of at most so many prompts."""
        means, positions = [], self.probe.sampling.max_new_tokens
        for indices in self._batches(completions, most):
            prompts, drawn = [self.prompts[index] for index in indices], range(completions)
            numbers_PNT = np.stack(
                [
                    uniforms(self.probe.seed, one.id, "evaluation", drawn, positions)
                    for one in prompts
                ]
            )
            tokens = [self.tokens[index] for index in indices]
            found = draw_together(self.policy, tokens, numbers_PNT)
            for prompt, one in zip(prompts, found, strict=True):
                rewards = reward_completions(self.reward, one.texts(self.policy), prompt)
                means.append(rewards.values_N.mean())
        return float(np.mean(means))

    def _batches(self, completions: int, most: int | None) -> Iterator[list[int]]:
        """Yield prompts of one length, by index, so many as are drawn together."""
        each = max((self.probe.model.batch or ROWS) // completions, 1)

        def length(index: int) -> int:
            return len(self.tokens[index])

        for _, alike in groupby(sorted(range(len(self.tokens))[:most], key=length), length):
            prompts = list(alike)
            yield from (prompts[at : at + each] for at in range(0, len(prompts), each))


def probe_of_prompts(probe: Probe, source: str) -> Probe:
    """Give a probe all prompts of another source, as it shows its own."""
    prompts = probe.prompts.model_copy(update={"source": source, "limit": None})
    return probe.model_copy(update={"prompts": prompts})


def with_prompts(task: Task, source: str, root: Path) -> Task:
    """Make the task of other prompts, with the same policy."""
    return make_task(probe_of_prompts(task.probe, source), task.policy, root)


def make_task(probe: Probe, policy: Policy, root: Path) -> Task:
    """Read prompts and reward of a probe for its policy.

    Raises:
        InputError: They do not fit, or cannot be read.
    """
    prompts = load_prompts(probe.prompts, root)
    reward = load_reward(probe.reward, chat=probe.prompts.chat)
    try_reward(reward, prompts)
    longest = probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=probe.prompts.chat, new_tokens=longest)
    return Task(probe, policy, prompts, tokens, reward)


def load_task(name: str, root: Path) -> Task:
    """Load what a probe says, by its name or file."""
    probe = load_probe(probe_file(name, root))
    return make_task(probe, load_policy(probe, root), root)
