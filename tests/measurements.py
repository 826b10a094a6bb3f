"""A measured prompt to change: four completions, whose numbers are all distinct."""

from dataclasses import fields, replace

import numpy as np

from mse_lab.results.measurement import (
    CompletionSummary,
    PromptArrays,
    PromptChecks,
    PromptMeasurement,
    Provenance,
)


def make_measurement(rng=None, **changes):
    """Make a measurement of random scores in three dimensions, K = 2 blocks of G = 2.

    The changes are fields of its parts, whose names all differ.
    """
    rng = np.random.default_rng(5) if rng is None else rng
    scores = rng.standard_normal((4, 3))
    half_a, half_b = rng.standard_normal((2, 3)).astype(np.float32)
    mean = (half_a + half_b) / 2
    prompt = PromptMeasurement(
        arrays=PromptArrays(
            rewards_N=np.array([1.0, 0.0, 0.0, 1.0]),
            lengths_N=np.array([2, 1, 3, 2]),
            gram_KGG=np.stack([block @ block.T for block in (scores[:2], scores[2:])]),
            products_N=scores @ mean,
            reference_rewards_N=np.array([0.0, 1.0, 1.0, 1.0]),
            reference_product=float(half_a @ half_b),
            reference_distance2=float(((half_a - half_b) ** 2).sum()),
            kind_norms2_NM=scores**2,
            kind_products_M=half_a.astype(float) * half_b,
            logit_norms2_N=np.array([0.5, 1.5, 0.25, 1.0]),
            mean_D=mean,
            difference_D=half_a - half_b,
        ),
        completions=CompletionSummary(
            lines='{"text": "zwölf"}\n{"text": ""}',
            mean_length=3.0,
            truncated=0.25,
            empty=0.0,
            distinct=0.5,
            commonest=0.125,
            end_ids=np.array([2, 5]),
            end_counts=np.array([60, 12]),
            given_up=0,
        ),
        checks=PromptChecks(
            law_gap=1e-7,
            rare_ratios_X=np.zeros(0),
            invariance=np.nan,
            log_ratios_N=np.zeros(0),
            divergences_N=np.zeros(0),
        ),
        provenance=Provenance(seconds=10.0, device="A", peak_memory=7),
    )
    return change(prompt, **changes)


def change(prompt, **changes):
    """Change fields of a measurement's parts."""
    parts = {}
    for part in fields(prompt):
        old = getattr(prompt, part.name)
        own = {
            field.name: changes.pop(field.name)
            for field in fields(old)
            if field.name in changes
        }
        parts[part.name] = replace(old, **own)
    assert not changes, changes
    return PromptMeasurement(**parts)


def flat(prompt):
    """Give all fields of a measurement's parts."""
    parts = [vars(getattr(prompt, part.name)) for part in fields(prompt)]
    return {name: value for part in parts for name, value in part.items()}
