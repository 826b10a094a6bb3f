"""What is computed of groups: values, spread, drift, forecast, lengths, verdicts."""

from dataclasses import asdict
from itertools import product

import numpy as np
import pytest

from log_makers import draw_groups, groups_of, refuse, summarise, write_lines
from mse_lab.errors import InputError
from mse_lab.logs.verdicts import LIMITS, verdict_lines, verdicts_of
from mse_lab.report.rollouts_report import rollouts_text


def test_bands_are_of_the_range_of_rewards(tmp_path):
    rewards = [[0] * 4, [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1] * 4]
    found = summarise(tmp_path, groups_of(*rewards))
    assert [*found.numbers["values"].values()] == [1, 0, 1, 1, 1, 1]
    ends = [found.numbers[name].value for name in ("never_right", "always_right")]
    assert ends == pytest.approx([0.2, 0.2])
    graded = summarise(tmp_path, groups_of([-2, 0], [2, 0], [-2, -2])).numbers["values"]
    # Means -1 and 1 are at a quarter and at three quarters of -2 to 2.
    assert [*graded.values()] == [1, 0, 1, 0, 1, 0]


def test_a_prompts_groups_are_one_prompt(tmp_path):
    found = summarise(tmp_path, draw_groups([0.5] * 10, 8, groups=3))
    assert found.prompts["groups"].tolist() == [3] * 10
    assert found.prompts["completions"].tolist() == [24] * 10


def test_the_spread_of_values_is_what_luck_leaves(tmp_path):
    """All V = 0.3: groups of 8 have means of sd sqrt(.3 .7 / 8) = 0.162; then V uniform."""
    spread = summarise(tmp_path, draw_groups([0.3] * 400, 8)).numbers["value_sd"]
    assert (spread.low, spread.high < 0.08) == (0, True)
    values = np.random.default_rng(1).random(600)
    spread = summarise(tmp_path, draw_groups(values, 4)).numbers["value_sd"]
    assert spread.low < values.std() < spread.high


def test_the_spread_is_without_bias_where_prompts_are_drawn_again(tmp_path):
    """V is 0 or 1 for each of three prompts, so without luck: variance 1/4 on average.

    Prompts have four, two and one groups; all eight draws of V are as likely.
    """
    squares = []
    for values in product((0, 1), repeat=3):
        groups = zip("aaaabbc", np.repeat(values, (4, 2, 1)).tolist(), strict=True)
        lines = [
            {"prompt_id": prompt, "group": number, "reward": one}
            for number, (prompt, one) in enumerate(groups)
            for _ in range(2)
        ]
        squares.append(summarise(tmp_path, lines).numbers["value_sd"].value ** 2)
    assert np.mean(squares) == pytest.approx(1 / 4)


def test_the_spread_by_hand(tmp_path):
    """Means 0, 1, 1/2 about 1/2: (1/4 + 1/4 + 0 - 2/3 (0 + 0 + 1/4)) / 3 / (2/3) = 1/6.

    Of one prompt it is not known.
    """
    spread = summarise(tmp_path, groups_of([0, 0], [1, 1], [1, 0])).numbers["value_sd"]
    assert spread.value**2 == pytest.approx(1 / 6)
    again = [{"prompt_id": "p", "step": n, "reward": n} for n in (0, 0, 1, 1)]
    assert np.isnan(summarise(tmp_path, again).numbers["value_sd"]).all()


def steps_of(values, prompts=60):
    return [
        line | {"step": step}
        for step, value in enumerate(values)
        for line in draw_groups([value] * prompts, 8, seed=step)
    ]


