"""Every number of every table against enumeration: three prompts of four completions.

The reference has 16 completions only, so that what a plain one would add, 5 to 30% here,
shows in means over some hundred runs; numbers that are only consistent (ratios, slopes)
are met with a large one.

A mean may be 4.5 of its standard errors off: for all that is compared here together a
false alarm of about 2e-3, once for the fixed seeds.
"""

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from enumerated import (
    LARGEST,
    aggregate,
    every_reference,
    mse_and_mean,
    norm_ratio,
    of_two_kinds,
    prompts_of,
    reference_noise,
    trace_and_zeta,
)
from mse_lab.mse import curves
from simulated import analysed, choose

SIZES, ERRORS = [2, 4], 4.5
SMALL, LARGE = 16, 4096
# With a law for any rewards; opo has none and is measured through products of groups.
NAMES = ["vanilla", "grpo", "oracle", "centred", "best-constant", "opo"]
BINARY = ["grpo-std", "maxrl", "quantile", "pass-at-k"]
LAW_SIZES = [2, 4, 8, 32]

ENDS = ("mse", "law", "ratio", "scale_free_mse", "scale_free_ratio", "rho")
INTERVALS = {f"{name}_{end}" for name in ENDS for end in ("low", "high")}
LABELS = {"probe", "estimator", "group_size", "replicates", "prompt", "category"}
LABELS |= {"truncated"}  # which pools do not know
PARTS = {"mse", "bias2", "variance", "slope", "cosine", "scale_free_mse", "law"}
COLUMNS = {
    "mse": PARTS | {"mse_plain", "relative_mse", "ratio", "scale_free_ratio"},
    "laws": PARTS - {"mse"},
    "by_prompt": {"mse", "law"},
    "prompts": {"value", "score_norm2", "grad_norm2", "trace_oracle", "zeta"}
    | {"best_baseline", "mean_length", "rho", "logit_norm2"},
}


