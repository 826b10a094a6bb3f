"""The rule for a group size: by hand arithmetic, and on known populations."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.config.training import DEFAULT
from mse_lab.mse import rule as rules
from mse_lab.mse.bounds import Priced, Rung, bound_ratios
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import (
    COMPARED_SIZES,
    MOST_WITH_LAW,
    SIZES,
    Prices,
    Question,
    Ratios,
    cheapest,
    price_rungs,
    prompts_needed,
    rule,
    rule_by_costs,
    rule_by_looks,
    rule_by_table,
)
from simulated import few_table, known_table

LEVEL = 0.95
COSTS = {4: 0.8, 8: 1.0, 16: 1.5}


def asked(entry=DEFAULT.estimator, present=8, completions=0.0, **more):
    return Question(entry, present, completions, **more)


def ratios(factor, costs=COSTS):
    """Each ratio of costs is known up to a factor."""
    costs = costs if isinstance(costs, dict) else dict(enumerate(costs))
    values = np.array([*costs.values()])
    upper_KK = factor * values[:, None] / values
    np.fill_diagonal(upper_KK, 1)
    return Ratios({Rung(size): cost for size, cost in costs.items()}, upper_KK, True)


NEAR = {3: 0.78, **COSTS, 4: 0.79}


@pytest.mark.parametrize(
    ("costs", "factor", "present", "tolerance", "verdict", "set_to"),
    [
        # 8 costs 25% more than 4: by a factor of 1.04 at least 20.2% and at most 30%.
        (COSTS, 1.04, 8, 0.05, "change", 4),
        (COSTS, 1.04, 4, 0.05, "keep", 4),
        (COSTS, 1.04, 8, 0.31, "keep", 8),
        (COSTS, 1.04, 8, 0.29, "cannot tell", 8),
        # By 1.19 at least 5.04%, but nothing shows that no size is better than 4: 16 may
        # cost 1.19 * 0.8 / 1.5 of it, less than one.
        (COSTS, 1.19, 8, 0.05, "change", 4),
        (COSTS, 1.2, 8, 0.05, "cannot tell", 8),  # At least 4.2%.
        (COSTS, 1.04, 64, 0.05, "cannot tell", 64),  # Not compared.
        # 4 costs 0.79 of 8, and may cost 5.3%, or 21%, more than 3, which nobody would
        # set, so it must save: by 1.19 it is at most 0.94 of 8, at least 6.3% less.
        (NEAR, 1.04, 8, 0.05, "change", 4),
        (NEAR, 1.19, 8, 0.05, "change", 4),
        # At least 4.2% are saved by 3, which is no more than is all right.
        (NEAR, 1.23, 8, 0.05, "cannot tell", 8),
    ],
)
def test_by_hand(costs, factor, present, tolerance, verdict, set_to):
    known = ratios(factor, costs)
    found = rule(known, asked(present=present, tolerance=tolerance))
    assert (found.verdict, found.set_to, found.best) == (verdict, set_to, 4)
    assert (found.saves is None) == (verdict == "cannot tell")
    assert (known.regrets[Rung(4)] > 0.05) == (costs is NEAR)
    if verdict == "change":
        assert found.at_least > 0.05


def test_what_a_change_saves_by_hand():
    """20%; at least 1 - 1.04 * 0.8, at most 1 - 0.8 / 1.04."""
    found = rule(ratios(1.04), asked())
    assert found.saves == pytest.approx((0.2, 0.168, 1 - 0.8 / 1.04))
    assert (found.at_least, found.at_most) == pytest.approx((1.25 / 1.04 - 1, 0.3))
    assert rule(ratios(1.04), asked(present=4)).saves == Estimate(0, 0, 0)


def test_of_changes_that_save_the_cheapest_is_named():
    """At least one saves 6%; 4 is the cheapest, but may cost 30% more than 8."""
    costs, upper_KK = {4: 0.8, 5: 0.85, 6: 0.9, 8: 1.0}, np.full((4, 4), 1.3)
    upper_KK[:, 3] = 1.3, 0.97, 0.94, 1.0
    known = Ratios({Rung(one): cost for one, cost in costs.items()}, upper_KK, True)
    found = rule(known, asked(allowed=(4, 5, 6, 8)))
    assert (found.verdict, found.set_to) == ("change", 5)
    assert found.saves == pytest.approx((0.15, 0.03, 1 - 1 / 1.3))
    assert found.at_least == pytest.approx(1 / 0.94 - 1)
    # Where 4 is shown to be near the best it need not be shown to save.
    upper_KK[0] = 1.0, 1.04, 1.04, 1.02
    assert rule(known, asked(allowed=(4, 5, 6, 8))).set_to == 4


@pytest.mark.parametrize(
    ("settable", "size"),
    [(SIZES, 8), ((*SIZES, 11), 11), ((4, 16), 16), ((4,), 4), ((3,), 11)],
)
def test_the_size_that_is_named_can_be_set(settable, size):
    costs = {4: 13.01, 8: 10.3, 11: 10.0, 16: 10.4}
    assert cheapest(costs, settable) == size


def test_a_batch_says_which_sizes_are_compared():
    """Of 32 completions a step: no 3, which would be better than 2 and 4."""
    question = asked(allowed=(2, 4, 8, 16, 32))
    assert question.compared == [2, 4, 8, 16, 32]
    assert asked(present=12, allowed=(2, 4)).compared == [2, 4, 12]
    assert {*range(2, 9), *SIZES} <= {*asked().compared}
    assert max(np.divide(COMPARED_SIZES[4:], COMPARED_SIZES[3:-1])) < 1.3


@pytest.mark.parametrize(
    ("least", "of_a_bound", "verdict", "saves", "bound"),
    [
        (1, 1, "change", True, True),
        (1, 2, "change", True, False),
        (2, 2, "cannot tell", False, False),
    ],
)
def test_few_carriers_give_no_bound_or_no_verdict(
    monkeypatch, least, of_a_bound, verdict, saves, bound
):
    """As many as are needed do; of a set that is measured whole there are no others."""
    table, question = few_table(200), asked("grpo", 64)
    needed = [0, table.effective_prompts, np.nextafter(table.effective_prompts, math.inf)]
    monkeypatch.setattr(rules, "LEAST_CARRIERS", needed[least])
    monkeypatch.setattr(rules, "CARRIERS_OF_A_BOUND", needed[of_a_bound])
    found = rule_by_looks(table, question)
    assert (found.verdict, found.saves is not None) == (verdict, saves)
    assert math.isfinite(found.at_most) == bound
    whole = rule_by_looks(replace(table, size=table.prompts), question)
    assert whole.saves is not None


def test_the_users_loss_is_priced_by_its_law_or_grpo_types_is_used(known):
    """Graded rewards have no law, nor has what divides by a completion's length."""
    table = PromptTable.of_pools(known[1])
    graded = replace(table, values=None)
    std = {"name": "grpo-std", "eps": 1e-4}
    found = {
        "binary": price_rungs(table, asked(std)),
        "graded": price_rungs(graded, asked(std)),
        "by length": price_rungs(table, asked(std | {"length": "sequence"})),
        "unknown": price_rungs(table, asked(None)),
    }
    assert {name for name, prices in found.items() if prices.loss} == {"binary"}
    assert max(found["binary"].loss.sizes) == MOST_WITH_LAW
    unsure = asked(std, level=1 - 1e-15)  # Nothing is significant at that.
    for one, question, stands_in in (
        (table, unsure, True), (graded, unsure, False), (graded, asked(None), False)
    ):  # fmt: skip
        prices = price_rungs(one, question)
        assert (prices.loss, prices.stands_in) == (None, stands_in)
    bound, question = bound_ratios(table, LEVEL, looked=False), asked(std)
    assert rule_by_costs(found["binary"], bound, question).of_loss
    others = {
        name: rule_by_costs(found[name], bound, question)
        for name in ("graded", "by length", "unknown")
    }
    assert not any(ruling.of_loss for ruling in others.values())
    assert others["by length"] == others["unknown"]
    assert others["unknown"].verdict == "change"
    # With rewards of more values GRPO-type's verdict is not one on a loss like this.
    graded = others["graded"]
    assert (graded.verdict, graded.set_to, graded.at_least) == ("cannot tell", 8, 0)
    assert graded.at_most == others["unknown"].at_most


