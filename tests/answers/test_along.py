"""Along a training run: what moves is said to move, what does not is not."""

import math
from dataclasses import replace
from math import comb
from types import SimpleNamespace

import numpy as np
import pytest

from claimed_runs import make_design
from designs import scaled
from mse_lab.answers.along import Along, refuse_beforehand
from mse_lab.errors import InputError
from mse_lab.mse.regime import aggregate_place, norm_ratio
from mse_lab.probe.schema import Pool
from populations import tilt
from simulated import analysed

STEPS = (0, 25, 100)


def along(designs, seed=0, size=4, **settings):
    """Measure designs of the same prompts; each with completions of its own."""
    rng = np.random.default_rng(seed)
    pools = [one.draw(rng, 256, 4, 16) for one in designs]
    runs = [
        analysed(one, [4, 16], name=f"step {step}", resamples=200, **settings)
        for step, one in zip(STEPS, pools, strict=False)
    ]
    return Along(STEPS[: len(runs)], tuple(runs), size)


def verdicts(found):
    return [claim.verdict for claim in found.claims]


def with_right(*lengths):
    """Prompts whose right answers have scores of these lengths, wrong ones of one."""
    return [make_design((0.3, 0.7), right=one) for one in lengths]


@pytest.fixture(scope="module")
def falling():
    return along(with_right(1.0, 0.6, 0.3))


def test_a_fall_of_rho_is_seen_and_vanilla_gains(falling):
    """By as much as the designs' own."""
    assert verdicts(falling)[1:] == ["holds", "holds"]
    places = [aggregate_place(one.moments()) for one in with_right(1.0, 0.3)]
    first, last = (norm_ratio(np.array(best), np.array(value)) for value, best in places)
    change = falling.claims[1].estimate
    assert change.low < last / first < change.high < 0.3


def test_a_rise_fails_and_no_change_is_undecided():
    assert verdicts(along(with_right(0.3, 0.6, 1.0)))[1:] == ["fails", "fails"]
    assert verdicts(along(with_right(0.6, 0.6)))[1:] == ["undecided", "undecided"]


def test_a_best_size_stands_still_moves_or_is_not_known():
    """Scores of another scale leave G*, a larger spread of gradients does not."""
    own = make_design((0.3, 0.7), signal=0.6)
    still = [scaled(own, np.full(own.prompts, one)) for one in (1, 0.5, 2)]
    stands = along(still)
    assert verdicts(stands)[0] == "holds"
    assert "no two checkpoints are a factor of 1.5 apart" in stands.claims[0].reason
    spread_PD = np.random.default_rng(1).normal(size=(own.prompts, 6))
    assert (
        verdicts(along([own, tilt(own, spread_PD), tilt(own, 2 * spread_PD)]))[0] == "fails"
    )
    # At so high a level the last is not shown to move, and may have by more than half.
    slow = along([*still[:2], tilt(own, 0.3 * spread_PD)], level=1 - 1e-10)
    assert verdicts(slow)[0] == "undecided"
    [claim, *_] = along([own, make_design((0.3, 0.7), common=True)], seed=3).claims
    assert claim.verdict == "undecided"
    assert "c1 is not significantly positive" in claim.reason


def test_rho_lies_on_the_side_of_its_line_on_which_vanilla_does():
    """At every checkpoint, and is that of the aggregate's place."""
    found = along(with_right(0.4, 0.75, 1.5))
    table = found.table
    above = (table["rho"] > table["rho_line"]).tolist()
    assert above == (table["vanilla"] > 1).tolist() == [False, True, True]
    for run, rho, line in zip(found.runs, table["rho"], table["rho_line"], strict=True):
        value, best = aggregate_place(run.moments)
        assert rho == pytest.approx(norm_ratio(np.array(best), np.array(value)).item())
        assert line == pytest.approx((1 - value) / (2 - value))


def test_the_table_has_the_numbers_of_the_runs(falling):
    """What `advise` and `figure` say of each, and differences to the first by hand."""
    table, run = falling.table, falling.runs[1]
    assert table["step"].tolist() == [0, 25, 100]
    row, first = table.iloc[1], table.iloc[0]
    shown = (row.best_group_size, row.best_group_size_low, row.best_group_size_high)
    assert shown == pytest.approx(run.best_group_size)
    constants = [run.constants[name].value for name in ("c1", "c2", "c3")]
    assert [row.c1, row.c2, row.c3] == pytest.approx(constants)
    cost = row.c1 * 4 + row.c2 + row.c3 / 3
    assert row.noise_scale == pytest.approx(cost / row.gradient2)
    assert row.vanilla == pytest.approx(row.c_vanilla / row.c2)
    assert row.grpo == pytest.approx(1 + row.c3 / 3 / row.c2)
    assert row.vanilla_change == pytest.approx(row.vanilla / first.vanilla)
    assert row.rho_change == pytest.approx(row.rho / first.rho)
    best = (row.best_group_size - 1) / (first.best_group_size - 1)
    assert row.best_change == pytest.approx(best)
    assert row.value_gain == pytest.approx(row.value - first.value)
    columns = ["value_gain", "best_change", "vanilla_change", "rho_change"]
    for end in ("", "_low", "_high"):
        assert first[[f"{name}{end}" for name in columns]].tolist() == [0, 1, 1, 1]


