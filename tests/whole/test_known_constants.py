"""The constants of random prompts against enumeration.

Prompts are drawn from three whose completions are all known. The constants of a run, of its
pools or of few completions, are met on average. What its numbers vary by is held in
`mse/test_reference_noise.py`.
"""

from itertools import product

import numpy as np
import pytest

from enumerated import (
    LARGEST,
    Enumerated,
    design_of,
    mse_and_mean,
    prompts_of,
    trace_and_zeta,
)
from mse_lab.estimators import find_estimator
from mse_lab.mse.prompt_table import Constants, PromptTable
from mse_lab.mse.reference_noise import gradient2_of_all, noise_of_pairs
from mse_lab.mse.samples import Samples

RUNS, PROMPTS, BLOCKS = 150, 24, 3
SMALL, ERRORS = 16, 4.5


def constants_of(prompts):
    """c1 to c3 and their like, by groups that are summed over, at G = 2."""
    gradients = np.array([one.gradient for one in prompts])
    mean = gradients.mean(0)
    traces, zetas = np.transpose([trace_and_zeta(one) for one in prompts])
    of = {
        name: np.mean([2 * mse_and_mean(one, name, 2)[0] for one in prompts])
        for name in ("vanilla", "best-constant")
    }
    constant = find_estimator(
        {"name": "constant", "alpha": np.mean([one.value for one in prompts])}
    )
    return {
        "c1": np.mean((gradients - mean) ** 2) * len(mean),
        "c2": traces.mean(),
        "c3": zetas.mean(),
        "vanilla": of["vanilla"],
        "best_constant": of["best-constant"],
        "batch_mean": np.mean([2 * one.mse(constant, 2) for one in prompts]),
        "gradient2": mean @ mean,
    }


def tables_of_pools(design, rng):
    while True:
        own = design.some(rng, PROMPTS)
        yield PromptTable.of_pools(own.draw(rng, SMALL, BLOCKS, LARGEST))


def tables_of_samples(design, rng, most=None):
    """Blocks of 8 and of 4, whose products come from the blocks' gradients."""
    while True:
        own = design.some(rng, PROMPTS)
        blocks = [own.sample(rng, size, most) for size in (8, 4)]
        yield PromptTable.of_samples(Samples.of([*zip(*blocks, strict=True)]))


SOURCES = {
    "pools": tables_of_pools,
    "few completions": tables_of_samples,
    "some differentiated": lambda *args: tables_of_samples(*args, most=(2, 3)),
}


def draw_tables(kind, source, runs=RUNS):
    tables = SOURCES[source](design_of(prompts_of(kind)), np.random.default_rng(2))
    return [next(tables) for _ in range(runs)]


@pytest.mark.parametrize(
    ("kind", "source"),
    [*product(("binary", "graded"), SOURCES)][:-1],  # Graded ones all are differentiated.
)
def test_constants_are_met_on_average(kind, source):
    """Those of 150 runs: a false alarm in 2e-4 of draws.

    A prompt's best baseline has no estimate without bias from few completions.
    """
    tables, truth = draw_tables(kind, source), constants_of(prompts_of(kind))
    if source != "pools":
        truth.pop("best_constant")
    for name, true in truth.items():
        found = np.array([getattr(one.constants, name).item() for one in tables])
        assert abs(found.mean() - true) < ERRORS * found.std() / np.sqrt(RUNS), name
    assert {*truth} <= {*Constants._fields}


def test_where_there_is_no_gradient_its_square_varies_by_its_pairs():
    """The scores of right and of wrong completions are alike; 12 prompts, 150 runs: 3%."""
    chances, step = np.array([0.15, 0.15, 0.35, 0.35]), np.array([1.0, 2.0])
    scores = np.array([[1.0], [-1.0], [1.0], [-1.0]]) * step
    one = Enumerated([*range(4)], chances, np.array([1.0, 1, 0, 0]), np.ones(4), scores)
    rng, design = np.random.default_rng(5), design_of(12 * [one])
    said, found = [], []
    for _ in range(RUNS):
        pools = design.draw(rng, SMALL, 6, LARGEST)
        found.append(gradient2_of_all(pools))
        said.append(noise_of_pairs(pools))
    assert 0.85 < np.var(found) / np.mean(np.square(said)) < 1.1
    assert abs(np.mean(found)) < ERRORS * np.std(found) / np.sqrt(RUNS * 12)
