"""Widths: foretold by a few prompts, they are those of the run's intervals."""

import numpy as np
import pandas as pd
import pytest

from mse_lab.mse.intervals import Statistic
from mse_lab.results.analysis import Analysis
from mse_lab.run.plan_widths import Point, expect_widths, find_point, roughness
from simulated import Design, make_design

NAMES, SIZES, LEVEL = ("vanilla", "grpo", "oracle"), (2, 8, 32), 0.95
PROMPTS = 40
DESIGN = make_design(np.random.default_rng(0), PROMPTS)


def some_of(design, places):
    return Design(*(getattr(design, name)[places] for name in vars(design)))


def analyse(pools, names=NAMES, level=LEVEL):
    described = pd.DataFrame({"prompt": range(pools.prompts)})
    return Analysis("run", pools, names, SIZES, level, 200, 0, described)


def widths_of(pools, prompts=PROMPTS, wanted=0.1):
    return expect_widths(analyse(pools), prompts, wanted)


def as_array(widths):
    return np.array([widths.mse[name] for name in NAMES])


def test_all_prompts_measured_tell_the_run_s_own_intervals():
    """Symmetric in the logarithm: exp(half-width) is their factor."""
    analysis = analyse(DESIGN.draw(np.random.default_rng(1), 256, 4, 32))
    found = expect_widths(analysis, PROMPTS, 0.1)
    ends = analysis.mse.set_index(["estimator", "group_size"])
    expected = np.log(ends["mse_high"] / ends["mse"]).to_numpy().reshape(3, 3)
    np.testing.assert_allclose(as_array(found), expected, rtol=1e-9)
    assert found.factor == 1


def test_larger_runs_are_foretold():
    """From half the prompts and a quarter of the replicates: within a tenth on average."""
    rng, small, large = np.random.default_rng(2), [], []
    twice = some_of(DESIGN, np.tile(np.arange(PROMPTS), 2))
    for _ in range(10):
        points = analyse(DESIGN.draw(rng, 128, 4, 32)).points
        small.append([find_point(points[key][0]).half_width(LEVEL, 2, 4) for key in points])
        # Points lie by estimator, then by size.
        large.append(as_array(widths_of(twice.draw(rng, 128, 16, 32), 2 * PROMPTS)).ravel())
    ratio = np.exp(np.log(np.array(small) / np.array(large)).mean(0))
    np.testing.assert_allclose(ratio, 1, atol=0.1)


def test_degrees_of_freedom_grow_with_the_prompts():
    """From 3 to (3 + 2) x 5 - 2 = 23, where Student's t is 2.0687; 0.04 / 5 = 0.0894^2."""
    point = Point(by_groups=0.04, by_reference=0.0, degrees=3.0, roughness=0.0)
    assert point.half_width(LEVEL, prompts=5) == pytest.approx(2.0687 * 0.089443, rel=1e-4)


def test_the_replicates_needed_are_enough():
    point = Point(by_groups=0.04, by_reference=0.01, degrees=10.0, roughness=0.0)
    count = point.replicates_for(0.2, LEVEL, prompts=3, reference=2)
    assert point.half_width(LEVEL, 3, count, 2) == pytest.approx(0.2)
    assert np.isinf(point.replicates_for(0.05, LEVEL, prompts=3, reference=2))


