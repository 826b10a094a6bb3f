"""Until the answer is known: looks, what stops them, and what is said meanwhile."""

import json
import re
from itertools import chain, takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from changed_subjects import changed
from log_makers import write_lines
from mse_lab.config.training import DEFAULT
from mse_lab.data.prompts import Prompt
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import integer
from mse_lab.errors import InputError
from mse_lab.mse.rule import Question
from mse_lab.mse.samples import Samples
from mse_lab.results.folder import ADVICE
from mse_lab.run import advise
from mse_lab.run.advise import _Deadline, order_prompts, sample_probe, sample_until
from mse_lab.run.context import load
from mse_lab.run.looks import Look, looks
from mse_lab.run.processes import Processes
from mse_lab.run.subject import Subject, prepare

TRL = Question(DEFAULT.estimator, DEFAULT.group_size)


class Said(NamedTuple):
    told: bool
    words: str


def deciding(*stops):
    """Decide by a list, and remember how many prompts and completions each look had."""
    seen = []

    def decide(table):
        seen.append((table.prompts, table.moments.value_trials[0]))
        return Said(stops[len(seen) - 1], f"look {len(seen)}")

    return decide, seen


def look_of(found):
    """How many prompts, and completions of each, the last look had."""
    return len(found.prompts), sum(block.completions for block in found.prompts[0])


@pytest.fixture
def measure(probe, tmp_path, monkeypatch):
    """Return a function that measures the small probe until something says stop."""

    def measure(decide, **settings):
        monkeypatch.setattr(advise, "rule_by_looks", lambda table, *_, **__: decide(table))
        monkeypatch.setattr(advise, "_words", lambda said, _: said.words)
        spec = prepare("small", probe, tmp_path / "out" / ADVICE, tmp_path)
        return sample_probe(spec, TRL, **settings)

    return measure


def test_it_goes_on_until_a_look_says_stop(measure, capsys):
    """At twelve completions rewards differ within one prompt, and nothing is decided."""
    decide, seen = deciding(False, False, True)
    found = measure(decide)
    assert seen == [(5, 16), (5, 24), (5, 36)]
    assert look_of(found) == (5, 36)
    assert found.stopped == "regret"
    blocks = list(chain(*found.prompts))
    assert [block.completions for block in found.prompts[0]] == [12, 4, 8, 12]
    assert all(block.differentiated <= 32 for block in blocks)
    assert [check.ok for check in found.checks] == [True, True]
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if line.startswith("5 prompts, ")]
    assert [line.rpartition(": ")[2] for line in said[1:]] == [
        f"look {n}" for n in (1, 2, 3)
    ]
    assert said[-1].startswith("5 prompts, 180 completions")


@pytest.mark.parametrize(
    ("budget", "last", "stopped"),
    [(60, 12, "budget"), (80, 16, "budget"), (119, 23, "budget"), (120, 24, "budget"),
     (8192, 271, "exhausted")],
)  # fmt: skip
def test_what_ends_it_where_nothing_is_known(
    measure, budget, last, stopped, monkeypatch, capsys
):
    """The number of completions alone: samples of one size stand for all."""
    honest = advise.sample_batch
    monkeypatch.setattr(
        advise,
        "sample_batch",
        lambda subject, batch, **settings: honest(
            subject, [(index, 0, 16) for index, *_ in batch], **settings
        ),
    )
    found = measure(lambda table: Said(False, ""), budget=budget)
    assert found.stopped == stopped
    *_, end = capsys.readouterr().err.splitlines()
    assert end.startswith(f"5 prompts, {5 * last:,} completions, ")


def test_what_is_at_hand_is_used(measure):
    """A question that its first look would answer is answered by all that were drawn."""
    decide, _ = deciding(False, False, True)
    measure(decide)
    decide, seen = deciding(True)
    assert look_of(measure(decide)) == (5, 36)
    assert seen == [(5, 36)]
    assert look_of(measure(deciding(True)[0], budget=130)) == (5, 24)


def test_copies_of_a_prompt_are_one(measure, probe, tmp_path, capsys):
    """Equal but for their ids; the answer alone counts for a built-in reward."""
    source = Path(probe.prompts.source)
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    copies = [
        row | {"id": f"{row['id']}-{copy}", "category": str(copy)}
        for copy in range(7)
        for row in rows
    ]
    write_lines(source, [*copies, rows[0] | {"id": "other", "answer": 77}])
    found = measure(lambda table: Said(True, ""))
    assert (len(found.prompts), len(found.order)) == (6, 6)
    assert found.warnings[-1].startswith("30 of 36 prompts have the text and answer of")
    population = {"population": "these"}
    these = probe.model_copy(
        update={"prompts": probe.prompts.model_copy(update=population)}
    )
    assert len(order_prompts(prepare("these", these, tmp_path, tmp_path))) == 36


