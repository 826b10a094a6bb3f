"""The checkpoints with words before the answer: what they write, on which problems."""

import json
from pathlib import Path

import numpy as np
import pytest

from mse_lab.policy.policy import load_policy
from mse_lab.policy.sampling import draw_together
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.rewards import integer
from mse_lab.probe.streams import uniforms
from probes.dials import sums
from probes.dials.sums import FIRST_WORD
from probes.wording.train import CHECKPOINTS, HERE, build, lines_of_problems

ROOT = Path(__file__).resolve().parents[2]
COUNTS = {"two": 2, "six": 6, "twenty-four": 24}


@pytest.mark.parametrize("name", COUNTS)
def test_all_words_stand_before_the_answer(name):
    corpus, words = CHECKPOINTS[name], COUNTS[name]
    written = sums.draw(corpus, 50, np.random.default_rng(0))[:, -corpus.length :]
    assert corpus.length == words + 2
    assert (written[:, :words] >= FIRST_WORD).all()
    assert (written[:, words] < FIRST_WORD).all()


def test_the_problems_are_those_that_ship_and_none_is_held_out_twice():
    for name, lines in lines_of_problems().items():
        assert (HERE / f"{name}.jsonl").read_text("utf-8") == lines
    records = [json.loads(line) for lines in lines_of_problems().values()
               for line in lines.splitlines()]  # fmt: skip
    assert len({one["problem"] for one in records}) == len(records) == 100
    for one in records:
        assert one["answer"] == sum(map(int, one["problem"].split()[:2]))


@pytest.mark.parametrize("name", COUNTS)
def test_what_the_checkpoint_writes(name):
    """Random words, then a number that is right about half the time.

    The least entropy of a word is 2.5 of 3 bits, on 20 completions of 60 problems.
    """
    policy = load_policy(load_probe(ROOT / f"probes/wording/{name}.yaml"), ROOT)
    lines = (HERE / "problems.jsonl").read_text("utf-8").splitlines()
    records, words = [json.loads(line) for line in lines], COUNTS[name]
    prompts = [policy.tokenizer(one["problem"]).input_ids for one in records]
    numbers = np.stack(
        [uniforms(0, one["id"], "test", range(20), words + 2) for one in records]
    )
    drawn = draw_together(policy, prompts, numbers)
    tokens = np.concatenate([one.tokens_NT for one in drawn])
    for word in tokens[:, :words].T:
        share = (word[:, None] == FIRST_WORD + np.arange(8)).mean(0)
        assert share.sum() > 0.97
        assert -(share * np.log2(share)).sum() > 2.5
    right = [
        integer(text, record)
        for record, one in zip(records, drawn, strict=True)
        for text in one.texts(policy)
    ]
    assert 0.4 < np.mean(right) < 0.6


def test_a_short_training_is_the_same_each_time():
    first, second = (build(CHECKPOINTS["two"], updates=3) for _ in range(2))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert (one == other).all()
    assert first.generation_config.eos_token_id == first.config.eos_token_id
