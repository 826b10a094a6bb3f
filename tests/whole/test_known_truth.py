"""Every number of every table against enumeration: three prompts of four completions.

The reference has 16 completions only, so that what a plain one would add, 5 to 30% here,
shows in means over some hundred runs; numbers that are only consistent (ratios, slopes)
are met with a large one.

A mean may be 4.5 of its standard errors off: for all that is compared here together a
false alarm of about 2e-3, once for the fixed seeds.
"""

import ast
import sys
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from enumerated import random_enumerated
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse import curves
from simulated import Design, analysed

BINARY_REWARDS, GRADED_REWARDS = (1.0, 0.0, 1.0, 0.0), (1.0, -0.5, 0.4, 0.0)
# Rewards, the length of the gradients' common part, and how often there are the prompts.
KINDS = {
    "binary": (BINARY_REWARDS, 1.0, 1),
    "graded": (GRADED_REWARDS, 1.0, 1),
    "binary, many": (BINARY_REWARDS, 4.0, 12),
}
SIZES, LARGEST, ERRORS = [2, 4], 8, 4.5
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


@cache
def prompts_of(kind):
    """Three prompts whose gradients have a common part, or copies of them."""
    rewards, push, copies = KINDS[kind]
    rng = np.random.default_rng(3)
    prompts = [random_enumerated(rng, rewards=rewards) for _ in range(3)]
    step = np.array([push, 0, 0])
    return copies * [
        replace(
            one,
            lengths=np.ones(4, dtype=int),
            scores=one.scores + (one.rewards - one.value)[:, None] * step,
        )
        for one in prompts
    ]


def design_of(prompts):
    parts = ("probabilities", "scores", "rewards")
    return Design(*(np.stack([getattr(one, part) for one in prompts]) for part in parts))


def trace_and_zeta(prompt):
    """T and zeta from the MSEs at G = 2, T/2 and T/2 + zeta/2."""
    oracle, grpo = (prompt.mse(ESTIMATORS[name], 2) for name in ("oracle", "grpo"))
    return 2 * oracle, 2 * (grpo - oracle)


def reference_noise(prompt, half):
    """Give tr Var(rbar) of a mean of two halves, which is what a plain reference adds."""
    trace, zeta = trace_and_zeta(prompt)
    return (trace / half + zeta / (half * (half - 1))) / 2


def norm_ratio(prompt):
    """Give rho: the mean ||W||^2 of right completions over that of wrong ones."""
    weights, right = prompt.probabilities, prompt.rewards == 1
    norms2 = np.diag(prompt.gram)
    means = (np.average(norms2[one], weights=weights[one]) for one in (right, ~right))
    return next(means) / next(means)


def parts(mse, mean, gradient, second):
    """Take a mean square apart; `second` is E||g_hat||^2."""
    norm2, inner = gradient @ gradient, mean @ gradient
    bias2 = (mean - gradient) @ (mean - gradient)
    return {
        "mse": mse,
        "bias2": bias2,
        "variance": mse - bias2,
        "slope": inner / norm2,
        "cosine": inner / np.sqrt(norm2 * (mean @ mean)),
        "scale_free_mse": norm2 - inner**2 / second,
    }


@cache
def mse_and_mean(prompt, name, size):
    """Of one prompt, each summed over all groups."""
    estimator = ESTIMATORS[name]
    return prompt.mse(estimator, size), prompt.mean_estimate(estimator, size)


def one_prompt(prompt, name, size):
    (mse, mean), gradient = mse_and_mean(prompt, name, size), prompt.gradient
    return parts(mse, mean, gradient, mse + 2 * mean @ gradient - gradient @ gradient)


def aggregate(prompts, name, size):
    """The mean over prompts: variances add up over P^2, biases as vectors."""
    each = [one_prompt(one, name, size) for one in prompts]
    mean = np.mean([mse_and_mean(one, name, size)[1] for one in prompts], axis=0)
    gradient = np.mean([one.gradient for one in prompts], axis=0)
    variance = sum(one["variance"] for one in each) / len(prompts) ** 2
    mse = variance + (mean - gradient) @ (mean - gradient)
    return parts(mse, mean, gradient, variance + mean @ mean)


