"""The study of the paper's statements: its bandits, their noise and limit are exact."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mse_lab.project import PROJECT as ROOT
from probes.studies import bandits, theory
from probes.studies.bandits import Rule, list_point
from probes.studies.theory import Limit, judge

BANDITS = {
    "opposed": bandits.opposed((0.79, 0.7), 3),
    "crossed": bandits.crossed((0.85, 0.8), 3),
    "worded": bandits.worded(bandits.opposed((0.7,), 2), 3),
    "surrounded": bandits.surrounded(),
}
each_bandit = pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS)


def somewhere(bandit):
    return 0.3 * np.cos(np.arange(bandit.features_PKD.shape[-1]))


@each_bandit
def test_gradient_and_hessian_are_those_of_the_value(bandit):
    """Central differences of 1e-4: off by some 1e-9 and 1e-7 of numbers of about 0.1."""
    theta, step = somewhere(bandit), 1e-4
    turns = step * np.eye(len(theta))
    up, down = (bandit.value(theta[:, None] + sign * turns) for sign in (1, -1))
    point = list_point(bandit, theta)
    np.testing.assert_allclose(
        point.gradients_PD.mean(0), (up - down) / 2 / step, atol=1e-8
    )
    ends = [[list_point(bandit, theta + sign * turn) for sign in (1, -1)] for turn in turns]
    slopes = [(one.gradients_PD - other.gradients_PD).mean(0) for one, other in ends]
    slopes = np.array(slopes) / 2 / step
    np.testing.assert_allclose(point.hessian_DD, slopes, atol=1e-6)


@each_bandit
def test_the_maximum_is_one(bandit):
    limit = Limit(bandit)
    np.testing.assert_allclose(limit.peak.gradients_PD.mean(0), 0, atol=1e-12)
    assert np.linalg.eigvalsh(limit.peak.hessian_DD).max() < 1e-12
    apart = np.random.default_rng(0).normal(0, 0.2, (len(limit.peak.theta_D), 50))
    near = limit.peak.theta_D[:, None] + apart
    assert (limit.gaps(near) > -1e-12).all()


@pytest.mark.parametrize("estimator", ["vanilla", "grpo", "oracle"])
@pytest.mark.parametrize("name", ["crossed", "surrounded"])
def test_drawn_estimates_have_the_mean_and_the_covariance_that_are_listed(estimator, name):
    """Of 20,000 draws, 4.5 standard errors: a false alarm in one of 5,000 runs of all."""
    bandit, runs, rule = BANDITS[name], 20_000, Rule(estimator, 2, 3)
    theta = somewhere(bandit)
    point, copies = list_point(bandit, theta), np.repeat(theta[:, None], runs, axis=1)
    drawn_DR = bandits.estimate(bandit, rule, copies, np.random.default_rng(1))
    apart_DR = drawn_DR - point.gradients_PD.mean(0)[:, None]
    products_ER = np.concatenate(
        [apart_DR, (apart_DR[:, None] * apart_DR).reshape(-1, runs)]
    )
    expected_E = np.concatenate([np.zeros(len(theta)), point.covariance(rule).ravel()])
    errors_E = stats.sem(products_ER, axis=1)
    assert (np.abs(products_ER.mean(1) - expected_E) < 4.5 * errors_E + 1e-12).all()


@pytest.mark.parametrize("estimator", ["vanilla", "grpo", "oracle"])
def test_listed_groups_have_the_covariance_of_the_formula(estimator):
    point = list_point(bandits.surrounded(), somewhere(bandits.surrounded()))
    _, within, pairs = point.noise(estimator)
    listed = theory.listed_covariance(point, estimator, 3)
    np.testing.assert_allclose(listed, within / 3 + pairs / 6, atol=1e-14)


@each_bandit
def test_the_limit_is_that_of_the_linear_recursion(bandit):
    """S <- (1 - eta H) S (1 - eta H) + eta^2 Cov, 100,000 steps of it."""
    limit = Limit(bandit)
    noise = limit.turned_DK.T @ limit.peak.covariance(Rule("grpo", 2, 4)) @ limit.turned_DK
    spread, count = np.zeros_like(noise), 100_000
    for i in range(1, count + 1):
        kept = 1 - limit.steps(i) * limit.lambda_K
        spread = kept[:, None] * spread * kept + limit.steps(i) ** 2 * noise
    roots = np.sqrt(limit.lambda_K)
    found = (count + theory.DELAY) * roots[:, None] * spread * roots / 2
    law = limit.law(limit.peak.covariance(Rule("grpo", 2, 4)))
    np.testing.assert_allclose(found, law, atol=2e-3 * np.abs(law).max())
    assert limit.weights(Rule("grpo", 2, 4)).sum() == pytest.approx(np.trace(law))


def test_the_constants_are_the_parts_of_the_mean():
    limit = Limit(bandits.surrounded())
    c1, c2, c3 = limit.constants
    for size in (2, 3, 6):
        mean = 12 * limit.weights(Rule("grpo", 12 // size, size)).sum()
        assert mean == pytest.approx(c1 * size + c2 + c3 / (size - 1))


def test_two_completions_make_1_plus_root_2_the_best_size():
    """Var(Z) E||W||^2 = (V(1-V))^2 ||f||^2 = ||g||^2, so c3 = 2 c1 at any maximum."""
    limit = Limit(bandits.opposed((0.9, 0.6), 4))
    assert theory.best_size(limit.constants) == pytest.approx(1 + 2**0.5)


@pytest.mark.parametrize("weights", [[1.0], [2.0, 2.0, 2.0], [0.1, 1.0], [0.3, 0.5, 2.0]])
def test_the_mixture_of_chi_squares(weights):
    """Against 20,000 draws: Kolmogorov-Smirnov at 0.001."""
    drawn = np.random.default_rng(2).chisquare(1, (20_000, len(weights))) @ weights
    test = stats.kstest(drawn, lambda points: theory.mixture_cdf(points, np.array(weights)))
    assert test.pvalue > 0.001


def test_a_fit_finds_the_size_of_its_own_law():
    sizes, errors = np.array(theory.SIZES, float), np.full(5, 0.01)
    found, error = theory.fit_best_size(0.1 * sizes + 2 + 1.6 / (sizes - 1), errors)
    assert found == pytest.approx(np.log(4))
    assert 0 < error < 1


def test_a_bound_of_a_quadratic_is_reached():
    """With L = mu it is E Delta itself: (1 - eta L)^2 Delta + L eta^2 M / 2."""
    box, gap = theory.Box(smooth=0.5, pull=0.5, noise=2.0), [3.0]
    for i in (1, 2, 3):
        gap.append((1 - 0.5 / i) ** 2 * gap[-1] + 0.5 * 2.0 / i**2 / 2)
    # The bound has 1 - 2 mu eta + L mu eta^2 = (1 - eta L)^2 for L = mu.
    np.testing.assert_allclose(box.bounds(lambda i: 1 / i, 3.0, 3), gap)


@pytest.mark.parametrize(
    ("measured", "error", "verdict"),
    [
        (1.05, 0.0, "holds"),
        (1.05, 0.03, "undecided"),
        (1.2, 0.02, "fails"),
        (0.8, 0.02, "fails"),
        (1.2, 0.2, "undecided"),
    ],
)
def test_verdicts(measured, error, verdict):
    assert judge("a", "b", measured, 1.0, error).verdict == verdict


def test_a_small_study_is_written_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(theory, "RUNS", 150)
    monkeypatch.setattr(theory, "STEPS", 30)
    assert theory.main(["--out", str(tmp_path / "new")]) == 0
    table = pd.read_csv(tmp_path / "new/findings.csv")
    assert list(table) == [
        *("statement", "quantity", "measured", "low", "high", "predicted", "verdict")
    ]
    assert len(capsys.readouterr().out.splitlines()) == len(table)
    assert (table["low"] <= table["measured"]).all()
    exact = table[(table["low"] == table["high"])].set_index("statement")["verdict"]
    assert (exact[exact.index.str.startswith("control")] == "fails").all()
    assert exact["Corollary 9, covariances"] == "holds"


def test_a_control_that_holds_is_told_by_the_exit_status(tmp_path, monkeypatch):
    one = judge("control: a", "b", 1.0, 1.0)
    monkeypatch.setattr(theory, "study", lambda *_: [one])
    assert theory.main(["--out", str(tmp_path)]) == 1


def test_the_committed_findings():
    """Every control fails; of the paper's statements these alone do."""
    table = pd.read_csv(ROOT / "results/theory/findings.csv").set_index("statement")
    controls = table.index.str.startswith("control")
    assert (table[controls]["verdict"] == "fails").all()
    assert set(table[~controls]["verdict"]) == {"holds", "fails", "premise fails"}
    assert [*table[~controls & (table["verdict"] == "fails")].index] == [
        "Theorem 8, grpo, Sigma as printed",
        "Theorem 7, the size of least MSE, a word of 8 unseen",
    ]
