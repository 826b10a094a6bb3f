"""This tool, called through its public functions: the only file that does so.

A change of a signature of `mse_lab` is one edit here.
"""

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.cases import ROOT, Case, write_probe
from benchmarks.work import Work
from mse_lab.api.measure import analyse
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.replicates import Key
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import load_reward, reward_completions
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import uniforms
from mse_lab.results.finished_run import read_result
from mse_lab.run.finish import describe_environment
from mse_lab.run.prepare import prepare
from mse_lab.run.run_probe import execute
from mse_lab.scores.reference import measure_reference
from mse_lab.scores.score_block import Scores, Scoring, score_block

Gradient = dict[str, Tensor]

# The oracle's V, the same for all ways; which value it has costs no time.
VALUE = 0.5

RESAMPLES = 4000


@dataclass(frozen=True)
class Loaded:
    """A case, loaded."""

    case: Case  # The model and the shape.
    probe: Probe  # Its probe.
    policy: Policy  # The policy.
    prompts: list[Prompt]  # The prompts.
    tokens: list[list[int]]  # Their token ids.


def load(case: Case, folder: Path, **settings: Any) -> Loaded:
    """Write the probe of a case, see `write_probe`, and load it."""
    probe = load_probe(write_probe(case, folder, **settings))
    policy = load_policy(probe, ROOT)
    prompts = load_prompts(probe.prompts, ROOT)
    chat, new_tokens = probe.prompts.chat, probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=chat, new_tokens=new_tokens)
    return Loaded(case, probe, policy, prompts, tokens)


def sample(loaded: Loaded, index: int, pool: str, count: int) -> Completions:
    """Draw completions of a prompt."""
    prompt, positions = loaded.prompts[index], loaded.probe.sampling.max_new_tokens
    numbers = uniforms(loaded.probe.seed, prompt.id, pool, range(count), positions)
    return draw(loaded.policy, loaded.tokens[index], numbers, prompt.id)


def reward(loaded: Loaded, index: int, completions: Completions) -> np.ndarray:
    """Reward completions of a prompt, (N,)."""
    function = load_reward(loaded.probe.reward)
    texts = completions.texts(loaded.policy)
    return reward_completions(function, texts, loaded.prompts[index]).values_N


def reference(loaded: Loaded, index: int, completions: Completions) -> Gradient:
    """Measure rbar, parameter name -> gradient."""
    found = measure_reference(
        loaded.policy,
        loaded.tokens[index],
        completions,
        reward(loaded, index, completions),
        lambda gradient: np.zeros(0, np.float32),
    )
    return found.mean


def score(
    loaded: Loaded, index: int, completions: Completions, against: Gradient
) -> Scores:
    """Score one block of completions."""
    return score_block(loaded.policy, loaded.tokens[index], completions, against)


def work(loaded: Loaded, index: int, completions: Completions, against: Gradient) -> Work:
    """Give completions of a prompt to the other ways."""
    policy = loaded.policy
    longest = int(completions.lengths_N.max())
    return Work(
        model=policy.model,
        parameters=policy.parameters,
        prompt=loaded.tokens[index],
        tokens_NT=torch.from_numpy(completions.tokens_NT[:, :longest]),
        lengths_N=torch.from_numpy(completions.lengths_N),
        rewards_N=reward(loaded, index, completions),
        value=VALUE,
        reference=against,
        temperature=policy.temperature,
    )


@dataclass(frozen=True)
class Scored:
    """A block of one prompt, to be scored by any way."""

    loaded: Loaded  # The case.
    completions: Completions  # The block.
    against: Gradient  # The reference.
    index: int = 0  # The prompt's number.

    def products(self) -> tuple[np.ndarray, np.ndarray]:
        """Score the block by this tool: Gram matrix and products with the reference."""
        found = score(self.loaded, self.index, self.completions, self.against)
        return found.gram_NN, found.products_N

    def products_alone(self) -> np.ndarray:
        """Give the Gram matrix alone."""
        loaded, tokens = self.loaded, self.loaded.tokens[self.index]
        return score_block(loaded.policy, tokens, self.completions, None).gram_NN

    @cached_property
    def work(self) -> Work:
        """The same block for the other ways."""
        return work(self.loaded, self.index, self.completions, self.against)


def run(loaded: Loaded, folder: Path) -> None:
    """Carry out a whole run, its tables included; no built-in check of it may fail."""
    # Its progress bar would stand between the benchmark's own lines.
    with redirect_stderr(io.StringIO()):
        outcome = execute(prepare("bench", loaded.probe, folder, ROOT), fresh=True)
    if not all(check.ok for check in outcome.checks):
        raise RuntimeError(f"{loaded.case.model}, {loaded.case.shape}: a check failed")


def ways_of_one(loaded: Loaded, length: int) -> dict[str, Callable[[], object]]:
    """List ways to differentiate one completion of random tokens; a plain pass first."""
    policy, prompt = loaded.policy, loaded.tokens[0]
    tokens_NT = np.random.default_rng(0).integers(policy.vocabulary, size=(1, length))
    one = Completions(tokens_NT, np.array([length]), np.zeros(1), np.zeros(1, np.bool_))

    def plain() -> None:
        with torch.enable_grad(), policy.differentiable():
            sequence_log_probs(policy, prompt, one).sum().backward()

    def scored(**way: Any) -> Callable[[], object]:
        return partial(score_block, policy, prompt, one, None, how=Scoring(1, **way))

    return {
        "plain": plain,
        "rules": scored(),
        "alone": scored(alone=True, sketched=True),
    }


def ratios(folder: Path, size: int) -> dict[str, Statistic]:
    """Estimate GRPO-type / oracle of a finished run at one group size.

    `paired` has both on the same groups; `fresh` is as if the oracle had completions of its
    own; `law` has both by their exact laws.
    """
    result = read_result(folder)
    found = analyse(vars(result.pools), group_sizes=[size], resamples=RESAMPLES).points

    def numbers(way: int) -> list[Statistic]:
        curves = [found[Key(name, size)][way] for name in ("grpo", "oracle")]
        return [curve.statistic() for curve in curves if curve is not None]

    (grpo, oracle), (grpo_law, oracle_law) = numbers(0), numbers(1)
    fresh = replace(oracle, groups={"fresh": next(iter(oracle.groups.values()))})
    return {"fresh": grpo / fresh, "paired": grpo / oracle, "law": grpo_law / oracle_law}


def environment(root: Path) -> dict[str, Any]:
    """Describe versions, device and commit."""
    return describe_environment(root, torch.device("cpu"), 0.0)
