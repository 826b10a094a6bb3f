"""The study of trainings: TRL's steps are Algorithm 1's, runs resume, the law is judged."""

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from toy import make_groups
from trl import GRPOTrainer

from enumerated import as_completions
from log_makers import write_lines
from models import draw
from mse_lab.data.prompts import load_prompts
from mse_lab.data.streams import uniforms
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.policy.completions import Completions
from mse_lab.project import PROJECT as ROOT
from mse_lab.trl.baseline import Baseline
from plain_scores import autograd_scores, plain_scores
from probes.studies import training
from probes.studies.along import Along, Watch
from probes.studies.training_design import (
    Arm,
    Run,
    Settings,
    Trained,
    load_settings,
    runs_of,
)
from probes.studies.training_law import (
    Constants,
    Sums,
    fit_power,
    judge,
    judge_arms,
    predict,
    ratio_over_seeds,
    read_all_constants,
)
from probes.studies.training_runs import (
    AfterSteps,
    ByScore,
    Task,
    make_trainer,
    mean_chance,
    train,
    trainer_class,
)
from trl_training import spread

# Of the libraries about each other.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

STUDIES = {
    "tiny-base": "training-law",
    "smollm2-icl": "training-law-smollm2",
    "advised-size": "advised-size",
}
# A study that still runs has no comparison.
STUDIES |= {
    file.parent.name.removeprefix("training-"): file.parent.name
    for file in sorted(ROOT.glob("results/training-baseline-*/comparison.csv"))
}
ETA = 0.5
ARM = {
    "optimiser": "sgd",
    "completions_per_step": [8],
    "group_sizes": [2, 4],
    "step_sizes": [0.1, 0.2, 0.4],
}


def values(**changes):
    base = {"completions_per_step": 8, "group_size": 4}
    given = {"probe": "tiny/base", "advice": "results/tiny/base/advice.json", "base": base}
    given |= {"steps": [1, 3], "seeds": 4, "completions": 4, "arms": [ARM]}
    return given | changes


@pytest.fixture
def settings_of(write_probe, checkpoint):
    """Return a function that makes settings on a checkpoint of four tokens in float64."""
    model = {"path": str(checkpoint), "device": "cpu", "dtype": "float64"}
    sampling = {"max_new_tokens": 3, "temperature": 0.8}
    probe = write_probe(model=model, sampling=sampling)
    return lambda **changes: Settings(**values(probe=str(probe), **changes))


# Steps.


def rewarded(text, _):
    return spread([text])[0]


class Watched:
    """Carries out a run of one step; keeps what it drew, and what it changed."""

    def __init__(self, settings, run):
        self.task, self.looks, self.size = Task(settings), [], run.group_size
        self.task.reward = rewarded
        callbacks = [AfterSteps(settings.steps, self.look)]
        trainer = make_trainer(self.task, run, "unused", callbacks=callbacks)
        self.look(trainer.model)
        trainer.train()
        self.drawn, self.estimator = trainer._drawn, run.estimator

    def look(self, model):
        flat = [one.detach().flatten() for one in model.parameters()]
        self.looks.append(torch.cat(flat).clone())

    @property
    def step(self):
        return self.looks[1] - self.looks[0]

    def estimate(self):
        """(1/N) sum w_i W_i, by autograd and the weights of the package's estimator."""
        index, tokens, rewards = self.drawn.values()
        policy, shape = self.task.policy, (-1, 1, self.size)
        own = [Completions.of_each([np.array(one)], 3, [0.0], bool) for one in tokens]
        prompts = [self.task.tokens[prompt] for prompt in index]
        pairs = zip(own, prompts, strict=True)
        scores = np.concatenate([autograd_scores(policy, *pair) for pair in pairs])
        norms2 = np.square(scores).sum(1).reshape(shape)
        lengths = np.array([*map(len, tokens)]).reshape(shape)
        rewards = np.array(rewards).reshape(shape)
        groups = make_groups(rewards, lengths, norms2, np.nan, np.nan, np.nan)
        weights = find_estimator(self.estimator).weights(groups).flatten()
        return torch.from_numpy(weights @ scores / len(scores))


@pytest.mark.parametrize(
    ("estimator", "size"), [("grpo", 2), ("vanilla", 1), ("best-constant-loo", 4)]
)
def test_a_step_is_algorithm_1s(settings_of, estimator, size):
    settings = settings_of(steps=[1])
    found = Watched(settings, Run("sgd", estimator, 8, size, ETA, 3))
    expected = found.estimate()
    assert expected.norm() > 1e-3
    assert (found.step / ETA - expected).norm() < 1e-6 * expected.norm()