@pytest.mark.parametrize("by", ["errors", "variances"])
def test_roughness_is_that_of_prompts_left_out(by):
    """The jackknife's standard error of log(sqrt(sum v) / sum e), of one prompt in 40."""
    rng = np.random.default_rng(8)
    size = rng.uniform(1, 3, (PROMPTS, 1))
    noise = rng.standard_normal((PROMPTS, 200))
    groups_PR = size + noise if by == "errors" else 10 + size * noise
    variances, means = groups_PR.var(-1, ddof=1), groups_PR.mean(-1)
    left_out = [
        np.log(np.sqrt(np.delete(variances, x).sum()) / np.delete(means, x).sum())
        for x in range(PROMPTS)
    ]
    expected = np.sqrt((PROMPTS - 1) ** 2 / PROMPTS * np.var(left_out, ddof=1))
    found = roughness(Statistic(1.0, {"run": groups_PR}, {}))
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("count", [3, 5])
def test_few_prompts_are_right_within_their_factor(count):
    """In 95% of 60 picks at each point, four binomial standard errors of 2.8%."""
    rng = np.random.default_rng(3)
    truth = np.exp(
        np.mean(
            [np.log(as_array(widths_of(DESIGN.draw(rng, 256, 4, 32)))) for _ in range(8)], 0
        )
    )
    held, factors = np.zeros((3, 3)), []
    for _ in range(60):
        places = rng.choice(PROMPTS, count, replace=False)
        found = widths_of(some_of(DESIGN, places).draw(rng, 256, 4, 32))
        held += np.abs(np.log(as_array(found) / truth)) <= np.log(found.factor)
        factors.append(found.factor)
    assert (held / 60 > 0.95 - 4 * 0.028).all()
    # And it says something.
    assert np.median(factors) < (5 if count == 3 else 2.5)


@pytest.mark.parametrize("count", [1, 2])
def test_two_prompts_do_not_tell_how_unlike_they_are(count):
    found = widths_of(
        some_of(DESIGN, range(count)).draw(np.random.default_rng(0), 64, 2, 32)
    )
    assert np.isnan(found.factor)


def enlarged(remedy, wanted, rng):
    """Half-widths with the pools of a remedy, by ten draws of all prompts."""
    sizes = dict(key.removeprefix("pool.").split("=") for key in remedy.split(" with "))
    reference = int(sizes.get("reference", 256))
    blocks = int(sizes["replicate"]) // 32
    runs = [widths_of(DESIGN.draw(rng, reference, blocks, 32)).widest[0] for _ in range(10)]
    return np.mean(runs) / wanted


def test_warned_of_pools_too_small_and_told_what_suffices():
    rng = np.random.default_rng(4)
    found = widths_of(DESIGN.draw(rng, 256, 4, 32), wanted=0.1)
    assert found.widest[2] == 32
    pool, prompts = found.remedies
    assert pool.startswith("pool.replicate=")
    # The widest of nine, and degrees of freedom grow with the pool: some less is enough.
    assert 0.7 < enlarged(pool, 0.1, rng) < 1.15
    assert int(prompts.split()[0]) == np.ceil(PROMPTS * (found.widest[0] / 0.1) ** 2)


def test_warned_of_a_reference_too_small():
    """Where the reference's noise alone is too wide, replicates would not help."""
    found = widths_of(DESIGN.draw(np.random.default_rng(5), 64, 4, 32), wanted=0.15)
    first, second = found.remedies[0].split(" with ")
    assert first.startswith("pool.reference=")
    assert int(first.split("=")[1]) == 512
    assert second.startswith("pool.replicate=")


def test_not_warned_of_pools_large_enough():
    assert not widths_of(
        DESIGN.draw(np.random.default_rng(6), 256, 4, 32), wanted=0.9
    ).remedies


def test_twice_the_same_prompt_tells_as_much_as_one():
    one = some_of(DESIGN, [0]).draw(np.random.default_rng(7), 64, 4, 32)
    again = some_of(DESIGN, [0, 0]).draw(np.random.default_rng(7), 64, 4, 32)
    twice = type(again)(
        **{
            name: np.concatenate([array] * 2)
            for name, array in vars(one).items()
            if not name.endswith("_PP")
        },
        between_PP=np.tile(one.between_PP, (2, 2)),
        halves_PP=np.tile(one.halves_PP, (2, 2)),
    )
    found, expected = (as_array(widths_of(pools)) for pools in (twice, one))
    # But for draws of the reference's noise, which differ.
    np.testing.assert_allclose(found, expected, rtol=0.1)