def test_drift_is_that_of_thirds(tmp_path):
    """V = 0.2 in the first three of nine steps, 0.6 in the last; few steps show none.

    It is no spread of values: in each step all V are alike, over the steps they have 0.16.
    """
    numbers = summarise(tmp_path, steps_of([0.2] * 3 + [0.4] * 3 + [0.6] * 3)).numbers
    drift, spread = numbers["drift"], numbers["value_sd"]
    assert drift.low < 0.4 < drift.high < drift.low + 0.12
    assert (spread.low, spread.high < 0.1) == (0, True)
    few = summarise(tmp_path, draw_groups([0.5] * 4, 4, groups=3))
    assert np.isnan(few.numbers["drift"].value)
    assert any("drift would not show" in note for note in few.notes)


def test_an_interval_that_no_change_leaves_is_none(tmp_path):
    """Two prompts a step: its ends would be -6 and 7, of rewards between 0 and 1."""
    lines = [
        line | {"step": step, "prompt_id": f"{step}{line['prompt_id']}"}
        for step in range(4)
        for line in groups_of([0] * 4, [int(step == 3)] * 4)
    ]
    assert np.isnan(summarise(tmp_path, lines).numbers["drift"].value)


def test_a_mean_reward_of_zero_is_not_known_exactly(tmp_path):
    """All of 60 prompts wrong: at most 6% of all, as for any share; three up to 71%."""
    mean = summarise(tmp_path, groups_of(*[[0] * 8] * 60)).numbers["mean_reward_interval"]
    assert (mean.value, mean.low) == (0, 0)
    assert mean.high == pytest.approx(0.06, abs=0.005)
    few = summarise(tmp_path, groups_of([0, 1], [0, 1], [0, 1]))
    wrong = few.mean_where(few.groups.completions["wrong"].to_numpy())
    assert wrong.high == pytest.approx(1 - 0.025 ** (1 / 3), abs=0.02)
    assert np.isnan(few.mean_where(np.zeros(6, dtype=bool)).value)
    graded = summarise(tmp_path, groups_of([0, 2], [0, 2]))
    assert tuple(graded.mean_where(np.array([True, False] * 2))) == (0, 0, 0)


@pytest.mark.parametrize(
    ("groups", "forecast"),
    [
        # At 2: 1, (C(1, 2) + C(3, 2)) / C(4, 2) = 1/2, 1.
        ([[0] * 4, [1, 0, 0, 0], [1] * 4], {2: 5 / 6, 4: 2 / 3}),
        ([[0, 0.5, 1, 1], [0.5] * 4], {2: 7 / 12, 4: 1 / 2}),
        ([[0] * 4, [0, 1, 0, 1], [1, 1]], {2: 7 / 9, 4: 1 / 2}),
        ([[0], [1]], {}),
    ],
    ids=["binary", "graded rewards", "a group that is smaller", "single ones"],
)
def test_the_forecast_by_hand(tmp_path, groups, forecast):
    """At the size in use, where all groups have it, it is what was seen."""
    found = summarise(tmp_path, groups_of(*groups)).numbers
    values = {size: one.value for size, one in found["forecast"].items()}
    assert values == pytest.approx(forecast)
    if {*map(len, groups)} == {4}:
        assert found["forecast"][4] == found["zero_variance"]


def completion(tokens=(5, 6), prompt="a", reward=1, **more):
    return {"prompt_id": prompt, "reward": reward, "tokens": [*tokens], **more}


def test_lengths_are_the_policys_tokens_or_else_characters(tmp_path):
    tools = [completion([5, 6, 7, 0], mask=[1, 0, 0, 1])] * 2
    assert summarise(tmp_path, tools).groups.lengths[1].tolist() == [2, 2]
    texts = [{"prompt_id": "a", "reward": 1, "text": text} for text in ("12", "1234")]
    unit, lengths = summarise(tmp_path, texts).groups.lengths
    assert (unit, lengths.tolist()) == ("characters", [2, 4])
    turns = [{"role": "assistant", "content": "12"}, {"role": "tool", "content": "9"}]
    spoken = [{"prompt_id": "a", "reward": 1, "completion": turns}]
    assert summarise(tmp_path, spoken).groups.lengths[1].tolist() == [2]
    call = [{"role": "assistant", "content": None, "tool_calls": []}]
    silent = [*spoken, {"prompt_id": "a", "reward": 1, "completion": call}]
    assert summarise(tmp_path, silent).groups.lengths is None
    alone = summarise(tmp_path, groups_of([0, 1]))
    assert (alone.groups.lengths, alone.groups.cut_N) == (None, None)
    assert "duplicates" not in alone.numbers


