"""Warnings: what a reader should know before using a run's numbers, one sentence each.

A run that is warned of is correct if its checks hold. But if no prompt has both right and
wrong completions, if all are cut, or if ||g||^2 cannot be distinguished from its noise, the
run compares estimators on a problem that hardly anybody has.
"""

import math
from collections.abc import Iterator, Sequence

from mse_lab.formatting import number, share
from mse_lab.mse.curves import Points, disagreement
from mse_lab.mse.laws import LAWS
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_table import count_carriers
from mse_lab.mse.reference_noise import aggregate_norm2_error
from mse_lab.mse.replicates import Key
from mse_lab.results.diagnostics import Diagnostics

# Probability that a run is warned of a disagreement although all its curves are correct.
FAMILY_WISE = 1e-4

# With fewer degrees intervals of heavy tails cover 88 to 90% (benchmarks/coverage.py).
FEW_DEGREES = 5

# Shares of completions, or of prompts, beyond which a warning is given.
MOST, NEARLY_ALL = 0.5, 0.9

# The fewest standard errors between ||g||^2 and zero without a warning.
STANDARD_ERRORS = 2.0


def _warn_of_rewards(run: Diagnostics, *, sampled: bool) -> Iterator[str]:
    if run.one_reward == 1:
        yield (
            "every prompt's reference completions have one reward, on average "
            f"{number(run.mean_reward, 3)}: the true gradient cannot be distinguished from "
            "zero; look at some of completions.jsonl, then at the template, the reward and "
            "sampling.max_new_tokens, or take harder or easier prompts"
        )
    elif run.one_reward > MOST:
        rest = round((1 - run.one_reward) * run.prompts)
        yield (
            f"all rewards are the same on {share(run.one_reward, 3)} of the prompts: the "
            f"aggregate is carried by the other {rest} of {run.prompts}; take prompts that "
            "the model gets right now and then, or "
            f"{'a larger budget' if sampled else 'more completions in pool.reference'}"
        )


def warn_of_completions(run: Diagnostics, *, sampled: bool = False) -> Iterator[str]:
    """Warn of completions, perhaps few that an advice `sampled`, that mean little."""
    yield from _warn_of_rewards(run, sampled=sampled)
    if run.given_up:
        yield (
            f"{run.given_up} comparisons with the answer took too long and were given up: "
            "these completions have reward 0, which another machine may see otherwise"
        )
    if not any(end.share for end in run.end_tokens):
        tokens = ", ".join(f"{end.text} ({end.id})" for end in run.end_tokens)
        yield (
            f"no completion ever drew an end token (known: {tokens or 'none'}): they all "
            "were cut at sampling.max_new_tokens; raise it, or look at prompts.template "
            "and prompts.chat: after this prompt the model may not know where to stop"
        )
    elif run.truncated > MOST:
        yield (
            f"{share(run.truncated, 3)} of the completions were cut at "
            "sampling.max_new_tokens: rewards and gradient are those of the cut policy; "
            "raise it"
        )
    if run.empty > MOST:
        yield (
            f"{share(run.empty, 3)} of the completions are empty, ended by their first "
            "token: the prompt seems to end the turn; look at prompts.template and "
            "prompts.chat"
        )
    elif run.commonest > NEARLY_ALL:
        yield (
            "a prompt's completions are nearly all the same, "
            f"{share(run.commonest, 3)} of them on average: groups rarely differ in "
            "reward, so errors rest on a few rare completions; raise sampling.temperature "
            "or take harder prompts"
        )


def warn_of_copies(kinds: Sequence[str], *, sampled: bool = False) -> list[str]:
    """Warn where prompts of one kind stand under several ids.

    >>> warn_of_copies(["1 + 1", "1 + 2", "1 + 1"], sampled=True)[0][:49]
    '1 of 3 prompts has the text and answer of another'
    """
    copies = len(kinds) - len(set(kinds))
    if not copies:
        return []
    have = "has" if copies == 1 else "have"
    said = f"{copies} of {len(kinds)} prompts {have} the text and answer of another"
    if sampled:
        return [f"{said}: each counts once (prompts.population = these counts them all)"]
    return [
        f"{said}, and intervals over prompts (c1, G*) take them for different ones: "
        "measure each once"
    ]


