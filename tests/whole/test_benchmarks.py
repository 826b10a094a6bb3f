"""The benchmarks measure what they say: all ways give the same numbers, on a tiny model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import (
    advice_costs,
    loops,
    plan,
    scaling,
    scoring,
    tool,
    whole_run,
)
from benchmarks.agreement import Disagreement, compare_errors, compare_products
from benchmarks.cases import ESTIMATORS, GROUP_SIZES, Case, Size
from benchmarks.log import replace_marked
from benchmarks.loops import plain_pass
from benchmarks.operations import count
from benchmarks.per_sample import LIBRARIES
from benchmarks.precision import REFERENCE, completions
from benchmarks.tables import Fit, Ratio, fit_power, ratio, take_turns
from benchmarks.work import weights_of
from mse_lab.estimators import find_estimators
from mse_lab.estimators.groups import Groups

CASE = Case(
    Size("test", 40, hidden=32, inner=48, layers=2, heads=2), prompt=5, completion=3
)
BLOCK = plan.Block(CASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def scored(folder):
    return scoring.prepare(BLOCK, folder)


def test_the_case_is_what_it_says(scored):
    assert [len(tokens) for tokens in scored.loaded.tokens] == [5]
    assert (scored.completions.lengths_N == 3).all()
    assert 0 < scored.work.rewards_N.mean() < 1


def test_the_loops_agree_with_the_tool(scored):
    compare_errors(scored.work, scored.products())


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_agrees_with_the_tool(name, folder):
    library = LIBRARIES[name]
    if reason := library.why_not():
        pytest.skip(reason)
    scored = scoring.prepare(BLOCK, folder, library.PARAMETERS)
    difference = compare_products(
        name, scored.work, scored.products(), library.gram(scored.work)
    )
    assert difference < 1e-5


def test_wrong_numbers_are_seen(scored):
    """Negative control: one inner product off by a thousandth of the largest norm."""
    gram_NN, products_N = scored.products()
    wrong = gram_NN.copy()
    wrong[3, 4] += 1e-3 * gram_NN.max()
    with pytest.raises(Disagreement, match="inner products differ"):
        compare_products("other", scored.work, (gram_NN, products_N), (wrong, products_N))
    with pytest.raises(Disagreement, match="squared errors differ"):
        compare_errors(replace(scored.work, value=0.4), (2 * gram_NN, products_N))


def test_no_way_leaves_anything_behind(scored):
    """A gradient left on a parameter would enter the next pass, or be computed for it."""
    work = scored.work
    for way in (
        lambda: plain_pass(work),
        lambda: loops.squared_error(work, "grpo", slice(0, 4)),
        *(
            lambda one=one: one.gram(work)
            for one in LIBRARIES.values()
            if one.why_not() is None and one.PARAMETERS is None
        ),
    ):
        way()
        for parameter in work.parameters.values():
            assert parameter.grad is None
            assert not parameter.requires_grad
    assert not work.model.training


def test_weights_are_those_of_the_tool():
    rewards = np.array([[[1.0, 0, 0, 1], [0, 1, 1, 1]]])
    groups = Groups(rewards, rewards, rewards, np.array([0.5]), np.zeros((1, 2)))
    for estimator in find_estimators(ESTIMATORS, [4]):
        np.testing.assert_allclose(
            weights_of(estimator.name, rewards[0], 0.5), estimator.weights(groups)[0]
        )


def test_the_loop_samples_and_differentiates(scored):
    """The loop's reference is its own estimate on the whole block."""
    work = scored.work
    assert loops.sample(work, 6, []).shape == (6, 8)
    weights_N = weights_of("grpo", work.rewards_N[None], work.value)[0]
    torch.testing.assert_close(loops.reference(work), loops.gradient(work, weights_N))


def test_a_block_is_measured(folder):
    found = scoring.measure(replace(BLOCK, libraries=False), folder, rounds=1)
    assert found.ratios["floor"].median > 0
    assert 0 < found.distinct <= BLOCK.completions


def test_a_whole_run_is_measured(folder, monkeypatch):
    monkeypatch.setattr(whole_run, "POOLS", {"reference": 8, "replicate": 128})
    monkeypatch.setattr(whole_run, "SHORTEST", 0)
    found = whole_run.measure(CASE, 1, folder, rounds=1)
    assert all(one.median > 0 for one in found)


def test_precision_is_read_from_a_run(folder):
    """The law's interval is narrower than the paired one, and that than the fresh one."""
    loaded = tool.load(CASE, folder, group_sizes=[8], reference=64, replicate=64)
    tool.run(loaded, folder / "precision")
    found = tool.ratios(folder / "precision", 8)
    spread = {way: one.error for way, one in found.items()}
    assert spread["law"] < spread["paired"] < spread["fresh"]


