"""Plan: what it foretells is what a run does, and it leaves nothing behind."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import run_mse
from models import write_checkpoint
from mse_lab.estimators import find_estimators
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.policy.completions import Completions
from mse_lab.probe.probe_files import load_probe, parse_probe
from mse_lab.run import plan_trial as trial
from mse_lab.run.memory import Ladder
from mse_lab.run.one_prompt import measure_prompt
from mse_lab.run.operations import Counter
from mse_lab.run.plan import load, plan_probe
from mse_lab.run.plan_costs import fit
from mse_lab.run.plan_repeats import Sample, expected_distinct, lengthened
from mse_lab.run.plan_widths import (
    Scale,
    error_moments,
    expect_widths,
    half_width,
    law_half_width,
)
from mse_lab.run.plan_words import plan_text
from mse_lab.run.plan_work import drawn_batches
from mse_lab.run.run_probe import run_probe
from mse_lab.scores.block import Scoring
from simulated import make_design


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    """One prompt in a trial of such a small model, if a test does not want more."""
    monkeypatch.setattr(trial, "LEAST_SECONDS", 0.0)


@pytest.fixture
def probe(write_probe):
    """A small probe with completions long enough to differ in length."""
    return load_probe(write_probe(sampling={"max_new_tokens": 6}))


@pytest.fixture
def planned(probe, tmp_path):
    return plan_probe("small", probe, tmp_path / "out", tmp_path)


def said(plan):
    """The plan in words, however its lines are broken."""
    return " ".join(plan_text(plan).split())


def everything_below(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_plan_writes_nothing(write_probe, tmp_path, capsys):
    path = write_probe()
    before = everything_below(tmp_path)
    assert run_mse.main(["plan", str(path), "--out", str(tmp_path / "out")]) == 0
    assert everything_below(tmp_path) == before
    printed = capsys.readouterr().out
    assert printed.startswith("small: 5 prompts of 1 to 4 tokens, 64 + 32 completions each")
    assert "\ntotal " in printed


def test_completions_and_tokens_are_the_run_s(planned):
    rows = {row.stage: row for row in planned.rows}
    assert rows["draw the reference pool"].completions == 5 * 64
    assert rows["reference gradients"].completions == 5 * 64
    assert rows["draw the replicate pool"].completions == 5 * 32
    assert rows["score: Gram products"].completions == 5 * 32
    assert planned.total.completions == 5 * (64 + 32)
    assert planned.total.seconds == pytest.approx(sum(row.seconds for row in planned.rows))
    # A prompt of 2.6 tokens on average; all but its last are read once a draw.
    drawn = rows["draw the reference pool"].tokens - 5 * 1.6
    assert 5 * 6 <= drawn < 5 * 64


def count_run(probe, root):
    """Operations of measuring every prompt, counted, and tokens that the model reads."""
    loaded, counter, read = load(probe, root), Counter(), []
    loaded.bench.policy.model.register_forward_pre_hook(
        lambda _, inputs: read.append(inputs[0].numel())
    )
    for prompt, tokens in zip(loaded.prompts, loaded.tokens, strict=True):
        with counter:
            measure_prompt(loaded.bench, prompt, tokens, first=False)
    return counter.total, sum(read)


LIMITS = {"whole blocks": 8.0, "parts of blocks": 0.0}

# Where the trial has met 16 completions of a prompt, and 64 are drawn at once.
TOLERANCE = {"whole blocks": 0.06, "parts of blocks": 0.15}


@pytest.mark.parametrize("limit", LIMITS)
def test_operations_are_those_of_the_run(limit, probe, tmp_path, monkeypatch):
    """Also where the trial stays small: pools, blocks and lengths are computed then."""
    monkeypatch.setattr(trial, "STAGE_SECONDS", LIMITS[limit])
    monkeypatch.setattr(trial, "LEAST_SECONDS", 60.0)
    monkeypatch.setattr(trial, "_positions", lambda *_: 6)
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    assert ("instead of 8" in said(plan)) == (limit == "parts of blocks")
    operations, tokens = count_run(probe, tmp_path)
    assert plan.total.operations == pytest.approx(operations, rel=0.06)
    assert plan.total.tokens == pytest.approx(tokens, rel=TOLERANCE[limit])


@pytest.fixture
def repeating(write_probe, tmp_path):
    """A probe of a model so sure of itself that a sixth of a half are distinct."""
    folder = write_checkpoint(tmp_path / "sure", hidden_size=64, intermediate_size=64)
    sampling = {"max_new_tokens": 6, "temperature": 0.5}
    model = {"path": str(folder), "device": "cpu"}
    return load_probe(write_probe(model=model, sampling=sampling))


@pytest.mark.parametrize("limit", LIMITS)
def test_repeated_completions_are_planned_once(limit, repeating, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "STAGE_SECONDS", LIMITS[limit])
    monkeypatch.setattr(trial, "LEAST_SECONDS", 60.0)
    monkeypatch.setattr(trial, "_positions", lambda *_: 6)
    plan = plan_probe("small", repeating, tmp_path / "out", tmp_path)
    operations, tokens = count_run(repeating, tmp_path)
    assert plan.total.operations == pytest.approx(operations, rel=TOLERANCE[limit])
    assert plan.total.tokens == pytest.approx(tokens, rel=TOLERANCE[limit])
    assert plan.total.completions == 5 * (64 + 32)
    assert "repeats: 17% of a half's completions are distinct, 3" in said(plan)


@pytest.mark.parametrize("block", [1, 4])
def test_parts_of_blocks_are_planned(block, repeating, tmp_path, monkeypatch):
    """Where a block of 8 does not fit, its distinct completions are scored in parts."""
    monkeypatch.setattr(Ladder, "__init__", start_at(Scoring(block, None, True)))
    monkeypatch.setattr(trial, "LEAST_SECONDS", 60.0)
    plan = plan_probe("small", repeating, tmp_path / "out", tmp_path)
    operations, _ = count_run(repeating, tmp_path)
    assert plan.total.operations == pytest.approx(operations, rel=0.06)


def test_half_a_pool_tells_how_much_repeats(repeating, tmp_path):
    """However few are drawn at once."""
    few = repeating.model_copy(
        update={"model": repeating.model.model_copy(update={"batch": 4})}
    )
    plan = plan_probe("small", few, tmp_path / "out", tmp_path)
    assert "up to 32 completions for a reference" in said(plan)


MULTISET = "aaabbcd"


@pytest.mark.parametrize("k", range(1, len(MULTISET) + 1))
def test_rarefaction_is_the_mean_of_all_subsets(k):
    counts = np.array([MULTISET.count(kind) for kind in sorted(set(MULTISET))])
    subsets = [len(set(chosen)) for chosen in combinations(MULTISET, k)]
    assert expected_distinct(counts, len(MULTISET), k) == pytest.approx(np.mean(subsets))


@given(st.lists(st.integers(1, 50), min_size=2, max_size=50), st.floats(1, 100))
def test_beyond_what_was_met_the_curve_goes_on(counts, factor):
    """Never fewer than are met, nor more than in proportion; never past what is new."""
    counts_J, n = np.array(counts), sum(counts)
    k = max(n, int(factor * n))
    found = expected_distinct(counts_J, n, k)
    assert len(counts) * (1 - 1e-9) <= found <= len(counts) * k / n * (1 + 1e-9)


# Words of the tokens 1 and 2, ended by 0; the last two are cut.
WORDS = ["10", "10", "120", "1220", "20", "1222", "1222"]


def some_completions():
    tokens = np.array([[*map(int, word.ljust(4, "0"))] for word in WORDS])
    lengths = np.array([len(word) for word in WORDS])
    ended = np.array([word.endswith("0") for word in WORDS])
    return Completions(tokens, lengths, np.zeros(len(WORDS)), ended)


@pytest.mark.parametrize("k", range(1, len(WORDS) + 1))
def test_batches_are_the_mean_of_all_subsets(k):
    """Distinct beginnings, and the longest."""
    drawn = some_completions()
    batches = [
        drawn_batches(drawn[np.array(chosen)], k)[0]
        for chosen in combinations(range(len(WORDS)), k)
    ]
    assert Sample(drawn).batch(k) == pytest.approx(np.mean(batches, axis=0))


def test_lengths_of_the_distinct():
    """Of as many as were met, of fewer on average, and of more."""
    sample, rng = Sample(some_completions()), np.random.default_rng(0)
    assert sorted(sample.lengths(7, rng)) == [2, 2, 3, 4, 4]
    sizes = [len(sample.lengths(4, rng)) for _ in range(2000)]
    assert np.mean(sizes) == pytest.approx(sample.distinct(4), abs=0.05)
    more = sample.lengths(14, rng)
    assert len(more) == round(sample.distinct(14)) > 5


@pytest.mark.parametrize("k", [1, 5, 20])
def test_what_never_repeats_is_as_many_as_are_drawn(k):
    drawn = some_completions()[np.array([0, 2, 3, 4, 5])]
    sample = Sample(drawn)
    assert not sample.repeats
    assert sample.distinct(k) == pytest.approx(k)
    assert len(sample.lengths(k, np.random.default_rng(0))) == k


def test_what_is_cut_goes_on_unlike_any_other():
    """Equal until they are cut, and one row until then; distinct beyond."""
    drawn = some_completions()
    longer = Sample(lengthened(drawn, 6, ~drawn.ended_N, np.arange(7)))
    assert longer.distinct(7) == pytest.approx(Sample(drawn).distinct(7) + 1)
    assert longer.met.lengths_N.tolist() == [2, 2, 3, 4, 2, 6, 6]
    # After the first four tokens one more row, after that one of each.
    assert longer.batch(7).rows == pytest.approx(Sample(drawn).batch(7).rows + 1 + 2)


def test_all_as_long_as_the_longest_repeat_as_before():
    sample = Sample(some_completions())
    assert set(sample.all_longest.met.lengths_N) == {4}
    assert sample.all_longest.distinct(5) == pytest.approx(sample.distinct(5))


def test_recomputed_layers_are_planned(probe, tmp_path, monkeypatch):
    """One more forward pass of them: three passes' worth for two."""
    monkeypatch.setattr(Ladder, "__init__", start_at(Scoring(8, None, True)))
    whole = plan_probe("small", probe, tmp_path / "out", tmp_path)
    monkeypatch.setattr(Ladder, "__init__", start_at(Scoring(8, 4, True)))
    layered = plan_probe("small", probe, tmp_path / "out", tmp_path)
    passes = [operations_of(one, "score: forward and backward") for one in (whole, layered)]
    assert passes[1] / passes[0] == pytest.approx(3 / 2, abs=0.2)
    assert "layer by layer, each run once more for 4 completions" in said(layered)


