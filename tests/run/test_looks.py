"""Which prompts come, in which order, and how many completions each look takes."""

from itertools import chain

import pytest

from mse_lab.run.looks import (
    COMPLETIONS,
    FIRST_COMPLETIONS,
    Look,
    first_completions,
    keyed_order,
    looks,
)

IDS = [f"p{index}" for index in range(200)]


def test_the_order_is_a_permutation_that_other_prompts_do_not_change():
    order = keyed_order(0, IDS)
    assert sorted(order) == list(range(200))
    assert order != keyed_order(1, IDS)
    backwards = IDS[::-1]
    assert [backwards[at] for at in keyed_order(0, backwards)] == [IDS[at] for at in order]
    some = [IDS[at] for at in order if at % 3]
    kept = [one for one in IDS if int(one[1:]) % 3]
    assert [kept[at] for at in keyed_order(0, kept)] == some


def test_looks_grow_by_half_and_then_by_completions_of_each():
    found = [look[:2] for look in looks(60)]
    assert found[:3] == [(32, 12), (48, 16), (60, 16)]
    assert found[3:] == [(60, each) for each in (24, 36, 54, 81, 121, 181, 271)]
    more = [look[:2] for look in looks(120)]
    assert more[:5] == [(32, 12), (48, 16), (72, 16), (108, 16), (120, 16)]
    larger = [look[:2] for look in looks(60, first=35)]
    assert larger[:5] == [(32, 35), (48, 35), (60, 35), (60, 52), (60, 78)]
    few = [look[:2] for look in looks(20, first=35)]
    assert few[:3] == [(20, 35), (20, 52), (20, 78)]
    assert Look(60, 78, 35).blocks(0) == Look(60, 78, 35).blocks(50)


@pytest.mark.parametrize("prompts", [1, 31, 32, 47, 48, 49, 100, 5000])
@pytest.mark.parametrize("more", [0, 1, 11, 12, 13, 380, 1000, 10**6])
def test_a_budget_is_used_and_not_exceeded(prompts, more):
    """What is left would not give every prompt, or one prompt, another share."""
    first = looks(prompts)[0]
    budget = first.drawn + more
    found = looks(prompts, budget)
    drawn = [look.drawn for look in found]
    assert found[0] == first
    assert drawn == sorted(set(drawn))
    whole = looks(prompts)
    if budget >= whole[-1].drawn:
        assert found == whole
        return
    left, last = budget - drawn[-1], found[-1]
    assert 0 <= left < (last.completions if last.prompts < prompts else 4 * prompts)
    blocks = [block for look in found for at in (0, 48) for block in look.blocks(at)]
    assert all(len(block) >= 4 for block in blocks)
    assert found[:-1] == whole[: len(found) - 1]
    assert last.prompts == prompts or last.completions in (FIRST_COMPLETIONS, COMPLETIONS)


@pytest.mark.parametrize(("place", "first"), [(0, [12, 16]), (31, [12, 16]), (32, [16])])
def test_a_block_is_that_of_every_look_that_has_it(place, first):
    """The prompts that the second look or a later one adds begin with 16."""
    found = [look for look in looks(60) if look.prompts > place]
    cuts = [[block.stop for block in look.blocks(place)] for look in found]
    assert cuts[-1] == [*first, 24, 36, 54, 81, 121, 181, 271]
    assert all(one == cuts[-1][: len(one)] for one in cuts)
    assert all(look.blocks(place)[0].start == 0 for look in found)


def test_a_batch_is_that_of_every_look_that_has_it():
    """Of one length, of the same completions, of 8 prompts at most; and all are there."""
    order, lengths = keyed_order(0, IDS), [40 + index % 3 for index in range(200)]
    seen = set()
    for look in looks(200):
        batches = look.batches(order, lengths)
        items = [item for batch in batches for item in batch]
        assert len(items) == len(set(items))
        assert sorted(items) == sorted(chain(*look.items(order)))
        assert sum(stop - start for _, start, stop in items) == look.drawn
        assert seen <= set(batches)
        seen |= set(batches)
        for batch in batches:
            assert len({(lengths[index], *block) for index, *block in batch}) == 1
        assert max(map(len, batches)) == 8
        assert len(batches) < len(items) / 4


@pytest.mark.parametrize("prompts", [3, 20, 31, 60, 5000])
def test_where_there_are_no_other_prompts_all_of_a_budget_is_spent(prompts):
    """By as many looks: more of them would be false more often."""
    found, whole = looks(prompts, 8192, spent=True), looks(prompts, 8192)
    assert 8192 - max(prompts, 16) < found[-1].drawn <= 8192
    assert len(found) == len(whole)
    assert found[:-1] == whole[:-1]


def test_a_budget_below_the_first_look_is_for_the_caller_to_refuse():
    assert looks(60, 383) == [Look(31, 12)]


@pytest.mark.parametrize(
    ("needed", "budget", "first"),
    [
        (0, 384, 12),
        (12, 8192, 12),
        (13, 8192, 16),  # A later block of three would say nothing.
        (35, 1120, 35),
        (35, 1119, 12),
        (259, 8192, 12),
    ],
)
def test_the_first_look_has_what_a_larger_group_needs(needed, budget, first):
    """And every later one, where the budget has it for the prompts of the first."""
    assert first_completions(60, budget, needed) == first
    assert first_completions(16, budget // 2, needed) == first
    found = looks(60, budget, first=first)
    assert found[0] == Look(32, first, first)
    assert min(look.completions for look in found) == first
    assert len(found) == len(set(found))
    for look in found:
        blocks = [block for at in (0, 40) for block in look.blocks(at)]
        assert all(len(block) >= 4 for block in blocks)
    order = keyed_order(0, IDS)
    assert found[0].items(order)[0] == [(order[0], 0, first)]
