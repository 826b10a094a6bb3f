"""What a mean over a batch's tokens does to the noise of GRPO with std, on real lengths.

`PYTHONPATH=tests python -m benchmarks.token_mean`: on the committed pools of the pretrained
model, in batches of 8 and 32 prompts drawn from a run's. With the factor f of a batch, one
over its mean length, and the squared lengths Q of its groups' estimates, E[f^2 Q] over
E[f]^2 E[Q], which is 1 where f does not vary. `advise` takes it for 1.
"""

from pathlib import Path

import numpy as np

from mse_lab.estimators import find_estimator
from mse_lab.mse.replicates import form_groups, group_grams
from mse_lab.results.finished_run import read_finished

RUNS = Path(__file__).resolve().parents[2] / "results/smollm2"
NAMES = ("base", "words-base", "words-instruct", "words-icl")
DRAWS = 4000


def main() -> None:
    """Print a row a run, group size and number of prompts."""
    rng, estimator = np.random.default_rng(0), find_estimator({"name": "grpo-std"})
    for name in NAMES:
        pools = read_finished(RUNS / name).pools
        for size in (4, 8, 16):
            groups, gram = form_groups(pools, size), group_grams(pools, size)
            weights = estimator.weights(groups)
            squares_PR = np.einsum("pri,prij,prj->pr", weights, gram, weights)
            lengths_PR = groups.lengths_PRG.mean(-1)
            for prompts in (8, 32):
                found = []
                for _ in range(DRAWS):
                    at = rng.choice(pools.prompts, prompts, replace=False)
                    group = rng.integers(0, lengths_PR.shape[1], prompts)
                    found.append(
                        [1 / lengths_PR[at, group].mean(), squares_PR[at, group].sum()]
                    )
                f, q = np.array(found).T
                effect = (f**2 * q).mean() / (f.mean() ** 2 * q.mean())
                print(f"{name}, G = {size}, {prompts} prompts: {effect:.3f}", flush=True)


if __name__ == "__main__":
    main()