def sizes_of(costs):
    """Sizes of known costs."""
    return Priced({Rung(size): np.array([one]) for size, one in costs.items()}, 0, True)


def bound_by(factor):
    """Know each ratio up to a factor."""

    def bound(priced):
        return ratios(factor, [one.item() for one in priced.costs.values()]).upper_KK

    return bound


FALLING = {4: 1.5, 8: 1.0, 16: 0.8}


@pytest.mark.parametrize(
    ("loss", "grpo", "present", "verdict", "of_loss"),
    [
        # GRPO-type costs 25% more at 8 than at 4; the loss 1% more, to within 2%.
        ({4: 0.99, 8: 1.0}, COSTS, 8, "cannot tell", False),
        ({4: 0.925, 8: 1.0}, COSTS, 8, "change", True),
        # GRPO-type is best at 4; the loss costs there as much as at 8, or 10% more.
        ({4: 1.0, 8: 1.0}, COSTS, 4, "keep", False),
        ({4: 1.1, 8: 1.0}, COSTS, 4, "cannot tell", False),
        # GRPO-type is best at 16.
        ({4: 1.1, 8: 1.0}, FALLING, 4, "change", False),
        ({4: 1.01, 8: 1.0}, FALLING, 4, "cannot tell", False),
    ],
)
def test_grpo_types_verdict_must_hold_where_the_loss_is_known(
    loss, grpo, present, verdict, of_loss
):
    """Where the loss is no dearer at 8 than at 4 its best size may be 16."""
    prices = Prices(sizes_of(loss), sizes_of(grpo), stands_in=True)
    found = rule_by_costs(prices, bound_by(1.02), asked(present=present))
    assert (found.verdict, found.of_loss) == (verdict, of_loss)
    if verdict == "cannot tell":
        assert (found.set_to, found.saves, found.at_least) == (present, None, 0)


