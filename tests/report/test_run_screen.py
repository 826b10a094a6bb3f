"""A run on the screen: its plan, also as JSON, and what its completions are like."""

import dataclasses
import json
import math
from dataclasses import replace

from mse_lab.mse.replicates import Key
from mse_lab.report.run_screen import describe_completions, plan_text, plan_values
from mse_lab.results.extrapolation import Advising, Plan
from results.test_diagnostics import HEALTHY

WIDTHS = {Key("grpo", 4): 0.05, Key("grpo", 8): 0.2, Key("oracle", 8): math.nan}
PLAN = Plan(
    probe="small",
    prompts=10,
    completions=960,
    tokens=4321.4,
    seconds={"load the model": 1.0, "draw and reward": 59.0},
    disk_bytes=2e6,
    peak_memory_bytes=3e9,
    budget_bytes=4 * 10**9,
    block=(8, 8),
    factor=2.0,
    prompts_measured=5,
    seconds_measured=20.0,
    half_widths=WIDTHS,
    level=0.95,
    wanted_width=0.1,
)


def said(plan):
    return " ".join(plan_text(plan).split())


def test_the_terminal():
    text = plan_text(PLAN)
    assert text.startswith("small: 10 prompts, 960 completions, 4,321 tokens\n")
    assert max(map(len, text.splitlines())) <= 80
    assert "time: 30 s to 2 min" in said(PLAN)
    assert "grpo 5% 20% oracle ? ?" in said(PLAN)
    # (0.2 / 0.1)^2 as many.
    assert "grpo at G = 8 will have about 20%: use 40 prompts" in said(PLAN)
    assert "by a factor of 4" in said(PLAN)
    assert "norms only" not in text


def test_wide_enough_is_not_warned_of():
    assert "warning" not in said(dataclasses.replace(PLAN, wanted_width=0.2))


def test_norms_only_are_said_to_be():
    plan = dataclasses.replace(PLAN, block=(4, 8))
    assert "norms only: a block of 8 does not fit, only 4 at a time" in said(plan)


def test_what_an_advice_takes():
    assert "advise" not in said(PLAN)
    plan = dataclasses.replace(PLAN, advising=Advising(384, 16_260, 0.05))
    assert "advise instead: 384 completions, 19 s, for the first look" in said(plan)
    assert "16,260 completions, 13 min 33 s, for the last" in said(plan)
    assert plan_values(plan)["advising"]["most"] == 16_260


def test_json():
    values = json.loads(json.dumps(plan_values(PLAN), allow_nan=False))
    assert values["seconds_low"] == 30 < values["seconds_high"] == 120
    last = {"estimator": "oracle", "group_size": 8, "half_width": None}
    assert values["half_widths"][-1] == last


def test_the_first_prompt_comes_first():
    lines = plan_text(dataclasses.replace(PLAN, first_prompt=["as the model", "rewards"]))
    assert lines.splitlines()[1:3] == ["as the model", "rewards"]


def test_rewards_and_completions():
    rewards, completions = describe_completions(HEALTHY)
    assert "accuracy 0.400, V = 0 on 10% and V = 1 on 5% of 60 prompts" in rewards
    assert "2% truncated, 30% distinct; ended by <end> 98%" in completions


def test_graded_rewards_have_no_accuracy():
    graded = replace(HEALTHY, accuracy=None, never_right=None, always_right=None)
    assert describe_completions(graded)[0].startswith("rewards: mean reward 0.400, all ")
