"""What moves rho: the texts of the dials, the law of tabular steps, a small run."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.regime import aggregate_place
from probes.dials import dials
from probes.dials.dials import Effort, Setting, collect, measure_dials
from probes.dials.sums import (
    MODULUS,
    SLIPS,
    TORN,
    Corpus,
    build_tokenizer,
    draw,
    draw_prompts,
    is_right,
    predict,
)
from simulated import make_design

ROOT = Path(__file__).resolve().parents[2]


def texts(corpus, count=400, seed=0):
    """Completions in words, each with the operands of its prompt."""
    tokens, tokenizer = draw(corpus, count, np.random.default_rng(seed)), build_tokenizer()
    written = tokenizer.batch_decode(tokens[:, -corpus.length :], skip_special_tokens=True)
    return list(zip(written, tokens[:, : corpus.steps + 1].tolist(), strict=True))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_slip_in_any_step_decides_the_reward(steps):
    """With up to four steps no slips can make up for one another."""
    corpus, rewards = Corpus(steps=steps), []
    for text, (first, *others) in texts(corpus):
        gaps = np.subtract(np.diff([first, *map(int, text.split())]), others) % MODULUS
        assert (gaps <= SLIPS).all()
        rewards.append(is_right(text, {"answers": [(first + sum(others)) % MODULUS]}))
        assert rewards[-1] == (not gaps.any())
    # Four standard errors of 400 draws at one half.
    assert abs(np.mean(rewards) - 0.5) < 0.1


@pytest.mark.parametrize("choices", [1, 2, 8])
def test_words_around_the_answer_decide_nothing(choices):
    corpus = Corpus(words=5, choices=choices)
    kinds = [set() for _ in range(corpus.words)]
    for text, operands in texts(corpus):
        words = text.split()
        assert len(words) == 6
        bare = words.pop(3)
        for prompt in ({"answers": [sum(operands)]}, {"answers": [sum(operands) + 1]}):
            assert is_right(text, prompt) == is_right(bare, prompt)
        for kind, word in zip(kinds, words, strict=True):
            kind.add(word)
    assert {len(kind) for kind in kinds} == {choices}


def test_several_answers_are_right_as_often_as_one():
    found = texts(Corpus(rights=4), 2000)
    answers = np.array([int(text) - sum(operands) for text, operands in found]) % MODULUS
    counts = np.bincount(answers, minlength=8)
    # Four standard errors of a share of one eighth.
    assert abs(counts / 2000 - 1 / 8).max() < 4 * (7 / 64 / 2000) ** 0.5
    for prompt in draw_prompts(Corpus(rights=4), 5, np.random.default_rng(0)):
        total = sum(map(int, prompt["problem"].split()[:2]))
        assert [is_right(str(total + off), prompt) for off in range(5)] == [1, 1, 1, 1, 0]


def test_a_torn_author_writes_one_wrong_answer_as_often_as_the_right_one():
    found = texts(Corpus(torn=True, accuracy=0.54), 4000)
    for torn, expected in ((True, (0.4, 0.4)), (False, (0.54, 0.115))):
        off = [int(text) - sum(one) for text, one in found if (one[0] < 10 * TORN) == torn]
        for kind, chance in enumerate(expected):
            error = (chance * (1 - chance) / len(off)) ** 0.5
            assert abs(np.mean([one == kind for one in off]) - chance) < 4 * error


def enumerated_place(corpus, temperature, cosine):
    """V and b* by listing all completions, their scores as vectors.

    A step's score is e - pi, by sqrt(c) in parameters that all steps share and by
    sqrt(1 - c) in its own; that of a word lies in its own.
    """
    kinds = []
    for row, share in zip(corpus.chances, (1 - TORN, TORN) if corpus.torn else (1,),
                          strict=True):  # fmt: skip
        chances = row ** (1 / temperature) / (row ** (1 / temperature)).sum()
        steps, word = corpus.steps, np.full(corpus.choices, 1 / corpus.choices)
        slots = [chances] * steps + [word] * corpus.words
        value = norm2 = right_norm2 = 0.0
        for picks in product(*(range(len(slot)) for slot in slots)):
            chance = np.prod([slot[pick] for slot, pick in zip(slots, picks, strict=True)])
            parts = [np.eye(len(slot))[pick] - slot
                     for slot, pick in zip(slots, picks, strict=True)]  # fmt: skip
            scaled = [np.sqrt(1 - cosine) * one for one in parts[:steps]]
            shared = np.sqrt(cosine) * np.sum(parts[:steps], axis=0)
            square = sum((one**2).sum() for one in [shared, *scaled, *parts[steps:]])
            reward = all(pick < corpus.rights for pick in picks[:steps])
            value += chance * reward
            norm2 += chance * square
            right_norm2 += chance * reward * square
        kinds.append((share * norm2, share * right_norm2, value))
    norm2, reward_norm2, value = np.transpose(kinds)
    return aggregate_place(
        Moments(norm2, reward_norm2, reward_norm2, value, value * (1 - value), 0 * value)
    )


@pytest.mark.parametrize(
    ("corpus", "temperature", "cosine"),
    [
        (Corpus(), 1.0, 0.0),
        (Corpus(), 0.5, 0.0),
        (Corpus(rights=3), 1.5, 0.0),
        (Corpus(words=2, choices=3), 1.0, 0.0),
        (Corpus(steps=4), 1.0, 0.0),
        (Corpus(steps=4, accuracy=0.2), 1.0, 1.0),
        (Corpus(steps=3, words=2, choices=2), 0.7, 0.4),
        (Corpus(torn=True), 0.5, 0.0),
    ],
    ids=["plain", "cold", "rights", "words", "steps", "shared", "all", "torn"],
)
def test_the_law_of_tabular_steps_is_that_of_enumeration(corpus, temperature, cosine):
    np.testing.assert_allclose(
        predict(corpus, temperature, cosine),
        enumerated_place(corpus, temperature, cosine),
        rtol=1e-9,
    )


def test_the_limits_at_one_value():
    """Many certain steps: b*/V = c (1 + 1/m) ln(1/V) / 2, m slips; many words: 1."""
    places = (
        predict(Corpus(steps=10_000)),
        predict(Corpus(steps=10_000), cosine=0.5),
        predict(Corpus(words=1000)),
    )
    shares = [place.best_baseline / place.value for place in places]
    np.testing.assert_allclose(shares, [0, 0.5 * 5 / 8 * np.log(2), 1], atol=1e-3)


COLUMNS = ["dial", "series", "level", "seed", "accuracy", "value", "best_baseline", "share",
           "share_low", "share_high", "rho", "rho_low", "rho_high", "vanilla_to_oracle",
           "vanilla_to_oracle_low", "vanilla_to_oracle_high", "line", "grpo_better_above",
           "prompts_above", "score_norm2", "checks_held", "tabular",
           "tabular_shared"]  # fmt: skip


def test_two_settings_of_a_small_model_and_no_work_twice(tmp_path, monkeypatch):
    """Two points of one training; then nothing is left to do, and the picture is drawn."""
    monkeypatch.setattr(dials, "RAW", tmp_path)
    monkeypatch.setattr(dials, "HIDDEN", 16)
    measured, measure = [], dials.measure
    monkeypatch.setattr(dials, "measure", lambda *a: measured.append(a) or measure(*a))
    effort, corpus = Effort(20, 3, 64, 64), Corpus(rights=4)
    some = [Setting(dial, "", "1", corpus) for dial in ("training", "rights")]
    some.append(Setting("training", "", "0.5", corpus, trained=0.5))
    for _ in range(2):
        measure_dials(some, 1, effort)
        assert len(measured) == 2
    table = collect(some, 1, effort)
    assert list(table) == COLUMNS
    assert table["checks_held"].all()
    assert (table["share_low"] < table["share"]).all()
    assert table["share"].nunique() == 2
    assert len(dials.compose(table).get_axes()) == 2


def test_the_committed_table_agrees_with_its_line():
    table = pd.read_csv(ROOT / "results/dials/table.csv")
    assert list(table) == COLUMNS
    assert len(table) == len(dials.SETTINGS) * dials.SEEDS
    assert table["checks_held"].all()
    worse = table["vanilla_to_oracle"] > 1
    assert (worse == (table["share"] > 1 / 2)).all()
    assert (worse == (table["rho"] > table["line"])).all()
    np.testing.assert_allclose(table["best_baseline"] / table["value"], table["share"])


def test_the_page_tells_the_pair_of_working_and_words_as_the_table_does():
    table = pd.read_csv(ROOT / "results/dials/table.csv", dtype={"level": str})
    page = " ".join((ROOT / "results/dials/README.md").read_text("utf-8").split())
    pair = table[(table["dial"] == dials.PAIR) & table["series"].str.contains("4 steps")]
    ends = ["vanilla_to_oracle", "vanilla_to_oracle_low", "vanilla_to_oracle_high"]
    for level, rows in pair.groupby("level"):
        told = [
            f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in rows[ends].values
        ]
        if level != "6":
            told = [one.partition(" ")[0] for one in told]
        assert " and ".join(told) in page, level


def test_the_interval_of_an_aggregates_baseline_covers_at_its_level():
    """Binomial at 0.999, with a small reference, whose noise in V is half of it."""
    rng, hits = np.random.default_rng(7), []
    for _ in range(4):
        design = make_design(rng, 30, (0.05, 0.95))
        place = aggregate_place(design.moments())
        for _ in range(75):
            found = dials.measure_baseline_share(design.draw(rng, 16, 8, 16), 0.9)
            hits.append(found.low <= place.best_baseline / place.value <= found.high)
    assert stats.binomtest(sum(hits), len(hits), 0.9).pvalue > 0.001


def test_an_aggregates_baseline_is_measured_at_its_place():
    pools = make_design(np.random.default_rng(2), 5).draw(
        np.random.default_rng(3), 32, 2, 8
    )
    place = aggregate_place(pool_moments(pools))
    found = dials.measure_baseline_share(pools, 0.95)
    assert found.value == pytest.approx(place.best_baseline / place.value, rel=1e-12)
