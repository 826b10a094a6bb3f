"""Diagnostics: counted by another route, and a warning for each way to measure nothing."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from measurements import make_measurement
from mse_lab.mse.moments import Proxy
from mse_lab.report.run_screen import describe_completions
from mse_lab.results.diagnostics import Diagnostics, EndToken, diagnose, diagnostics_of
from mse_lab.results.measurement import describe_tokens
from simulated import make_pools

HEALTHY = Diagnostics(
    prompts=60,
    completions=256,
    mean_reward=0.4,
    accuracy=0.4,
    never_right=0.1,
    always_right=0.05,
    one_reward=0.15,
    truncated=0.02,
    mean_length=5.0,
    empty=0.01,
    distinct=0.3,
    commonest=0.4,
    end_tokens=(EndToken(2, "<end>", 0.98),),
)


def make_summaries(prompts, **changes):
    """Make summaries of prompts that are all alike."""
    return [make_measurement(**changes).completions] * prompts


# Completions, which ended; distinct, commonest, empty; end tokens and how often each came.
TOKENS = {
    "five": (
        [[4, 2], [2], [4, 2], [4, 4], [2]],
        [1, 1, 1, 0, 1],
        (0.6, 0.4, 0.4),
        [2],
        [4],
    ),
    "equal bytes of another length": ([[0], [0, 0]], [0, 0], (1.0, 0.5, 0.0), [], []),
    "no end": ([[3, 3]], [0], (1.0, 1.0, 0.0), [], []),
}


@pytest.mark.parametrize("case", TOKENS)
def test_tokens_are_counted(case):
    completions, ended, shares, ids, counts = TOKENS[case]
    found = describe_tokens([np.array(one) for one in completions], np.array(ended, bool))
    assert (found["distinct"], found["commonest"], found["empty"]) == shares
    assert (found["end_ids"].tolist(), found["end_counts"].tolist()) == (ids, counts)
    assert found["end_ids"].dtype == np.int64


def test_tokens_of_stop_strings_count_together():
    """Completions ended by tokens 5 and 7, which are no end tokens: 60 and 12 of 96."""
    ends = {"end_ids": np.array([5, 7]), "end_counts": np.array([60, 12])}
    rewards = [np.array([0.0, 1.0])] * 10
    summaries = make_summaries(10, **ends)
    found = diagnostics_of(rewards, summaries, {2: "<end>"}, [96] * 10, binary=True)
    shares = [(one.id, one.text, one.share) for one in found.end_tokens]
    assert shares == [(-1, "a stop string", 0.75), (2, "<end>", 0.0)]


def test_blocks_of_a_sample_count_by_their_completions():
    """8 of one block and 24 of another, of four prompts; shares are of all 128."""
    few, many = (
        make_measurement(truncated=share, end_counts=np.array(ends)).completions
        for share, ends in ((1.0, [0, 0]), (0.5, [12, 0]))
    )
    rewards = [np.array([0.0, 1.0] * 16), np.zeros(32), np.zeros(32), np.ones(32)]
    found = diagnostics_of(rewards, [few, many] * 4, {2: "<end>"}, [8, 24] * 4, binary=True)
    assert (found.prompts, found.completions) == (4, 32)
    assert found.truncated == (8 * 1.0 + 24 * 0.5) / 32
    assert [one.share for one in found.end_tokens if one.id == 2] == [48 / 128]
    assert (found.mean_reward, found.never_right, found.always_right) == (0.375, 0.5, 0.25)
    assert (found.accuracy, found.one_reward) == (0.375, 0.75)


def test_graded_rewards_have_no_accuracy_and_what_was_given_up_is_counted():
    pools = make_pools(4, 64, 4, 8)
    graded = replace(pools, rewards_PN=pools.rewards_PN / 2)
    found = diagnose(graded, make_summaries(4, given_up=2), {2: "<end>"})
    assert found.accuracy is found.never_right is found.always_right is None
    assert found.given_up == 8


def test_diagnostics_of_a_run(project):
    """Against a count over `completions.jsonl`; with two tokens most are cut."""
    folder = project / "results/small"
    found = json.loads((folder / "diagnostics.json").read_text())
    text = (folder / "completions.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    table = pd.read_csv(folder / "prompts.csv")
    assert found["prompts"] * found["completions"] == len(lines)
    assert found["accuracy"] == pytest.approx(table.value.mean())
    assert found["truncated"] == pytest.approx(table.truncated.mean())
    assert found["mean_length"] == pytest.approx(np.mean([one["length"] for one in lines]))
    kinds = Counter((one["prompt"], one["text"], one["length"]) for one in lines)
    assert found["distinct"] == pytest.approx(len(kinds) / len(lines))
    (end,) = found["end_tokens"]
    assert (end["id"], end["text"]) == (0, "<end>")
    assert end["share"] == pytest.approx(1 - found["truncated"])
    said = json.loads((folder / "checks.json").read_text())["warnings"]
    assert any("were cut" in one for one in said) == (found["truncated"] > 0.5)


def test_completions_in_words():
    """Graded rewards have no accuracy; the proxy is said where it is known."""
    rewards, completions = describe_completions(HEALTHY)
    assert "accuracy 0.400, V = 0 on 10% and V = 1 on 5% of 60 prompts" in rewards
    assert "2% truncated, 30% distinct; ended by <end> 98%" in completions
    known = replace(HEALTHY, proxy=Proxy(within=0.912, overall=0.7))
    assert describe_completions(known)[2:] == [
        "logits norm for ||W||^2: correlation 0.91 within prompts, 0.70 in all"
    ]
    graded = replace(HEALTHY, accuracy=None, never_right=None, always_right=None)
    assert describe_completions(graded)[0].startswith("rewards: mean reward 0.400, all ")