def test_equal_completions_of_a_group(tmp_path):
    """The equal one of b is none: it is of another prompt."""
    lines = [completion([5, 0], prompt) for prompt in ("a", "a", "b")]
    found = summarise(tmp_path, [*lines, completion([6, 0], "b")])
    assert found.numbers["duplicates"].value == pytest.approx(1 / 4)


def both(model, engine, **more):
    return completion([1] * len(model), log_probs=model, engine_log_probs=engine, **more)


def test_the_mismatch_by_hand(tmp_path):
    """Log ratios log 4, 0, -log 2 and 0 in one token each."""
    ratios = np.array([4.0, 1.0, 0.5, 1.0])
    lines = [both([-3.0 + float(np.log(one))], [-3.0]) for one in ratios]
    found = summarise(tmp_path, lines).numbers["mismatch"]
    assert found.completions == 4
    assert found.kl_per_token == pytest.approx(np.mean(ratios - 1 - np.log(ratios)))
    assert found.effective == pytest.approx(ratios.sum() ** 2 / (ratios @ ratios) / 4)
    alone = summarise(tmp_path, [completion(log_probs=[-1.0])])
    assert "mismatch" not in alone.numbers


def test_tokens_of_tools_and_without_a_probability_do_not_count(tmp_path):
    lines = [
        both([-1, -9, -1], [-1, -1, -1], mask=[1, 0, 1]),
        both([-1.5, -1.0], [-1.0, None], mask=[1, 1]),
    ]
    table = summarise(tmp_path, lines).groups.completions
    assert table["tokens"].tolist() == [2, 1]
    assert table["log_ratio"].tolist() == [0.0, -0.5]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (both([-1.0, -1.0], [-1.0]), "line 1: 2 log_probs, 1 of engine_log_probs"),
        (both([-1.0], [5.0]), "line 1: 5 is no log-probability"),
        (both([-1.0], [-1.0], mask=[1, 1]), "1 token_ids, 2 of mask"),
        (*groups_of([1], log_probs=[-1], engine_log_probs=[-1], mask=[1, 1]), "2 of mask"),
        (completion(mask=[1, 3]), r"mask = 3: give a list of 0 and 1"),
        (completion(tokens=["a"]), "give a list of token ids"),
    ],
)
def test_lists_of_tokens_that_are_refused(tmp_path, line, said):
    refuse(write_lines(tmp_path / "log.jsonl", [line]), said)


def parted(*groups, **more):
    """Lines of groups of (right, brief), whose sum is the reward."""
    return [
        {"prompt_id": f"p{n}", "group": n, "rewards": {"right": right, "brief": brief}}
        | {"reward": right + brief, **more}
        for n, group in enumerate(groups)
        for right, brief in group
    ]


def drawn(rewards, length, cut, ratio=0.0):
    """Groups of completions, the last `cut` of each cut, with both log-probabilities."""
    return [
        completion(
            [n, k, 7],
            n,
            reward,
            log_probs=[-1.0, -1.0, -1.0 + ratio * (-1) ** k],
            engine_log_probs=[-1.0] * 3,
            truncated=k >= len(rewards) - cut,
        )
        for n in range(length)
        for k, reward in enumerate(rewards)
    ]