def truths(kind, names, reference):
    """{(table, row, column): value} of every number but intervals."""
    prompts, found = prompts_of(kind), {}
    gradient = np.mean([one.gradient for one in prompts], axis=0)
    noises = [reference_noise(one, reference // 2) for one in prompts]
    plain = sum(noises) / len(prompts) ** 2

    oracle = {size: aggregate(prompts, "oracle", size) for size in SIZES}
    for name in names:
        has_law = name != "opo"
        for size in SIZES:
            for x, one in enumerate(prompts):
                mse, row = one_prompt(one, name, size)["mse"], (str(x), name, size)
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
    for x, one in enumerate(prompts):
        moments, (trace, zeta) = one.moments(), trace_and_zeta(one)
        row = {
            "value": one.value,
            "score_norm2": moments.norm2[0],
            "grad_norm2": one.gradient @ one.gradient,
            "trace_oracle": trace,
            "zeta": zeta,
            "best_baseline": moments.best_baseline[0],
            "mean_length": 1.0,
            # The simulated norms of logits are the roots of the scores'.
            "logit_norm2": one.mean(np.sqrt(np.diag(one.gram))),
        }
        if kind != "graded":
            row["rho"] = norm_ratio(one)
        found |= {("prompts", str(x), key): value for key, value in row.items()}
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
def measure(kind, names, reference, runs, blocks=6, tables=(*HEADS,)):
    """Read the numbers of many runs: (truths, numbers of every run)."""
    rng = np.random.default_rng(11)
    design, places, found = design_of(prompts_of(kind)), None, []
    truth = truths(kind, names, reference)
    truth = {key: value for key, value in truth.items() if key[0] in tables}
    for _ in range(runs):
        pools = design.draw(rng, reference, blocks, LARGEST)
        result = analysed(pools, SIZES, estimators=names, resamples=5)
        frames = {table: frame_of(result, table) for table in tables}
        places = places or find(frames, truth)
        arrays = {table: frame.to_numpy() for table, frame in frames.items()}
        found.append([arrays[table][row, column] for table, row, column in places])
    return truth, np.array(found, float)


# Unbiased whatever the reference. Slope and cosine of estimators whose mean is known to be
# along the gradient are exact.
UNBIASED = {
    "mse": {"mse", "mse_plain", "law", "bias2", "variance"},
    "laws": {"law", "bias2", "variance"},
    "by_prompt": {"mse", "law"},
    "prompts": COLUMNS["prompts"] - {"best_baseline", "rho"},
}


def is_unbiased(key):
    """A law's b* is plugged in.

    The parts of a binary law have a slope that is plugged in, their sum has not.
    """
    table, row, column = key
    plugged = "best-constant" in row and (column == "law" or table == "laws")
    if not {*BINARY}.isdisjoint(row):
        plugged |= column in ("bias2", "variance")
        # A law of counts takes G + 3 completions.
        plugged |= row[-1] + 3 > SMALL
    return column in UNBIASED[table] and not plugged


def off_on_average(kind, names, reference, runs, tables=(*HEADS,)):
    """Numbers without bias that are off by more than their errors on average."""
    truth, found = measure(kind, names, reference, runs, tables=tables)
    errors = found.std(0, ddof=1) / np.sqrt(len(found))
    for key, mean, error in zip(truth, found.mean(0), errors, strict=True):
        if is_unbiased(key):
            assert np.isfinite(mean), key
            if abs(mean - truth[key]) > ERRORS * error + 1e-9:
                yield key, mean, truth[key]


def test_means_over_runs_with_a_small_reference():
    """Of 200 runs; a plain reference would add 5 to 55%."""
    assert not list(off_on_average("graded", NAMES, SMALL, 200))


def test_binary_laws_at_a_small_reference():
    """Of 40 runs of 36 prompts; at the estimated V, not of its counts, it is off by 5%.

    Of the two laws of counts 5% is 7 to 11 standard errors.
    """
    names = ["oracle", "grpo-std", "maxrl"]
    assert not list(off_on_average("binary, many", names, SMALL, 40, ("mse", "laws")))


def test_every_number_with_a_large_reference():
    """Within 1% for what is plugged in, beyond the standard errors of 25 runs."""
    truth, found = measure("binary", NAMES + BINARY, LARGE, 25, blocks=128)
    errors = found.std(0, ddof=1) / np.sqrt(len(found))
    for key, mean, error in zip(truth, found.mean(0), errors, strict=True):
        allowed = ERRORS * error + 0.01 * abs(truth[key]) + 1e-9
        assert abs(mean - truth[key]) <= allowed, (key, mean, truth[key])


def test_no_number_is_without_a_truth():
    """Intervals are met elsewhere, by their coverage and their width."""
    design = design_of(prompts_of("binary"))
    pools = design.draw(np.random.default_rng(0), SMALL, 6, LARGEST)
    found = analysed(pools, SIZES, estimators=NAMES)
    for table, columns in COLUMNS.items():
        assert set(frame_of(found, table).columns) - LABELS - INTERVALS == columns, table


def test_laws_beyond_enumeration_continue_the_line():
    """G x law is constant in G for vanilla and oracle, a line in 1/(G-1) for GRPO-type."""
    design = design_of(prompts_of("graded"))
    laws = analysed(design.draw(np.random.default_rng(0), SMALL, 6, LARGEST), SIZES).laws
    assert laws["group_size"].max() == 1024
    for name, rows in laws.groupby("estimator"):
        size, scaled = rows["group_size"].to_numpy(), rows["group_size"] * rows["law"]
        line = np.polyfit(1 / (size[:2] - 1), scaled[:2], 1)
        assert line[0] > 0 if name == "grpo" else abs(line[0]) < 1e-9
        np.testing.assert_allclose(scaled, np.polyval(line, 1 / (size - 1)), rtol=1e-9)


TESTS = Path(__file__).resolve().parents[1]


def imported_at_once(name):
    """Top-level names that a file of tests/ and what it takes from tests/ import."""
    for node in ast.parse((TESTS / f"{name}.py").read_text()).body:
        modules = [one.name for one in getattr(node, "names", ())]
        if isinstance(node, ast.ImportFrom):
            modules = [node.module]
        elif not isinstance(node, ast.Import):
            continue
        for package in {one.partition(".")[0] for one in modules}:
            is_ours = (TESTS / f"{package}.py").exists()
            yield from imported_at_once(package) if is_ours else [package]


def test_the_script_runs_without_the_extras_of_the_tests():
    """The first page names it beside `pip install '.[measure]'`, which brings no pytest."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["measure"]
    installed = {one.partition(">")[0] for one in asked}
    installed |= {"mse_lab", "tokenizers"}  # transformers brings the second.
    assert set(imported_at_once("known_truth")) - sys.stdlib_module_names <= installed