def test_adamws_step_size_is_its_learning_rate(settings_of):
    """Its first step is the rate in every coordinate that has a gradient."""
    run = Run("adamw", "grpo", 8, 4, 0.01, 3)
    moved = Watched(settings_of(steps=[1]), run).step.abs()
    assert moved.max() == pytest.approx(0.01, rel=1e-3)


def test_prompts_that_trl_reads_otherwise_are_refused(settings_of):
    task = Task(settings_of(steps=[1]))
    trainer = make_trainer(task, Run("sgd", "grpo", 8, 4, ETA, 3), "unused")
    task.tokens = [[*tokens, 1] for tokens in task.tokens]
    with pytest.raises(InputError, match="TRL reads other tokens"):
        trainer.train()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"alpha": 0.3, "lam": 0.5}, Baseline(0.3, 0.5)),
        ({"weights": "logits", "over": "batch"}, Baseline(weights="logits", over="batch")),
        ({"weights": "score"}, Baseline(weights="logits", over="group")),
        ({"own": True}, None),
    ],
    ids=str,
)
def test_an_arm_trains_with_its_baseline(how, expected):
    made = trainer_class(Trained(**how), 4)
    assert (getattr(made, "baseline", None), getattr(made, "size", 4)) == (expected, 4)
    assert issubclass(made, ByScore) == (how.get("weights") == "score")


