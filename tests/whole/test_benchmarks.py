"""The benchmarks count what they say: the ways agree, and truths are told from misses."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import cases, coverage, levels, obvious_loop, pretrained, speed
from designs import VERDICTS
from mse_lab.estimators import find_estimators
from mse_lab.estimators.groups import Groups
from mse_lab.mse.intervals import Estimate
from truths import Answer

KINDS = {
    "G*",
    "b* of the run",
    "beats vanilla from",
    "c1",
    "c2",
    "c3",
    "constant baselines",
    "law",
    "mse",
    "noise scale",
    "numbers of claims",
    "price",
    "progress",
    "ratio",
    "regime's side",
    "rho of a prompt",
    "rho of the run",
    "scale_free_mse",
    "scale_free_ratio",
    "true statements",
    "zero-variance groups",
    "||g||^2",
}


def test_every_kind_of_number_has_its_truth():
    """On one run of 12 prompts, of which four in five numbers hold it."""
    answers, _ = coverage.answers_by("P = 12", 0)
    known = [one for one in answers if one.known]
    assert {one.kind for one in known} == KINDS
    assert sum(one.covers for one in known) > 0.8 * len(known)


def test_what_holds_and_what_misses_is_counted(tmp_path):
    """The truth is 2: one interval holds it, one lies below, the last number is unknown."""
    found = (Estimate(2, 1, 3), Estimate(1, 0.5, 1.5), Estimate(1.0, np.nan, 1.0))
    counts = Counter()
    answers = [Answer("mse", "grpo at 4", one, 2.0) for one in found]
    coverage.count("P = 12", answers, True, counts)
    [row] = coverage.tabulate(counts).itertuples()
    assert row[1:] == (2, 1, 1, 1)
    path, rows = tmp_path / "table.csv", coverage.tabulate(counts)
    for again in (rows, 2 * rows):  # in place of the design's rows, not beside them
        coverage.put(path, again)
    pd.testing.assert_frame_equal(coverage.read(path), 2 * rows)
    assert coverage.by_kind(2 * rows).held["mse"] == 50


def ruled(verdict, set_to, at_most, at_least):
    saves = Estimate(0.2, 0.1, 0.25) if verdict == "change" else None
    ruling = SimpleNamespace(
        verdict=verdict,
        set_to=set_to,
        at_most=at_most,
        at_least=at_least,
        saves=saves,
        of_loss=True,
    )
    costs = {2: 1.3, 4: 0.8, 8: 1.0}
    return levels.Ended(ruling, 384, {True: costs, False: costs})


@pytest.mark.parametrize(
    ("answers", "false"),
    [
        (ruled("keep", 8, 0.04, 0.0), {"false_keep", "bound_false"}),
        (ruled("change", 4, 0.3, 0.1), set()),
        (ruled("change", 2, 0.3, 0.1), {"wrong_size"}),
        (ruled("cannot tell", 8, np.inf, 0.3), {"bound_false"}),
    ],
    ids=["kept", "changed", "changed to a dear size", "open"],
)
def test_a_false_verdict_is_told_from_a_true_one(answers, false):
    """Groups of 8 cost 25% more than those of 4, and 20% are saved."""
    names = ("false_keep", "false_change", "wrong_size", "bound_false")
    assert {name for name in names if getattr(answers, name)} == false
    assert answers.saving_held == (answers.ruling.set_to == 4)


def test_a_change_of_what_is_all_right_is_false():
    """By the user's loss, though the numbers beside it are true of GRPO-type."""
    answers = ruled("change", 4, 0.3, 0.1)
    answers.ruling.of_loss = False
    answers = answers._replace(exact={**answers.exact, True: {4: 0.98, 8: 1.0}})
    assert answers.false_change
    assert not answers.bound_false
    assert answers.saving_held


@pytest.mark.parametrize("name", ["V 0.1 to 0.9", "these 36: V 0.1 to 0.9"])
def test_verdicts_are_true(name):
    """Ten runs of a population whose size is to be changed: none keeps it."""
    case, rng = VERDICTS[name], np.random.default_rng(1)
    costs = levels.exact_costs(case.whole, 0)
    for _ in range(10):
        ruling, completions = levels.run_until(case, rng, [0])[0]
        answers = levels.Ended(ruling, completions, costs)
        assert ruling.verdict == "change"
        assert not answers.wrong_size
        assert not answers.bound_false


def test_a_population_keeps_its_place_in_the_table(tmp_path):
    path = tmp_path / "verdicts.csv"
    cells = ("weak g", 64, 1), ("V 0.1 to 0.9", 0, 1), ("weak g", 64, 2), ("weak g", 0, 1)
    for cell in cells:
        row = dict(zip((*levels.KEYS, "runs"), cell, strict=True))
        levels.replace_row(path, row)
    rows = levels.read(path).to_numpy().tolist()
    assert rows == [["V 0.1 to 0.9", "0", "1"], ["weak g", "0", "1"], ["weak g", "64", "2"]]