def test_what_a_users_reward_is_given_makes_a_kind(probe):
    rows = [{"id": name, "answer": 1, "level": name > "a"} for name in "abc"]
    prompts = [Prompt(row["id"], "1 2", "", row) for row in rows]
    known = UserReward(lambda text, row: row["level"], "levels")
    for reward, kinds in ((known, 2), (integer, 1)):
        inputs = Subject(name="two", probe=probe, prompts=prompts, reward=reward)
        assert len(order_prompts(inputs)) == kinds


@pytest.mark.parametrize(
    ("differ", "asked", "stopped"),
    [(0, [], "budget"), (1, [], "budget"), (2, [(5, 12)], "regret")],
)
def test_an_answer_takes_two_prompts_whose_rewards_differ(
    measure, monkeypatch, capsys, differ, asked, stopped
):
    """With fewer none of four looks decides."""
    seen = {}

    def reward(function, texts, prompt, ids):
        place = seen.setdefault(prompt.id, len(seen))
        return np.arange(len(texts)) % 2.0 * (place < differ), 0

    monkeypatch.setattr("mse_lab.run.prompt.reward_completions", reward)
    decide, found = deciding(True)
    assert measure(decide, budget=180).stopped == stopped
    assert found == asked
    said = capsys.readouterr().err.count(f"rewards differ within {differ} so far")
    assert said == (0 if asked else 4)


def test_the_first_prompt_is_shown_as_the_model_gets_it(measure, capsys):
    measure(deciding(True)[0])
    said = capsys.readouterr().err
    assert re.search(r"^first prompt, \S+, as the model gets it: '.+'$", said, re.M)
    assert re.search(r"^rewards: 1 for its reference answer '\d', 0 for '\d'$", said, re.M)
    most = r"^drawing ends .*, or at 1,355 completions, \S+ [KM]B of scores at most$"
    assert re.search(most, said, re.M)


def test_a_sample_warns_as_a_run_does(measure):
    """By the completions of the last look, which its shards keep, counted once more."""
    found = measure(deciding(False, True)[0])
    again = measure(deciding(True)[0])
    assert found.warnings == again.warnings
    alike, cut = found.warnings
    equal = sum(np.ptp(one) == 0 for one in Samples.of(found.prompts).rewards)
    assert alike.startswith(f"all rewards are the same on {equal / 5:.0%} of the prompts")
    lengths = np.concatenate([block.lengths_N for block in chain(*found.prompts)])
    share = float(re.match(r"([\d.]+)% of the completions were cut", cut)[1]) / 100
    assert 0.5 < share <= (lengths == 6).mean()


def test_only_the_first_process_looks(measure, probe, tmp_path):
    """The others hear that it is over."""

    class Second(Processes):
        rank = 1

        def agree(self, decide, kind=None):
            return kind() if kind else True

    subject = load(prepare("small", probe, tmp_path / "out", tmp_path))
    found = sample_until(changed(subject, processes=Second()), {}, TRL, None)
    assert (found.stopped, found.prompts) == ("regret", [])


@pytest.mark.parametrize(
    ("seconds", "look"),
    [(1000, (5, 24)), (120, (5, 24)), (119, (5, 16)), (70, (5, 12))],
)
def test_no_look_is_begun_that_would_end_too_late(seconds, look, monkeypatch):
    """A second a completion: the looks end after 60, 80 and 120 seconds."""
    now = 0.0
    monkeypatch.setattr("mse_lab.run.advise.time", SimpleNamespace(monotonic=lambda: now))
    deadline = _Deadline(seconds)
    drawn = 0
    for each in takewhile(deadline.allows, looks(5, 120)):
        deadline.count(each.drawn - drawn)
        now = drawn = each.drawn
    assert drawn == Look(*look).drawn


def test_a_look_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(
        "mse_lab.run.advise.time", SimpleNamespace(monotonic=iter([0.0, 9, 11]).__next__)
    )
    deadline = _Deadline(10)
    deadline.count(16)
    with pytest.raises(InputError, match="16 completions took the 10 s that there are"):
        deadline.count(8)