def operations_of(plan, stage):
    (row,) = [row for row in plan.rows if row.stage == stage]
    return row.operations


def start_at(how):
    """Make a ladder start at a way of scoring, if it has it."""
    begin = Ladder.__init__

    def start(self, ways, takes, room):
        begin(self, ways, takes, room)
        if how in ways:
            self.place = ways.index(how)

    return start


def test_norms_only_are_said_to_be(probe, tmp_path, monkeypatch):
    monkeypatch.setattr(Ladder, "__init__", start_at(Scoring(4, None, True)))
    text = said(plan_probe("small", probe, tmp_path / "out", tmp_path))
    assert "norms only: a block of 8 does not fit, only 4 at a time" in text
    assert "G = 8" not in text
    assert "by the exact law, at any G: oracle" in text


def test_json(write_probe, tmp_path, capsys):
    path = write_probe()
    assert run_mse.main(["plan", str(path), "--json", "--out", str(tmp_path / "out")]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan["probe"] == "small"
    assert plan["total"]["completions"] == 5 * 96
    assert plan["seconds_low"] < plan["total"]["seconds"] < plan["seconds_high"]
    assert set(plan["half_widths"]["mse"]) == {"oracle", "vanilla"}


BAD = {
    "unknown key": ({"pol": {}}, "unknown key pol; did you mean pool?"),
    "no folder": ({"model": {"path": "no/such/folder"}}, "no/such/folder: no such folder"),
    "unknown estimator": ({"estimators": ["grop"]}, "unknown grop; did you mean grpo?"),
    "failing reward": ({"reward": "math:sqrt"}, "failed on prompt"),
    "width": ({"interval": {"width": 0}}, "interval.width = 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_are_the_run_s(case, write_probe, tmp_path, capsys):
    changes, message = BAD[case]
    words = ["plan", str(write_probe(**changes)), "--out", str(tmp_path / "out")]
    assert run_mse.main(words) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


def test_supplied_completions_are_not_drawn(write_probe, tmp_path, supplied_file):
    probe = load_probe(write_probe(completions=supplied_file))
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    rows = {row.stage: row for row in plan.rows}
    assert rows["read the reference pool"].operations == 0
    assert rows["read the reference pool"].completions == 5 * 64
    assert rows["examine supplied completions"].seconds > 0
    assert rows["reference gradients"].operations > 0


@pytest.fixture
def supplied_file(tmp_path):
    """Completions of the small probe, drawn elsewhere: no law of their own is claimed."""
    generator = np.random.default_rng(0)
    path = tmp_path / "drawn.jsonl"
    with path.open("w") as file:
        for prompt in range(5):
            for _ in range(96):
                tokens = [int(generator.integers(1, 4)), 0]
                file.write(json.dumps({"prompt": f"p{prompt}", "tokens": tokens}) + "\n")
    return str(path)


def test_an_adapter_s_parameters_count_alone(write_probe, tmp_path, planned):
    pytest.importorskip("peft")
    path = write_probe(sampling={"max_new_tokens": 6})
    probe = load_probe(path, ["model.adapter={rank: 2}"])
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    # Of 2 layers: q, o and the MLP's three 2 x (8 + 8) each, k and v 2 x (8 + 4).
    assert "416 parameters count" in plan.heading[0]
    stage = "score: Gram products"
    assert operations_of(plan, stage) < operations_of(planned, stage)


def test_a_finished_run_tells_the_widths(write_probe, tmp_path):
    """Not that of another model, though, nor one that is not finished."""
    probe, folder = load_probe(write_probe()), tmp_path / "out"
    run_probe("small", probe, folder, tmp_path, fresh=False)
    larger = write_probe(pool={"reference": 128, "replicate": 64})
    plan = plan_probe("small", load_probe(larger), folder, tmp_path)
    assert plan.widths_from == "the finished run's 5 prompts"
    assert "belongs to another configuration: run will ask for --fresh" in said(plan)
    plan = plan_probe("small", probe, folder, tmp_path)
    assert "is finished: run leaves it as it is" in said(plan)
    hotter = write_probe(sampling={"temperature": 2.0, "max_new_tokens": 2})
    plan = plan_probe("small", load_probe(hotter), folder, tmp_path)
    assert plan.widths_from.startswith("the trial's scores")


DESIGN = make_design(np.random.default_rng(0), prompts=20)
SCALE = Scale(prompts=20, reference=200, replicate=128)


def simulate(name, size, runs=200):
    """Standard deviation of an aggregate MSE over simulated runs, relative."""
    rng, found = np.random.default_rng(1), []
    (estimator,) = find_estimators([name], [size])
    for _ in range(runs):
        pools = DESIGN.draw(rng, SCALE.reference, SCALE.replicate // 32, 32)
        found.append(measure_errors(pools, [estimator], [size])[Key(name, size)].mean())
    return np.std(found, ddof=1) / np.mean(found)


@pytest.mark.parametrize("size", [2, 8, 32])
@pytest.mark.parametrize("name", ["oracle", "vanilla"])
def test_widths_are_those_of_simulated_runs(name, size):
    """Within 5 standard errors of 200 runs' spread; the moments are those of many pools."""
    pools = DESIGN.draw(np.random.default_rng(2), 4000, 64, 32)
    width = half_width(error_moments(pools, name), size, SCALE, 0.95) / 1.96
    assert width == pytest.approx(simulate(name, size), rel=5 / np.sqrt(2 * 200))


def test_widths_from_few_completions():
    """A block of eight of each prompt tells the widths, not their noise: within a fifth."""
    rng = np.random.default_rng(3)
    few = [
        half_width(error_moments(DESIGN.draw(rng, 64, 1, 8), "oracle"), 8, SCALE, 0.95)
        for _ in range(50)
    ]
    many = error_moments(DESIGN.draw(rng, 4000, 64, 32), "oracle")
    assert np.mean(few) == pytest.approx(half_width(many, 8, SCALE, 0.95), rel=0.2)


def expected(replicate, reference=800, width=0.1, replicates=True):
    values = {
        "model": {"path": "m"},
        "prompts": {"source": "p"},
        "pool": {"reference": reference, "replicate": replicate},
        "group_sizes": [2, 8, 32],
        "interval": {"width": width},
    }
    pools = DESIGN.draw(np.random.default_rng(2), 4000, 16, 32)
    return expect_widths(pools, parse_probe(values, "test"), 20, replicates=replicates)


def test_warned_of_pools_too_small_and_told_what_suffices():
    found = expected(64)
    assert not found.suffice
    assert found.widest[2] == 32
    key, count = found.remedies[0].split("=")
    assert key == "pool.replicate"
    assert expected(int(count)).suffice
    assert not expected(int(count) - 32).suffice
    prompts = int(found.remedies[1].split()[0])
    assert prompts > 20
    shrunk = found.widest[0] * np.sqrt(20 / prompts)
    assert shrunk <= 0.1 < found.widest[0] * np.sqrt(20 / (prompts - 1))


def test_warned_of_a_reference_too_small():
    """Where the reference's noise alone is too wide, replicates would not help."""
    found = expected(64, reference=8)
    first, second = found.remedies[0].split(" with ")
    assert first.startswith("pool.reference=")
    sizes = int(second.split("=")[1]), int(first.split("=")[1])
    assert expected(*sizes).suffice
    assert not expected(sizes[0], sizes[1] // 2).suffice


def test_not_warned_of_pools_large_enough():
    assert expected(64, width=0.9).suffice
    assert not expected(64, width=0.9).remedies


def test_laws_are_narrower_than_replicates():
    pools = DESIGN.draw(np.random.default_rng(2), 4000, 16, 32)
    moments = error_moments(pools, "oracle")
    assert law_half_width(moments, SCALE, 0.95) < half_width(moments, 32, SCALE, 0.95) / 2
    assert not expected(64, replicates=False).mse


def test_lengths_that_the_trial_cut_count_as_the_longest(probe, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "_positions", lambda *_: 2)
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    assert "what it cut is taken to be so long" in said(plan)


def test_single_completions_tell_no_widths(probe, planned):
    """Nor is anything wanted of them; the mean of one takes all of it away."""
    pools = DESIGN.draw(np.random.default_rng(2), 4000, 16, 1)
    found = expect_widths(pools, probe, 20, replicates=True)
    assert not found.known
    assert found.suffice
    unknown = "do not tell how wide: they are single completions, or each prompt's have one"
    assert unknown in said(replace(planned, widths=found))


def one_reward(text, prompt):
    return 1.0


def test_equal_rewards_tell_no_widths(write_probe, tmp_path):
    probe = load_probe(write_probe(reward="test_plan:one_reward"))
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    assert "or each prompt's have one reward" in said(plan)


def test_steps_and_operations_are_told_apart():
    """Five seconds a step and two an operation, from sizes that differ."""
    found = fit([[1, 10], [2, 10], [1, 1000]], [25, 30, 2005])
    assert found == pytest.approx([5, 2])