SIZE = cases.Size("test", 40, hidden=32, inner=48, layers=2, heads=2)
CASE = cases.Case(SIZE, (5, 3))


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    return speed.Block(speed.Loaded(CASE, tmp_path_factory.mktemp("speed")))


def test_the_case_is_what_it_says(block):
    assert len(block.tokens) == 5
    assert (block.drawn.lengths_N == 3).all()
    assert 0 < block.rewards_N.mean() < 1


def test_the_loops_agree_with_the_tool(block):
    block.hold()


def test_wrong_numbers_are_seen(block, monkeypatch):
    """Negative control: one inner product off by a thousandth of the largest norm."""
    gram_NN, products_N = block.products()
    gram_NN[2, 3] += 1e-2 * gram_NN.max()
    monkeypatch.setattr(block, "products", lambda: (gram_NN, products_N), raising=False)
    with pytest.raises(RuntimeError, match="errors differ"):
        block.hold()


@pytest.mark.parametrize(
    "way",
    [
        obvious_loop.plain_pass,
        obvious_loop.squared_errors,
        lambda work: obvious_loop.squared_error(work[:4], "grpo"),
        obvious_loop.reference,
    ],
    ids=["plain pass", "shared", "alone", "reference"],
)
def test_no_way_leaves_anything_behind(way, block):
    """A gradient left on a parameter would enter the next pass, or be computed for it."""
    way(block.work)
    for parameter in block.work.parameters.values():
        assert parameter.grad is None
        assert not parameter.requires_grad
    assert not block.work.model.training


def test_the_loop_samples_and_differentiates(block):
    """The loop's reference is its own estimate on the whole block."""
    work = block.work
    [drawn] = obvious_loop.generate(work, 6, [])
    assert drawn.shape == (6, 8)
    weights_N = obvious_loop.weights_of("grpo", work.rewards_N[None])[0]
    torch.testing.assert_close(
        obvious_loop.reference(work), obvious_loop.gradient(work, weights_N)
    )


def test_weights_are_those_of_the_tool():
    rewards = np.array([[[1.0, 0, 0, 1], [0, 1, 1, 1]]])
    value = np.array([obvious_loop.VALUE])
    groups = Groups(rewards, rewards, rewards, value, np.zeros((1, 2)))
    for estimator in find_estimators(obvious_loop.ESTIMATORS, [4]):
        found = obvious_loop.weights_of(estimator.name, rewards[0])
        np.testing.assert_allclose(found, estimator.weights(groups)[0])


def test_a_run_consists_of_its_pieces(tmp_path, monkeypatch):
    """How often each one counts; that they can be carried out is seen above."""
    monkeypatch.setattr(cases, "POOLS", (8, 128))
    monkeypatch.setattr(speed, "piece", lambda work: 1.0)
    monkeypatch.setattr(speed, "seconds", lambda work: 2.0)
    pieces = speed.Pieces(CASE, tmp_path)
    assert {name: way() for name, way in pieces.ways().items()} == {
        "run": 2.0,
        "generate": 1 / 136,
        "reference": 8 / 64,
        "errors": 3 * 128 * (1 / 4 + 1 / 8 + 1 / 16 + 1 / 32 + 1 / 64),
        "shared errors": 128 * (1 / 4 + 1 / 8 + 1 / 16 + 1 / 32 + 1 / 64),
        "scoring": 2.0,
        "sampling": 2.0,
        "plain": 136 / 64,
    }


def test_a_batch_of_an_advice_is_measured_step_by_step(tmp_path):
    subject = pretrained.load_subject("tiny/icl", [], tmp_path)
    assert subject.keeps_whole  # so that nothing is sketched
    found = pretrained.measure_batch(subject, ((0, 0, 8),))
    assert found.keys() == {*pretrained.STEPS, "plain", "generate"} - {"sketch"}


def test_ways_take_turns():
    order = []

    def way(name, seconds):
        return lambda: order.append(name) or seconds

    times = speed.take_turns({"a": way("a", 2.0), "b": way("b", 1.0)}, 3)
    assert "".join(order) == "abbaab"
    assert speed.ratio(times["a"], times["b"]) == speed.Ratio(2, 2, 2)
    assert str(speed.ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0])) == "2.00 (1.00 to 3.00)"


def test_a_table_is_written(tmp_path):
    rows = [{"model": "4M, V = 1,000", "plain_pass": speed.Ratio(1.5, 1.25, 2.0)}]
    speed.write_table(rows, tmp_path / "speed/scoring.csv")
    assert (tmp_path / "speed/scoring.csv").read_text().splitlines() == [
        "model,plain_pass,plain_pass_low,plain_pass_high",
        '"4M, V = 1,000",1.5,1.25,2.0',
    ]
