"""The rule for a group size: by hand arithmetic, and on known populations."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.config.training import DEFAULT
from mse_lab.mse import rule as rules
from mse_lab.mse.bounds import Priced, bound_ratios
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import (
    COMPARED_SIZES,
    SIZES,
    Prices,
    Question,
    Ratios,
    cheapest,
    decide,
    price_sizes,
    prompts_needed,
    rule,
    rule_by_costs,
    rule_by_looks,
)
from mse_lab.mse.samples import Samples
from populations import KnownTable, choose, population

LEVEL = 0.95
COSTS = {4: 0.8, 8: 1.0, 16: 1.5}


def ratios(factor, costs=COSTS):
    """Each ratio of costs is known up to a factor."""
    values = np.array([*costs.values()])
    upper_KK = factor * values[:, None] / values
    np.fill_diagonal(upper_KK, 1)
    return Ratios(costs, upper_KK, of_loss=True)


@pytest.mark.parametrize(
    ("factor", "present", "tolerance", "verdict", "set_to"),
    [
        # 8 costs 25% more than 4: by a factor of 1.04 at least 20.2% and at most 30%.
        (1.04, 8, 0.05, "change", 4),
        (1.04, 4, 0.05, "keep", 4),
        (1.04, 8, 0.31, "keep", 8),
        (1.04, 8, 0.29, "cannot tell", 8),
        # By 1.19 at least 5.04%, but nothing shows that no size is better than 4: 16 may
        # cost 1.19 * 0.8 / 1.5 of it, less than one.
        (1.19, 8, 0.05, "change", 4),
        (1.2, 8, 0.05, "cannot tell", 8),  # At least 4.2%.
        (1.04, 64, 0.05, "cannot tell", 64),  # Not compared.
    ],
)
def test_by_hand(factor, present, tolerance, verdict, set_to):
    found = rule(ratios(factor), Question(present=present, tolerance=tolerance))
    assert (found.verdict, found.set_to) == (verdict, set_to)
    assert (found.saves is None) == (verdict == "cannot tell")


def test_what_a_change_saves_by_hand():
    """20%; at least 1 - 1.04 * 0.8, at most 1 - 0.8 / 1.04."""
    found = rule(ratios(1.04), Question())
    assert found.saves == pytest.approx((0.2, 0.168, 1 - 0.8 / 1.04))
    assert (found.at_least, found.at_most) == pytest.approx((1.25 / 1.04 - 1, 0.3))
    assert rule(ratios(1.04), Question(present=4)).saves == Estimate(0, 0, 0)


@pytest.mark.parametrize(("factor", "verdict"), [(1.04, "change"), (1.19, "cannot tell")])
def test_a_size_that_is_not_shown_to_be_near_the_best_must_save(factor, verdict):
    """4 costs 0.79 of 8, and may cost 5.3%, or 21%, more than 3, which nobody would set.

    Yet by a factor of 1.04 it is at most 0.822 of 8; by 1.19 0.940, which is not 1/1.07.
    """
    costs = {3: 0.78, **COSTS, 4: 0.79}
    tolerance = 0.05 if verdict == "change" else 0.07
    found = rule(ratios(factor, costs), Question(tolerance=tolerance))
    assert found.regret == pytest.approx(factor * 0.79 / 0.78 - 1)
    assert found.regret > tolerance
    assert found.at_least > tolerance
    assert (found.verdict, found.best) == (verdict, 4)


@pytest.mark.parametrize(
    ("settable", "size"),
    [(SIZES, 8), ((*SIZES, 11), 11), ((4, 16), 16), ((4,), 4), ((3,), 11)],
)
def test_the_size_that_is_named_can_be_set(settable, size):
    costs = {4: 13.01, 8: 10.3, 11: 10.0, 16: 10.4}
    assert cheapest(costs, settable) == size


def test_a_batch_says_which_sizes_are_compared():
    """Of 32 completions a step: no 3, which would be better than 2 and 4."""
    question = Question(allowed=(2, 4, 8, 16, 32))
    assert question.compared == [2, 4, 8, 16, 32]
    assert Question(present=12, allowed=(2, 4)).compared == [2, 4, 12]
    assert {*range(2, 9), *SIZES} <= {*Question().compared}
    assert max(np.divide(COMPARED_SIZES[4:], COMPARED_SIZES[3:-1])) < 1.3


def drawn(prompts, completions=16, seed=0):
    rng = np.random.default_rng(seed)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return PromptTable.of_samples(
        Samples.of(choose(design, index).sample(rng, completions))
    )


@pytest.mark.parametrize("completions", [0, 64, 1024])
@pytest.mark.parametrize(
    ("present", "verdict", "set_to"), [(4, "keep", 4), (5, "keep", 5), (64, "change", 4)]
)
@pytest.mark.parametrize("entry", ["grpo", DEFAULT.estimator])
def test_it_stops_for_a_verdict_on_the_present_size(
    entry, present, verdict, set_to, completions
):
    """Of the completions the exact regret of 4, 5 and 64 is 0, 2 and more than 100%."""
    found = decide(drawn(400), Question(entry, present, completions))
    assert found.ruling.verdict == verdict or (completions and present == 64)
    assert found.ruling.verdict != verdict or found.ruling.set_to == set_to
    assert found.stop == (found.ruling.verdict != "cannot tell")
    # A law of 16 completions each ends at groups of 13.
    assert found.ruling.of_loss == (entry == "grpo" or present < 13)


def test_the_larger_the_batch_the_less_a_size_matters():
    """16 needs more than 5% more completions than the best, and no more steps at 10^6."""
    table = drawn(400)
    found = [
        rule_by_looks(table, Question("grpo", 16, completions))
        for completions in (0, 64, 1024, 10**6)
    ]
    bounds = [ruling.at_most for ruling in found]
    assert bounds == sorted(bounds, reverse=True)
    assert found[0].verdict == "change"
    assert found[-1].verdict == "keep"


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
    table, question = drawn(200), Question("grpo", 64)
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
    graded = replace(table, binary=False, values=None)
    std = {"name": "grpo-std", "eps": 1e-4}
    found = {
        "binary": price_sizes(table, Question(std)),
        "graded": price_sizes(graded, Question(std)),
        "by length": price_sizes(table, Question(std | {"length": "sequence"})),
        "unknown": price_sizes(table, Question(None)),
    }
    assert {name for name, prices in found.items() if prices.loss} == {"binary"}
    unsure = Question(std, level=1 - 1e-15)  # Nothing is significant at that.
    assert price_sizes(table, unsure)[::2] == (None, True)
    assert price_sizes(graded, unsure)[::2] == (None, False)
    assert price_sizes(graded, Question(None))[::2] == (None, False)
    bound, question = bound_ratios(table, LEVEL, looked=False), Question(std)
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
    loss_priced, grpo_priced = (
        Priced({size: np.array([cost]) for size, cost in costs.items()}, 0, linear)
        for costs, linear in ((loss, False), (grpo, True))
    )

    def bound(priced):
        return ratios(
            1.02, {size: one.item() for size, one in priced.costs.items()}
        ).upper_KK

    found = rule_by_costs(
        Prices(loss_priced, grpo_priced, stands_in=True), bound, Question(present=present)
    )
    assert (found.verdict, found.of_loss) == (verdict, of_loss)
    if verdict == "cannot tell":
        assert (found.set_to, found.saves, found.at_least) == (present, None, 0)


def test_a_constant_baseline_is_best_alone():
    """c1 G + c, least at G = 1: at 8 it costs (8 + 3) / (1 + 3) times as much."""
    known = KnownTable(1.0, 2.0, 9.0, vanilla=3.0)
    loss = price_sizes(known, Question("vanilla", 8)).loss
    at = {size: cost.item() for size, cost in loss.costs.items()}
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
    known = KnownTable(1, 2, 9)
    known.__dict__["products_PP"] = np.zeros((prompts, prompts))
    grpo = Priced({size: np.array([cost]) for size, cost in costs.items()}, 0, linear=True)
    monkeypatch.setattr(rules, "price_sizes", lambda *_: Prices(grpo, grpo, stands_in=True))

    def bound(count):
        return lambda priced: ratios(factor(count), costs).upper_KK

    assert prompts_needed(known, Question("grpo"), bound) == needed