def warn_of_norms_only(pools: Pools, points: Points) -> list[str]:
    """Warn that there are no replicates; say why, and what is left."""
    unknown = int((~pools.has_cross_products_P).sum())
    if not unknown:
        return []
    with_law = {key.estimator for key, (_, law) in points.items() if law is not None}
    names = dict.fromkeys(key.estimator for key in points if key.estimator not in with_law)
    nothing = f"; there is no law for {', '.join(names)}" if names else ""
    return [
        f"norms only: on {unknown} of {pools.prompts} prompts products between completions "
        "are not known, so there are no replicates; mse is empty; law is exact at the "
        "pool's moments, confirmed by no replicate, and its intervals take an upper bound "
        f"for the noise of ||g||^2{nothing}"
    ]


def _degrees_by_law(pools: Pools, key: Key) -> float:
    """Degrees of freedom of the replicates, by each prompt's share of the law's MSE.

    Two groups of the prompt that carries the MSE may be close by chance, which the law
    does not depend on.
    """
    law = LAWS.get(key.estimator, LAWS["grpo"])
    mse_P = law(pool_moments(pools), max(key.group_size, 2))
    groups = pools.rewards_PN.shape[1] // key.group_size
    return max(1.0, count_carriers(mse_P**2) * (groups + 1) - 2)


def warn_of_weak_gradient(pools: Pools) -> list[str]:
    """Warn where the aggregate's ||g||^2 cannot be distinguished from zero."""
    norm2, error = pools.aggregate_norm2, aggregate_norm2_error(pools)
    # Where every prompt has one reward there is no gradient; that has its own warning.
    if norm2 > STANDARD_ERRORS * error or not (pools.reward_variance_P > 0).any():
        return []
    return [
        f"the aggregate's ||g||^2 = {number(norm2)} is within {STANDARD_ERRORS:g} standard "
        f"errors ({number(error)}) of zero: relative and scale-free MSE and cosines mean "
        "little; take more completions in pool.reference, or more prompts"
    ]


def warn_of_small_reference(pools: Pools, points: Points) -> list[str]:
    """Warn where the reference is too small to give the mean of a biased estimator."""
    keys = [
        key
        for key, (measured, law) in points.items()
        if law is not None and measured is None and pools.has_cross_products
    ]
    if not keys:
        return []
    listed = ", ".join(f"{key.estimator} at G = {key.group_size}" for key in keys)
    wanted = max(key.group_size for key in keys) + 3
    return [
        f"pool.reference = {2 * pools.reference_half} is too small for the bias of "
        f"{listed}: their MSE, slope and scale-free MSE are left empty, and they are not "
        f"ranked; give pool.reference={wanted + wanted % 2} or more"
    ]


def warn_of_few_degrees(pools: Pools, points: Points) -> list[str]:
    """Warn where a few prompts or completions carry an MSE; say which pool would do."""
    carried = [
        (min(measured.statistic().spread.degrees, _degrees_by_law(pools, key)), key)
        for key, (measured, _) in points.items()
        if measured is not None
    ]
    degrees, key = min(carried, key=lambda pair: pair[0], default=(math.inf, None))
    if key is None or degrees >= FEW_DEGREES:
        return []
    replicates = pools.rewards_PN.shape[1] // key.group_size
    # Degrees plus two grow as replicates plus one: exact for one prompt's normal errors.
    wanted = (FEW_DEGREES + 2) / (degrees + 2) * (replicates + 1) - 1
    blocks = math.ceil(wanted * key.group_size / pools.largest_group)
    return [
        f"too few effective degrees of freedom ({number(degrees, 2)}, {key.estimator} at "
        f"G = {key.group_size}): a few prompts, or a few completions, carry the MSE, and "
        "intervals may cover less than they say; more prompts like these would do, or "
        f"pool.replicate={blocks * pools.largest_group}"
    ]


def warn_of_disagreement(points: Points) -> list[str]:
    """Warn of estimators whose replicates and law disagree, family-wise at 1e-4."""
    both = [
        (key, measured, law, disagreement(measured, law))
        for key, (measured, law) in points.items()
        if measured is not None and law is not None
    ]
    return [
        f"{key.estimator} at G = {key.group_size}: the replicates give "
        f"{number(float(measured.point.mse), 4)}, its law "
        f"{number(float(law.point.mse), 4)} (p = {number(p_value, 1)}); one of them is "
        "wrong"
        for key, measured, law, p_value in both
        if p_value < FAMILY_WISE / len(both)
    ]