def test_groups_of_equal_rewards_by_hand_and_by_law(falling):
    row, pools = falling.table.iloc[0], falling.runs[0].pools
    groups = pools.rewards_PN.reshape(pools.prompts, -1, 4).sum(-1)
    assert row.equal_rewards == pytest.approx(np.isin(groups, (0, 4)).mean())
    value_P = make_design((0.3, 0.7)).moments().value
    exact = (value_P**4 + (1 - value_P) ** 4).mean()
    # The law's error at 256 rewards a prompt is a fifth of the measured one's.
    assert row.equal_rewards_law == pytest.approx(exact, abs=0.01)
    assert row.equal_rewards == pytest.approx(exact, abs=0.05)
    reference_PN = pools.reference_rewards_PN
    of_equal = [
        (comb(right, 4) + comb(reference_PN.shape[1] - right, 4)) / comb(256, 4)
        for right in reference_PN.sum(1).astype(int).tolist()
    ]
    assert row.equal_rewards_law == pytest.approx(np.mean(of_equal))


def test_a_change_is_known_as_the_checkpoint_of_fewer_carriers_is(falling):
    logs = falling.log_bests
    for carriers in ((3.0, 20.0), (20.0, 3.0)):
        runs = [SimpleNamespace(population=SimpleNamespace(effective_prompts=one))
                for one in carriers]  # fmt: skip
        found = Along.factor(SimpleNamespace(level=0.95, runs=runs), logs, 1, 0)
        ends = (logs[1] - logs[0]).interval(0.95, most_degrees=3)
        assert tuple(found) == pytest.approx(tuple(np.exp(ends)))


def test_pairing_is_by_prompts(falling):
    """The same runs, of which one has its prompts in another order, differ less surely."""
    mixed = falling.runs[-1].pools
    order = np.random.default_rng(0).permutation(mixed.prompts)
    names = [name for name, one in vars(mixed).items() if name not in PAIRS]
    changes = {name: getattr(mixed, name)[order] for name in names}
    changes |= {name: getattr(mixed, name)[np.ix_(order, order)] for name in PAIRS}
    apart = analysed(replace(mixed, **changes), [4, 16], name="mixed", resamples=200)
    other = Along(STEPS, (*falling.runs[:-1], apart), 4)
    assert other.table["value_gain"].iloc[-1] == pytest.approx(
        falling.table["value_gain"].iloc[-1]
    )

    def width(one):
        row = one.table.iloc[-1]
        return row.value_gain_high - row.value_gain_low

    assert width(falling) < 0.5 * width(other)


PAIRS = ("between_PP", "halves_PP")


def test_ratios_to_the_oracle_are_paired_by_completions():
    """The same completions twice are sharper than others of the same prompts."""
    rng, [design] = np.random.default_rng(2), with_right(0.6)
    first, other = (design.draw(rng, 4096, 4, 16) for _ in range(2))

    def width(second):
        runs = [analysed(one, [4, 16], name=f"{id(one)}") for one in (first, second)]
        row = Along((0, 1), tuple(runs), 4).table.iloc[1]
        return np.log(row.vanilla_change_high / row.vanilla_change_low)

    assert width(replace(first)) < 0.5 * width(other)


def test_rewards_that_are_no_zeros_and_ones_have_no_rho():
    graded = [replace(one, reward_PC=2 * one.reward_PC) for one in with_right(1.0, 0.3)]
    found = along(graded)
    assert [claim.statement for claim in found.claims] == [
        "Along a run (best group size)",
        "Along a run (vanilla)",
    ]
    assert found.table["rho"].isna().all()
    assert "rho_change" not in found.table
    assert verdicts(found)[1] == "holds"


def test_where_no_reward_varies_nothing_is_known():
    own = make_design((0.3, 0.7))
    solved = replace(own, reward_PC=np.ones_like(own.reward_PC))
    found = along([own, solved])
    assert set(verdicts(found)) == {"undecided"}
    assert math.isnan(found.table["best_group_size"].iloc[1])
    assert found.table["equal_rewards"].iloc[1] == 1
    assert math.isnan(along([solved]).best.value)


def test_advice_for_all_of_it_is_between_those_for_its_parts(falling):
    each = falling.table["best_group_size"]
    assert each.min() <= falling.best.value <= each.max()


@pytest.mark.parametrize(
    ("checkpoints", "size", "words"),
    [(1, 8, "a single one"), (2, 512, "--group-size 512: more completions than")],
)
def test_what_says_nothing_is_refused_beforehand(checkpoints, size, words):
    with pytest.raises(InputError, match=words):
        refuse_beforehand(checkpoints, size, Pool())
    refuse_beforehand(2, 256, Pool())