def truths(prompts, names, reference):
    """{(table, row, column): value} of every number but intervals."""
    found = {}
    gradient = prompts.gradient_PD.mean(0)
    plain = reference_noise(prompts, reference // 2).sum() / prompts.prompts**2

    oracle = {size: aggregate(prompts, "oracle", size) for size in SIZES}
    for name in names:
        has_law = name != "opo"
        for size in SIZES:
            for x, mse in enumerate(mse_and_mean(prompts, name, size)[0]):
                row = (str(x), name, size)
                found["by_prompt", row, "mse"] = mse
                if has_law:
                    found["by_prompt", row, "law"] = mse
            if has_law:
                row = aggregate(prompts, name, size)
                row["law"] = row["mse"]
                row["mse_plain"] = row["mse"] + plain
                row["relative_mse"] = row["mse"] / (gradient @ gradient)
                row["ratio"] = row["mse"] / oracle[size]["mse"]
                row["scale_free_ratio"] = (
                    row["scale_free_mse"] / oracle[size]["scale_free_mse"]
                )
                found |= {("mse", (name, size), key): one for key, one in row.items()}
        for size in LAW_SIZES if has_law else ():
            row = aggregate(prompts, name, size)
            row["law"] = row.pop("mse")
            found |= {("laws", (name, size), key): one for key, one in row.items()}
    moments, (trace, zeta) = prompts.moments(), trace_and_zeta(prompts)
    columns = {
        "value": prompts.mean(prompts.reward_PC),
        "score_norm2": moments.norm2,
        "grad_norm2": (prompts.gradient_PD**2).sum(-1),
        "trace_oracle": trace,
        "zeta": zeta,
        "best_baseline": moments.best_baseline,
        "mean_length": np.ones(prompts.prompts),
        # The simulated norms of logits are the roots of the scores'.
        "logit_norm2": prompts.mean(np.sqrt(prompts.norms2_PC)),
    }
    if {*prompts.reward_PC.flat} <= {0, 1}:
        columns["rho"] = norm_ratio(prompts)
    for key, value_P in columns.items():
        found |= {("prompts", str(x), key): value for x, value in enumerate(value_P)}
    return found


HEADS = {
    "mse": ["estimator", "group_size"],
    "laws": ["estimator", "group_size"],
    "by_prompt": ["prompt", "estimator", "group_size"],
    "prompts": ["prompt"],
}


def find(frames, keys):
    """Find the places (table, row number, column number) of the keys of `truths`."""
    rows = {
        table: frame.set_index(HEADS[table]).index.tolist()
        for table, frame in frames.items()
    }
    return [
        (table, rows[table].index(row), frames[table].columns.get_loc(column))
        for table, row, column in keys
    ]


def frame_of(result, table):
    """Give a table of a result; by prompt, the mean of the raw errors, and the law."""
    if table != "by_prompt":
        return getattr(result, table)
    names = result.described["prompt"]
    laws = {
        (one.name, size): result.curves.prompts_by_law(one, size)
        for one in result.estimators
        for size in result.group_sizes
    }
    frames = [
        pd.DataFrame({"prompt": names, **key._asdict(), "mse": errors_PR.mean(1),
                      "law": laws[key]})
        for key, errors_PR in result.errors.items()
    ]  # fmt: skip
    return pd.concat(frames)


# Of all sizes up to 1,024 those that are listed, which takes a third of the time.
@patch.object(curves, "law_sizes", lambda *_: LAW_SIZES)
def read_runs(prompts, names, runs, reference, tables=(*HEADS,)):
    """Read the numbers of runs, by their pools: (truths, numbers of every run)."""
    truth, places, found = truths(prompts, names, reference), None, []
    truth = {key: value for key, value in truth.items() if key[0] in tables}
    for pools in runs:
        result = analysed(pools, SIZES, estimators=names, resamples=5)
        frames = {table: frame_of(result, table) for table in tables}
        places = places or find(frames, truth)
        arrays = {table: frame.to_numpy() for table, frame in frames.items()}
        found.append([arrays[table][row, column] for table, row, column in places])
    return truth, np.array(found, float)


def measure(kind, names, reference, runs, blocks=6):
    """Read the numbers of many runs that are drawn."""
    rng, prompts = np.random.default_rng(11), prompts_of(kind)
    drawn = (prompts.draw(rng, reference, blocks, LARGEST) for _ in range(runs))
    truth, found = read_runs(prompts, names, drawn, reference)
    return truth, found.mean(0), found.std(0, ddof=1) / np.sqrt(runs)


# Unbiased whatever the reference. Slope and cosine of estimators whose mean is known to be
# along the gradient are exact.
UNBIASED = {
    "mse": {"mse", "mse_plain", "law", "bias2", "variance"},
    "laws": {"law", "bias2", "variance"},
    "by_prompt": {"mse", "law"},
    "prompts": COLUMNS["prompts"] - {"best_baseline", "rho"},
}


def is_unbiased(key, reference=SMALL):
    """A law's b* is plugged in.

    The parts of a binary law have a slope that is plugged in, their sum has not.
    """
    table, row, column = key
    plugged = "best-constant" in row and (column == "law" or table == "laws")
    if not {*BINARY}.isdisjoint(row):
        plugged |= column in ("bias2", "variance")
        # A law of counts takes G + 3 completions.
        plugged |= row[-1] + 3 > reference
    return column in UNBIASED[table] and not plugged


def test_means_over_runs_with_a_small_reference():
    """Of 200 runs; a plain reference would add 5 to 55%."""
    truth, means, errors = measure("graded", NAMES, SMALL, 200)
    for key, mean, error in zip(truth, means, errors, strict=True):
        if is_unbiased(key):
            off = abs(mean - truth[key])
            assert off <= ERRORS * error + 1e-9, (key, mean, truth[key])


@pytest.mark.parametrize(
    ("half", "names"),
    [(8, ["vanilla", "oracle", "centred", *BINARY]), (3, ["quantile", "pass-at-k"])],
)
def test_laws_of_few_completions_are_exact_on_average(half, names):
    """Over all references: of 16 completions of one prompt, of 6 of each of two.

    Of many prompts a bias averages away, or hides in their noise.
    """
    prompts = of_two_kinds([0.25, 0.75], [[1.0, 2.0], [2.0, -0.5]])
    prompts = choose(prompts, slice(1 if half == SMALL // 2 else 2))
    chances, runs = zip(*every_reference(prompts, half), strict=True)
    assert sum(chances) == pytest.approx(1)
    tables = ("laws", "by_prompt", "prompts")
    truth, found = read_runs(prompts, names, runs, 2 * half, tables)
    compared = {
        key: mean
        for key, mean in zip(truth, np.array(chances) @ found, strict=True)
        if is_unbiased(key, 2 * half) and (key[0], key[-1]) != ("by_prompt", "mse")
    }
    assert len(compared) > 15
    for key, mean in compared.items():
        assert mean == pytest.approx(truth[key], rel=1e-9, abs=1e-12), key


def test_every_number_with_a_large_reference():
    """Within 1% for what is plugged in, beyond the standard errors of 25 runs."""
    truth, means, errors = measure("binary", NAMES + BINARY, LARGE, 25, blocks=128)
    for key, mean, error in zip(truth, means, errors, strict=True):
        allowed = ERRORS * error + 0.01 * abs(truth[key]) + 1e-9
        assert abs(mean - truth[key]) <= allowed, (key, mean, truth[key])


def test_no_number_is_without_a_truth():
    """Intervals are met elsewhere, by their coverage and their width."""
    pools = prompts_of("binary").draw(np.random.default_rng(0), SMALL, 6, LARGEST)
    found = analysed(pools, SIZES, estimators=NAMES)
    for table, columns in COLUMNS.items():
        assert set(frame_of(found, table).columns) - LABELS - INTERVALS == columns, table