def test_in_an_epoch_every_prompt_comes_once(settings_of):
    task, drawn = Task(settings_of(steps=[1, 2], epochs=True)), []
    run = Run("sgd", "vanilla", len(task.prompts) // 2, 1, ETA, 3)
    look = AfterSteps([1, 2], lambda _: drawn.extend(trainer._drawn["index"]))
    trainer = make_trainer(task, run, "unused", callbacks=[look])
    trainer.train()
    assert len({*drawn}) == len(drawn) == len(task.prompts) // 2 * 2
    assert drawn != sorted(drawn)  # By this seed.


def test_held_out_prompts_are_those_not_trained_on(settings_of, tmp_path):
    rows = [{"id": f"held-{at}", "problem": f"1 {at}", "answer": 2} for at in (1, 2, 3)]
    file = write_lines(tmp_path / "held.jsonl", rows)
    task = Task(settings_of(steps=[1], held_out=str(file), completions=16))
    task.reward = rewarded
    texts = [{one.text for one in prompts} for prompts, _ in task._sets]
    assert not texts[0] & texts[1]
    assert texts[1]
    found = train(Run("sgd", "grpo", 8, 4, ETA, 3), task)
    assert len(found) == 4
    assert found[:1] + found[2:3] == task.before(3)


def test_the_exact_chance_of_an_answer_is_that_of_its_tokens(settings_of):
    """As the probe draws them, at its temperature; there a prompt at a time."""
    policy = Task(settings_of()).policy
    assert policy.temperature != 1
    prompts, ends = [[1, 2, 3], [1, 3, 2], [1, 2, 2, 3]], [[2, 1], [3], [1, 1, 0]]
    log_probs = [
        plain_scores(policy, as_completions([end]), prompt)[1]
        for prompt, end in zip(prompts, ends, strict=True)
    ]
    with torch.no_grad():
        found = mean_chance(policy.model, prompts, ends, policy.temperature)
    assert found == pytest.approx(np.exp(log_probs).mean(), rel=1e-6)


def test_a_token_ends_completions_in_the_place_of_a_stop_string(settings_of):
    task = Task(settings_of(steps=[1], end="1"))
    [end] = task.policy.tokenizer.encode("1", add_special_tokens=False)
    trainer = make_trainer(task, Run("sgd", "grpo", 64, 4, ETA, 3), "unused")
    trainer.train()
    assert any(end in tokens for tokens in trainer._drawn["tokens"])
    assert all(end not in tokens[:-1] for tokens in trainer._drawn["tokens"])


def test_a_diverged_run_is_worth_nothing(settings_of, monkeypatch):
    def diverge(_):
        torch.multinomial(torch.full((2,), torch.nan), 1)

    monkeypatch.setattr(GRPOTrainer, "train", diverge)
    task = Task(settings_of())
    assert train(Run("sgd", "grpo", 8, 4, 1e5, 0), task)[1:] == [0.0, 0.0]


# Settings and prediction.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arms": [ARM | {"group_sizes": [3]}]}, "3 does not divide 8"),
        ({"arms": [ARM | {"group_sizes": [1]}]}, "grpo needs groups of two or more"),
        ({"arms": [ARM | {"estimator": "grp"}]}, "no baseline grp; did you mean grpo?"),
        ({"baselines": {"a": {"alpha": "much"}}}, "baselines.alpha = 'much'"),
        ({"steps": [3, 1]}, "each must be larger than the last"),
        ({"seed": 4}, "unknown key seed; did you mean seeds?"),
        ({"probe": "tiny/bse"}, "no probe tiny/bse; did you mean tiny/base?"),
        ({"probe": "smollm2/icl"}, "TRL knows no sampling.stop"),
        ({"advice": "results/tiny/base/checks.json"}, "no advice of mse_lab"),
        ({"advice": "nowhere.json"}, "nowhere.json"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_used_is_refused_in_a_line(changes, said, tmp_path, capsys):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(values(**changes)))
    assert training.main([str(path), "--out", str(tmp_path / "out")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "out/runs.csv").exists()


@pytest.mark.parametrize("name", STUDIES)
def test_a_committed_study_goes_on_to_the_committed_tables(name):
    """Its runs are not refused as those of other settings, and its tables are of them."""
    settings = load_settings(ROOT / f"probes/studies/{name}.yaml")
    folder = ROOT / "results" / STUDIES[name]
    predicted = pd.read_csv(folder / "prediction.csv")
    runs = training.RunsFile(folder / "runs.csv", settings).read()
    tables = dict(zip(("comparison", "law"), judge(runs, settings, predicted), strict=True))
    for unseen, by in training.UNSEEN.items() if settings.held_out else ():
        tables[unseen.removesuffix(".csv")], _ = judge(
            runs, settings, predicted, "unseen", by
        )
    for table, found in tables.items():
        expected = pd.read_csv(folder / f"{table}.csv")
        found = found.reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected, rtol=1e-8, check_dtype=False)
    prompts = len(load_prompts(settings.load_probe().prompts, ROOT))
    again = predict(settings, read_all_constants(settings, prompts))
    pd.testing.assert_frame_equal(again, predicted, rtol=1e-8, check_dtype=False)


def test_predictions_by_hand():
    """N ||g||^2 = 16: 1 + (2 4 + 5 + 9/3)/16 = 2, 1 + (2 2 + 5 + 9)/16 = 2.125."""
    constants = Constants(2.0, {"grpo": 5.0, "vanilla": 7.0}, 9.0, 2.0)
    adamw = ARM | {"optimiser": "adamw"}
    table = predict(Settings(**values(arms=[ARM, adamw])), constants)
    assert table["one_plus_error"].tolist() == [2.125, 2.0, 2.125, 2.0]
    assert table["predicted_gain_ratio"].tolist() == [2 / 2.125, 1.0] * 2
    assert table["predicted_steps_ratio"][0] == 2.125 / 2
    roots = table["predicted_step_size_ratio"].to_numpy()[[0, 2]]
    np.testing.assert_allclose(roots, [2 / 2.125, (2 / 2.125) ** 0.5])
    assert constants.one_plus_error(Arm("sgd", "vanilla", 8, 1)) == 1 + (2 + 7) / 16
    # 1 + (c1 G + within + lambda^2 c3/(G-1))/(N |g|^2), TRL's own by its noise scale.
    named = constants._replace(lams={"vanilla": 0.5}, own=32.0)
    assert named.one_plus_error(Arm("sgd", "vanilla", 8, 4)) == 1 + (8 + 7 + 0.75) / 16
    assert named.one_plus_error(Arm("sgd", "yours", 8, 8)) == 5.0


def test_a_baselines_error_is_that_of_its_prompts():
    """The mean over prompts of A - 2 b B + b^2 S - |g|^2 at b = alpha + lambda V."""
    draws = np.random.default_rng(3)
    a, b, s, gamma, v = draws.uniform(0.5, 2, (5, 6))
    oracle = a - 2 * v * b + v**2 * s - gamma
    columns = {"value": v, "score_norm2": s, "best_baseline": b / s}
    sums = Sums.of(pd.DataFrame(columns | {"trace_oracle": oracle}))
    for alpha, lam in [(0.0, 0.0), (0.3, 0.0), (0.0, 1.0), (0.4, -0.7)]:
        by = alpha + lam * v
        expected = np.mean(a - 2 * by * b + by**2 * s - gamma)
        assert sums.within(alpha, lam) == pytest.approx(expected, rel=1e-12)
    assert sums.within(0.0, 1.0) == pytest.approx(oracle.mean(), rel=1e-12)


def test_the_power_of_a_law_is_found():
    """Gains 1/x^2 that seeds scale alike; gains below zero have none."""
    errors = np.array([1.5, 2.0, 4.0, 8.0])
    alike = np.random.default_rng(5).uniform(0.5, 1.5, (8, 1)) / errors**2
    np.testing.assert_allclose(fit_power(alike, errors), [-2, -2, -2])
    assert np.isnan(fit_power(alike - 1, errors)).all()


def test_other_seeds_are_counted_from_the_first():
    settings = Settings(**values(first_seed=10))
    assert {run.seed for run in runs_of(settings)} == {10, 11, 12, 13}


# Runs.


def test_no_run_is_trained_twice_however_a_start_ends(tmp_path, monkeypatch, capsys):
    """The first one is killed at its sixth run, while it writes the fifth.

    Trainings without TRL are counted; they gain what the law says.
    """
    counted, killed = [], [5]

    def train(run, task):
        if len(counted) in killed:
            killed.clear()
            raise KeyboardInterrupt
        counted.append(run)
        steps = np.array([0, *task.settings.steps])
        return [*(0.4 + 0.01 * steps * run.step_size * run.group_size)]

    monkeypatch.setattr(training, "train", train)
    path, out = tmp_path / "study.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(values()))
    words, runs = [str(path), "--out", str(out)], out / "runs.csv"
    assert training.main(words) == 130
    assert (out / "prediction.csv").stat().st_size
    runs.write_bytes(runs.read_bytes()[:-30])
    assert training.main(words) == 0
    assert counted.pop(5) == counted[4]  # The row that was cut.
    assert counted == runs_of(load_settings(path))
    assert len(pd.read_csv(runs)) == 24
    assert training.main([*words, "--so-far"]) == 0
    assert len(counted) == 24
    for name in ("comparison.csv", "training.png"):
        assert (out / name).stat().st_size
    path.write_text(yaml.safe_dump(values(completions=5)))
    assert training.main(words) == 2
    assert "of other settings; name another folder" in capsys.readouterr().err


def test_a_run_is_the_same_after_another_one(settings_of):
    """Nothing of a run is left in the task: not its weights, not its optimiser's states."""
    run, task = Run("adamw", "grpo", 8, 4, 0.1, 1), Task(settings_of())
    task.reward = rewarded
    first, other = train(run, task), run._replace(step_size=0.3, seed=2)
    train(other, task)
    assert train(run, task) == first
    assert len({*first}) > 1


def test_a_training_that_is_watched_is_the_same(settings_of):
    """And a look has the best baseline of the policy as it is then."""
    named = {"a": {"alpha": 0.2, "lam": 0.3}}
    run, task = Run("sgd", "a", 8, 4, 0.3, 1), Task(settings_of(baselines=named))
    along = Along(study="", step_size=0.3, seeds=[1], every=2, completions=144)
    ends = []
    for callbacks in ([], [watching := Watch(task, run, along)]):
        task.restart()
        trainer = make_trainer(task, run, "unused", callbacks=callbacks)
        trainer.train()
        ends.append([*trainer.model.parameters()])
    assert all(map(torch.equal, *ends))
    rows = pd.DataFrame(watching.rows)
    assert [*rows.step] == [0, 2]
    assert rows.alpha.nunique() == 2


def test_j_is_that_of_completions_drawn_one_prompt_at_a_time(settings_of):
    task, means = Task(settings_of(completions=16)), []
    task.reward = rewarded
    for prompt, tokens in zip(task.prompts, task.tokens, strict=True):
        numbers = uniforms(task.probe.seed, prompt.id, "evaluation 5", range(16), 3)
        drawn = draw(task.policy, tokens, numbers, prompt.id)
        texts = drawn.texts(task.policy)
        means.append(np.mean([rewarded(text, None) for text in texts]))
    assert task.values(5)[0] == pytest.approx(np.mean(means), rel=1e-12)
    assert task.values(5) != task.values(6)


# What two arms gain at three rates, in truth.
GAINS = {
    Arm("adamw", "constant", 64, 1): (0.08, 0.1, 0.11),
    Arm("adamw", "grpo", 64, 8): (0.05, 0.06, 0.055),
}


@pytest.mark.parametrize(
    ("seeds", "apart", "common"), [(8, 0.02, 0.01), (12, 0.01, 0.005), (12, 0.03, 0.02)]
)
def test_the_interval_of_a_ratio_of_gains_covers(seeds, apart, common):
    """Of the ratio at the rates chosen; in 90% of 200 studies or more, where 95 is said."""
    rng, held = np.random.default_rng(0), 0
    columns = [*Arm._fields, "step_size", "seed", "step_0", "step_12"]
    for _ in range(200):
        common_S = rng.normal(0, common, seeds)
        rows = [
            (*arm, rate, seed, 0.0, gain)
            for arm, means in GAINS.items()
            for rate, mean in enumerate(means)
            for seed, gain in enumerate(mean + common_S + rng.normal(0, apart, seeds))
        ]
        judged = judge_arms(pd.DataFrame(rows, columns=columns), [12], "step", "step")
        top, base = (
            np.mean([means[int(rate)] for rate in judged[arm].chosen])
            for arm, means in GAINS.items()
        )
        _, low, high = ratio_over_seeds(*(judged[arm].gains for arm in GAINS))
        held += low <= top / base <= high
    assert held >= 180