def test_completions_are_counted():
    """N = 80 is R = 10 at G = 8; a figure's groups hold 4 + 8 + 16 + 32 + 64 = 124."""
    assert sum(GROUP_SIZES) == 124
    counts = [drawn for _, _, drawn in completions({"fresh": 80, "paired": 80, "law": 16})]
    assert counts == [
        [REFERENCE + 160, REFERENCE + 160, REFERENCE + 3720, REFERENCE + 3720],
        [REFERENCE + 80, REFERENCE + 160, REFERENCE + 1240, REFERENCE + 3720],
        [REFERENCE + 80] * 4,
        [16 + 4 * 16] * 4,
    ]


LINUX = pytest.mark.skipif(not scaling.PEAK.exists(), reason="reads Linux's /proc")


@LINUX
def test_a_peak_is_seen_and_forgotten():
    """128 MB, held for a moment."""
    scaling.forget_peak()
    before = scaling.status("VmRSS")
    held = np.ones(2**24)
    del held
    assert 100 < (scaling.status("VmHWM") - before) / 2**20 < 200
    scaling.forget_peak()
    assert (scaling.status("VmHWM") - before) / 2**20 < 50


@LINUX
def test_a_point_of_the_scaling_is_run(folder):
    cost = scaling.run_point(scaling.Point(hidden=64, prompt=5, completion=2), folder)
    assert cost.seconds > 0
    assert 0 <= cost.memory < 2**30


def test_powers_are_fitted():
    """First y = 5 x^2; then points off a line: slope 1/2, residuals 1/6, -1/3, 1/6."""
    fit = fit_power([1, 2, 4, 8], [5, 20, 80, 320])
    assert fit.exponent == pytest.approx(2)
    assert fit.error == pytest.approx(0, abs=1e-12)
    assert fit.solve(fit.at(3)) == pytest.approx(3)
    crooked = fit_power(np.exp([0, 1, 2]), np.exp([0, 0, 1]))
    assert crooked.exponent == pytest.approx(1 / 2)
    assert crooked.error == pytest.approx(np.sqrt((1 / 6) / 1 / 2))


@pytest.mark.parametrize(
    ("exponent", "error", "expected"),
    [(1.1, 0.1, True), (1.1, 0.01, False), (0.5, 0, True)],
)
def test_more_than_linear_is_told(exponent, error, expected):
    assert scaling.at_most_linear(Fit(1.0, exponent, error)) is expected


def test_ways_take_turns():
    order = []

    def way(name, seconds):
        return lambda: order.append(name) or seconds

    times = take_turns({"a": way("a", 2.0), "b": way("b", 1.0)}, 3)
    assert "".join(order) == "abbaab"
    assert ratio(times["a"], times["b"]) == Ratio(2, 2, 2)


def test_only_what_is_marked_is_replaced(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n")
    assert replace_marked(page, "new \\1")
    text = "before\n<!-- bench:begin -->\nnew \\1\n<!-- bench:end -->\nafter\n"
    assert page.read_text() == text
    page.write_text("no markers\n")
    assert not replace_marked(page, "new")
    assert page.read_text() == "no markers\n"


@pytest.mark.parametrize("chosen", [plan.FULL, plan.QUICK], ids=["full", "quick"])
def test_a_plan_can_be_carried_out(chosen):
    """A name that is no dimension, or a median of too few, would be seen an hour later."""
    assert chosen.rounds >= 5
    assert set(chosen.scaling) <= set(scaling.DIMENSIONS)
    assert all(len(points) >= chosen.points >= 3 for points in scaling.DIMENSIONS.values())


def test_costs_are_what_an_advice_carries_out(folder, monkeypatch):
    """Counted without content at the model's shape, and counted in its own stages."""
    monkeypatch.setattr(advice_costs, "PROMPT", 40)
    size = Size("small", 1_000, hidden=64, inner=128, layers=2, heads=4)
    loaded = tool.load(Case(size, 40, 8), folder)
    shapes = advice_costs.Shapes(64, 128, 2, heads=4, keys=2, vocabulary=1_000, tied=True)
    computed = advice_costs.count_costs(shapes, 8, "all")
    drawn = []
    drawing = count(
        lambda: drawn.append(tool.sample(loaded, 0, "x", advice_costs.COMPLETIONS))
    )
    block = tool.Scored(loaded, drawn[0], {})
    # The first token is drawn from one row.
    assert drawing == pytest.approx(computed.drawing, rel=0.2)
    scoring = count(block.products_alone)
    assert scoring == pytest.approx(computed.passes + computed.products, rel=0.05)
