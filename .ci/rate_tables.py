"""The tables of trainings that compare arms at one learning rate, for `tables.py`."""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests
from table_cells import Row, read, table
from training_tables import (
    AFFINE,
    BASE,
    CONSTANT,
    KEYS,
    STUDIES,
    TRLS,
    Key,
    parts_of,
    steps_of,
)

OPTIMISERS = {"adamw": "AdamW", "sgd": "SGD"}


def gains_at_the_end(study: str, kind: str) -> dict[Key, pd.DataFrame]:
    """Give each arm's runs with their gain after the last step, by rate and seed."""
    runs = pd.concat([read(f"{part}/runs.csv") for part in parts_of(study)])
    last = steps_of(study)[-1]
    runs["gain"] = runs[f"{kind}_{last}"] - runs[f"{kind}_0"]
    runs = runs.drop_duplicates([*KEYS, "step_size", "seed"])
    return dict(iter(runs.groupby(KEYS)))


def best_rate(runs: pd.DataFrame) -> float:
    """Give the rate at which an arm gains most."""
    return float(runs.groupby("step_size").gain.mean().idxmax())


def pair(mine: pd.DataFrame, other: pd.DataFrame) -> Iterable[Row]:
    """Compare gains by seed, if there are any pairs."""
    pairs = mine.merge(other, on=["seed", "optimiser"])
    if len(pairs):
        apart = stats.ttest_rel(pairs.gain_x, pairs.gain_y)
        yield {
            "optimiser": pairs.optimiser[0],
            "more": apart.statistic > 0,
            "p_value": apart.pvalue,
            "times": pairs.gain_x.mean() / pairs.gain_y.mean(),
        }


def at_one_rate(study: str, arms: Sequence[Key], kind: str) -> Iterable[Row]:
    """Compare the first arm's gains with the other's, both at the other's best rate."""
    of = gains_at_the_end(study, kind)
    if {*arms} <= {*of}:
        mine, other = (of[arm] for arm in arms)
        best = best_rate(other)
        yield from pair(mine[mine.step_size == best], other[other.step_size == best])


@table
def gains_at_one_rate() -> Iterable[Row]:
    """Compare fitted baselines with groups of 8, at the rate that is best for these."""
    compared = {
        ("best, G = 1", "RLOO, 8"): (CONSTANT, BASE),
        ("trainer, G = 2", "RLOO, 8"): (AFFINE, BASE),
        ("trainer, G = 2", "TRL's, 8"): (AFFINE, TRLS),
    }
    kinds = {"trained": "step", "held-out": "unseen"}
    for ((mine, other), arms), (words, kind) in product(compared.items(), kinds.items()):
        found = pd.DataFrame(
            [row for study in STUDIES for row in at_one_rate(study, arms, kind)]
        )
        row = {"gain of": mine, "over": other, "prompts": words}
        for name, head in OPTIMISERS.items():
            some = found[found.optimiser == name]
            times, more = some.times, some.more & (some.p_value < 0.05)
            row[f"{head} (median); significant"] = (
                f"{times.min():.2f} to {times.max():.2f} ({times.median():.2f}); "
                f"{more.sum()} of {len(some)}"
                if len(some)
                else "\u2013"
            )
        by_holm = multipletests(found.p_value, method="holm")[0] & found.more
        yield row | {"Holm": str(by_holm.sum())}


@table
def gains_at_twice_the_rate() -> Iterable[Row]:
    """Compare arms' gains at twice RLOO's best rate on trained prompts with those at it."""
    tiny = [study for study in STUDIES if study.startswith("tiny")]
    models = {"tiny/base": tiny, "SmolLM2": [one for one in STUDIES if one not in tiny]}
    arms = {"constant": CONSTANT, "trainer": AFFINE}
    rows: dict[tuple[str, ...], list[Row]] = {}
    for (model, studies), (words, arm) in product(models.items(), arms.items()):
        for study, kind in product(studies, ("step", "unseen")):
            best = best_rate(gains_at_the_end(study, "step")[BASE])
            mine = gains_at_the_end(study, kind).get(arm)
            if mine is None:
                continue
            rates = [mine[np.isclose(mine.step_size, one * best)] for one in (2, 1)]
            for row in pair(*rates):
                head = words, model, row["optimiser"]
                rows.setdefault((*head, kind), []).append(row)
    heads = dict.fromkeys(head[:3] for head in rows)
    for head in heads:
        cells = {}
        for kind, words in (("step", "trained"), ("unseen", "held-out")):
            found = pd.DataFrame(rows[*head, kind])
            said = [
                f"{len(some)} ({(some.p_value < 0.05).sum()})"
                for some in (found[found.more], found[~found.more])
            ]
            cells[f"{words}: more (significantly), less"] = ", ".join(said)
        name, model, optimiser = head
        yield {"arm": f"{name}, {model}, {OPTIMISERS[optimiser]}"} | cells