@pytest.mark.parametrize(
    ("check", "lines", "look"),
    [
        ("silent", groups_of([0, 0], [0, 1]), False),
        ("silent", groups_of([0, 0], [1, 1], [0, 1]), True),
        ("truncated", drawn([1, 1, 1, 0], 8, 0), False),
        ("truncated", drawn([1, 1, 1, 0], 8, 1), True),
        ("mismatch", drawn([0, 1], 8, 0, ratio=0.1), False),
        ("mismatch", drawn([0, 1], 8, 0, ratio=1.0), True),
        ("parts", parted(*[[(0, 0), (1, 0)]] * 4, [(0, 0), (0, 1)]), False),
        ("parts", parted([(0, 0), (1, 0)], [(0, 0), (0, 1)]), True),
        ("copies", [completion()] * 2, False),
        ("copies", [completion()] * 3, True),
        ("drift", steps_of([0.8] * 3 + [0.3] * 3), True),
        ("drift", steps_of([0.3] * 3 + [0.8] * 3), False),
    ],
)
def test_each_check_above_and_below_its_limit(tmp_path, check, lines, look):
    verdict = verdicts_of(summarise(tmp_path, lines))[check]
    assert (verdict.look, verdict.limit) == (look, LIMITS[check])
    assert verdict.line().startswith("LOOK  " if look else "OK    ")
    assert (verdict.action in verdict.line()) is look


def test_the_fall_is_the_estimate_over_the_range(tmp_path):
    """Not its nearer end, which alone decides that there is one."""
    found = summarise(tmp_path, steps_of([1.0] * 3 + [0.0] * 3))
    fall = verdicts_of(found)["drift"].value
    some = summarise(tmp_path, steps_of([0.8] * 3 + [0.3] * 3))
    drift = some.numbers["drift"]
    assert (fall, found.numbers["drift"].value) == (1, -1)
    assert verdicts_of(some)["drift"].value == -drift.value > -drift.high


PARTED = parted(
    [(0, 0.1), (0, 0.3)], [(1, 0.2), (0, 0.2)], [(0, 0)] * 2, [(1, 0), (0, 0.5), (0, 0)]
)


def test_parts_by_hand(tmp_path):
    """Squared advantages .02, .5 and .5, of variances .02, .5, .25: by a std 1, 1 and 2."""
    summary = summarise(tmp_path, PARTED)
    found, said = summary.parts, verdicts_of(summary)["parts"]
    right, brief = found.parts
    assert (found.outcome, found.told, found.alone.name) == ("right", False, "brief")
    assert (right.mean, brief.mean) == pytest.approx((2 / 9, 1.3 / 9))
    assert (right.varies, brief.varies) == (0.5, 0.5)
    assert (right.share_plain, brief.share_plain) == pytest.approx((1 / 1.02, 0.02 / 1.02))
    few, *others = (
        n / (1 + 1e-4 / v**0.5) ** 2 for n, v in ((1, 0.02), (1, 0.5), (2, 0.25))
    )
    assert brief.share_std == pytest.approx(few / (few + sum(others)))
    assert right.share_std == pytest.approx(1 - brief.share_std)
    assert (found.alone.varies, found.alone.share_plain) == pytest.approx(
        (0.25, 0.02 / 1.02)
    )
    assert said.look
    assert said.finding.startswith(
        "in 25% of the groups only brief differs, not right: 25%"
    )
    assert summary.as_dict()["parts"][1] == asdict(brief)