def test_a_constant_baseline_is_best_alone():
    """c1 G + c, least at G = 1: at 8 it costs (8 + 3) / (1 + 3) times as much."""
    known = known_table(1.0, 2.0, 9.0, vanilla=3.0)
    loss = price_rungs(known, asked("vanilla", 8)).loss
    at = {rung.group_size: cost[0] for rung, cost in loss.costs.items()}
    assert at[1] / at[8] == pytest.approx(4 / 11)
    assert min(at, key=at.get) == 1


@pytest.mark.parametrize(
    ("costs", "factor", "prompts", "needed"),
    [
        # Bounds that narrow with the root of their number tell at 303, not at 202.
        (COSTS, lambda count: 1.2 ** math.sqrt(200 / count), 60, 303 // 2),
        (COSTS, lambda count: 1.2 ** math.sqrt(200 / count), 160, 160),
        ({4: 1 / 1.05, 8: 1.0, 16: 1.5}, lambda count: 1 + 1 / count, 60, None),
    ],
)
def test_how_many_prompts_hardly_tell(monkeypatch, costs, factor, prompts, needed):
    known = known_table(1.0, 2.0, 9.0, prompts=prompts)
    prices = Prices(sizes_of(costs), sizes_of(costs), stands_in=True)
    monkeypatch.setattr(rules, "price_rungs", lambda *_: prices._replace(grpo=prices.loss))
    monkeypatch.setattr(
        rules, "bound_ratios", lambda *_, prompts, **__: bound_by(factor(prompts))
    )
    assert prompts_needed(known, asked("grpo")) == needed


def test_a_fitted_baseline_is_a_rung_beside_the_sizes():
    """Said by the same bounds: sizes among themselves by what is known of them alone."""
    table, alone = few_table(400), asked("grpo", 4)
    question = alone._replace(fitted=(1, 2))
    prices, bound = price_rungs(table, question), bound_ratios(table, LEVEL, looked=True)
    assert [*prices.baselines] == [1, 2]
    ratios = prices.ratios(bound, of_loss=True)
    of_sizes = price_rungs(table, alone).ratios(bound, of_loss=True)
    small = price_rungs(table, question._replace(completions=64)).grpo.limit
    assert {rung: [*costs] for rung, costs in small.items()} == {
        rung: [*costs] for rung, costs in prices.grpo.costs.items()
    }
    count = len(of_sizes.costs)
    assert [*ratios.costs][count:] == [Rung(1, fitted=True), Rung(2, fitted=True)]
    np.testing.assert_array_equal(ratios.upper_KK[:count, :count], of_sizes.upper_KK)
    one = prices.baselines[1]
    cost = one.aim.cost(0)[0] / prices.grpo.costs[Rung(4)][0]
    assert rule_by_looks(table, alone).verdict == "keep"
    found = rule_by_looks(table, question)
    assert (found.verdict, found.set_to, found.best) == ("change", 1, 4)
    assert found.baseline.alpha == one.alpha
    assert found.saves.value == pytest.approx(1 - cost)
    assert found.saves.low > 0.05
    large = rule_by_looks(table, question._replace(completions=10**6))
    assert (large.verdict, large.baseline) == ("keep", None)


@pytest.mark.parametrize("completions", [0, 64])
def test_where_the_gradient_is_not_known_a_saving_has_bounds_alone(completions):
    """At N = 64; it does not matter in the limit of small N."""
    known = replace(few_table(400), gradient_noise_P=np.zeros(400))
    question = asked("grpo", 64, completions, level=LEVEL)
    saves = rule_by_looks(known, question).saves
    prices = price_rungs(known, question)
    assert prices.knows_gradient
    assert price_rungs(few_table(20, seed=1), question).knows_gradient == (not completions)
    unsure = prices._replace(knows_gradient=not completions)
    bound = bound_ratios(known, LEVEL, looked=True)
    found = rule_by_costs(unsure, bound, question).saves
    assert found[1:] == saves[1:]
    assert math.isnan(found.value) == bool(completions)


@pytest.mark.parametrize(
    ("size", "of", "one_in"), [(math.inf, 400, 133), (400, 400, None), (600, 400, 200)]
)
def test_a_verdict_says_how_rare_a_kind_it_cannot_know_of(size, of, one_in):
    """95% of draws of 400 hold one of a kind of 1 in 133; of 400 of 600 one of 3."""
    table = replace(few_table(of), size=size)
    found = rule_by_looks(table, asked("grpo", 5))
    assert (found.verdict, found.unless_one_in) == ("keep", one_in)
    change = rule_by_looks(table, asked("grpo", 64))
    assert (change.verdict, change.unless_one_in) == ("change", one_in)
    once = rule_by_looks(table, asked("grpo", 5), looked=False).unless_one_in
    assert once == (66 if size == math.inf else one_in)


def two_costs(small, large):
    """A biased loss at 4 and 8: its costs where N is small, and where it is large."""

    def price(_, question):
        costs = large if question.completions else small
        return Prices(sizes_of(costs), sizes_of(COSTS), stands_in=True)

    return price


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [
        # 4 saves 20% for small N, and points as well as 8, or needs 10% more steps.
        ({4: 0.8, 8: 1.0, 16: 1.5}, {4: 1.0, 8: 1.0, 16: 1.0}, "change"),
        ({4: 0.8, 8: 1.0, 16: 1.5}, {4: 1.1, 8: 1.0, 16: 1.0}, "cannot tell"),
        # 8 is the best for small N; for large N 16 points better.
        ({4: 1.3, 8: 1.0, 16: 1.5}, {4: 1.1, 8: 1.0, 16: 0.99}, "keep"),
        ({4: 1.3, 8: 1.0, 16: 1.5}, {4: 1.1, 8: 1.0, 16: 0.9}, "cannot tell"),
    ],
)
def test_where_n_is_unknown_a_verdict_holds_at_every_n(monkeypatch, small, large, verdict):
    monkeypatch.setattr(rules, "price_rungs", two_costs(small, large))
    found = rule_by_table(None, bound_by(1.01), asked())
    assert found.verdict == verdict
    assert found.asks_batch == (verdict == "cannot tell")
    assert (found.saves is None) == found.asks_batch


def test_a_look_is_one_of_many():
    """Its bounds are those of all looks together, a run's those of one."""
    table, question = few_table(60), asked("grpo", 8)
    found = {
        looked: rule_by_table(table, bound_ratios(table, LEVEL, looked=looked), question)
        for looked in (True, False)
    }
    assert rule_by_looks(table, question).at_most == found[True].at_most
    assert rule_by_looks(table, question, looked=False).at_most == found[False].at_most
    assert found[True].at_most > 1.02 * found[False].at_most > 0
