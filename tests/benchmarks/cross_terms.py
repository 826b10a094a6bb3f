"""Cross terms of estimators that look at other prompts, by forming whole aggregates.

An estimator such as `global-mean` makes the errors of prompts depend on one another; the
tables leave the cross terms out, as of second order. Here every score of tiny/base is
stored, whole aggregates are formed, and the neglected share is measured:

    python tests/benchmarks/cross_terms.py        ten minutes, 16 GB
"""

from pathlib import Path

import numpy as np
import torch

from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw
from mse_lab.probe.probe_files import load_probe, probe_file
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import integer, reward_completions
from mse_lab.probe.streams import uniforms

ROOT = Path(__file__).resolve().parents[2]
PROMPTS, GROUP, REPLICATES = 20, 4, 64
NAMES = ("grpo", "global-mean", "shrinkage")


def store_scores(policy: Policy, tokens: list[int], drawn: Completions) -> np.ndarray:
    """Differentiate every completion's log-probability, (N, D) in float32."""
    parameters = list(policy.parameters.values())
    with torch.enable_grad(), policy.differentiable():
        log_probs = sequence_log_probs(policy, tokens, drawn)
        rows = [
            torch.autograd.grad(one, parameters, retain_graph=True) for one in log_probs
        ]
    return np.stack([torch.cat([part.flatten() for part in row]).numpy() for row in rows])


def gather() -> tuple[Groups, list[np.ndarray]]:
    """Draw and score the completions of the first prompts of tiny/base."""
    probe = load_probe(probe_file("tiny/base", ROOT))
    policy, count = load_policy(probe, ROOT), REPLICATES * GROUP
    rewards, scores = [], []
    for prompt in load_prompts(probe.prompts, ROOT)[:PROMPTS]:
        [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=8)
        numbers = uniforms(0, prompt.id, "cross terms", range(count), 8)
        drawn = draw(policy, tokens, numbers, prompt.id)
        rewards.append(reward_completions(integer, drawn.texts(policy), prompt).values_N)
        scores.append(store_scores(policy, tokens, drawn))
    shape = (PROMPTS, REPLICATES, GROUP)
    groups = Groups(
        rewards_PRG=np.reshape(rewards, shape),
        lengths_PRG=np.ones(shape, dtype=np.int64),
        norms2_PRG=np.ones(shape),
        value_P=np.mean(rewards, axis=1),
        best_constant_PR=np.zeros(shape[:2]),
    )
    return groups, scores


def cross_share(name: str, groups: Groups, scores: list[np.ndarray]) -> tuple[float, float]:
    """Cross terms over the sum of the prompts' variances, with its standard error."""
    weights = find_estimator(name).weights(groups).astype(np.float32)
    total, own = np.zeros((REPLICATES, scores[0].shape[1])), np.zeros(REPLICATES)
    for weights_RG, scores_ND in zip(weights, scores, strict=True):
        estimates = np.einsum(
            "rg,rgd->rd", weights_RG, scores_ND.reshape(REPLICATES, GROUP, -1)
        )
        estimates -= estimates.mean(0)
        total += estimates
        own += (estimates**2).sum(-1)
    cross = (total**2).sum(-1) - own
    error = cross.std(ddof=1) / np.sqrt(REPLICATES)
    return float(cross.mean() / own.mean()), float(error / own.mean())


def main() -> None:
    """Print the share of each estimator; `grpo` is the control, exactly 0 on average."""
    groups, scores = gather()
    for name in NAMES:
        share, error = cross_share(name, groups, scores)
        print(f"{name:<12} {100 * share:+.1f}% of the sum, s.e. {100 * error:.1f}%")


if __name__ == "__main__":
    main()