def test_groups_without_the_outcome_are_left_out(tmp_path):
    """As where a reward function gives None for some prompts, or came later."""
    other = parted([(0, 0.1), (0, 0.3)], [(0, 0.2), (0, 0)], [(0, 0.9), (0, 0.1)])
    for n, line in enumerate(other):
        line["prompt_id"], line["rewards"] = f"late {n // 2}", {"brief": line["reward"]}
    half = parted([(1, 0), (0, 0)])
    half[0]["rewards"].pop("right")
    for line in half:
        line["prompt_id"] = "half"
    alone = summarise(tmp_path, PARTED).parts
    for more in (other, other + half):
        found = summarise(tmp_path, PARTED + more, outcome="right").parts
        assert found.without == 3 + (len(more) > len(other))
        assert found.alone == alone.alone
        assert found.parts[0] == alone.parts[0] or len(more) > len(other)
        right, brief = found.parts
        assert (right.varies, right.share_std) == (0.5, alone.parts[0].share_std)
        assert brief.share_std == alone.parts[1].share_std
        assert brief.varies == pytest.approx((2 + 3) / (4 + 3 + (len(more) > len(other))))
    partly = summarise(tmp_path, PARTED + other, outcome="right")
    assert "Groups left out for want of the outcome: 3." in rollouts_text(partly)
    said = verdicts_of(partly)["parts"]
    assert said.finding.startswith("in 25% of the groups that have right only brief")
    with pytest.raises(InputError, match="outcome = right: no group of several has it in"):
        summarise(tmp_path, other + half, outcome="right")
    more = [{**line, "prompt_id": f"more {line['prompt_id']}"} for line in other]
    found = summarise(tmp_path, PARTED + other + more + half)
    assert (found.parts.outcome, found.parts.without) == ("brief", 0)
    assert [part.name for part in summarise(tmp_path, other + half).parts.parts] == [
        "brief"
    ]
    one = [*PARTED, {**PARTED[0], "prompt_id": "one", "rewards": {"brief": 1}}]
    assert summarise(tmp_path, one, outcome="right").parts.without == 0


def test_which_part_is_the_outcome(tmp_path):
    assert summarise(tmp_path, PARTED, outcome="brief").parts.outcome == "brief"
    for lines, given, line in (
        (PARTED, "rigth", "outcome = rigth: did you mean right"),
        (groups_of([0, 1]), "right", "outcome = right: these logs have no parts"),
    ):
        with pytest.raises(InputError, match=line):
            summarise(tmp_path, lines, outcome=given)
    verl = [
        {"input": f"p{n // 4}", "output": "", "step": 1, "gts": "", "acc": n % 4 > 1}
        | {"score": 2.0 * (n % 4 > 1) - n % 2, "overlong": -(n % 2), "pred": f"{n}"}
        for n in range(8)
    ]
    found = summarise(tmp_path, verl).parts
    assert [part.name for part in found.parts] == ["acc", "overlong"]
    assert found.told
    assert summarise(tmp_path, groups_of([0, 1])).parts is None
    verl[3]["acc"] = "yes"
    worded = [line | {"acc": "yes"} for line in verl]
    note = "1 column(s) of numbers and texts, no part: left out (acc)."
    for lines, said in ((verl, True), (worded, False)):
        found = summarise(tmp_path, lines)
        assert found.parts.outcome == "overlong"
        assert (note in found.notes) == said


@pytest.mark.parametrize(("rewards", "right"), [([0, 1e-10], 0), ([1, 1 + 1e-10], 1)])
def test_rewards_that_are_all_equal_are_right_if_all_are_positive(tmp_path, rewards, right):
    """As trainers compare them, by 1e-8."""
    found = summarise(tmp_path, groups_of(rewards)).numbers
    assert (found["zero_variance"].value, found["all_right"].value) == (1, right)


def test_what_verdicts_say(tmp_path):
    cut = verdicts_of(summarise(tmp_path, drawn([1, 1, 1, 0], 8, 1)))["truncated"].line()
    assert "mean reward 0 where others have 1 (above 0.10, truncated)" in cut
    for rewards, kind in (([0, 0], "easier prompts"), ([1, 1], "harder prompts")):
        lines = groups_of(rewards, [0, 1], rewards)
        assert kind in verdict_lines(summarise(tmp_path, lines))[0]
    few = verdict_lines(summarise(tmp_path, groups_of([0, 1])))
    assert few[-1] == "These logs do not tell: truncated, copies, drift, mismatch."
