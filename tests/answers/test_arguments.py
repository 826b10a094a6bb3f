"""Arguments: each one's algebra against plain numbers."""

import numpy as np

from claimed_runs import draw
from mse_lab.answers.arguments import ARGUMENTS, NOT_MEASURED, judge_arguments


def test_the_limit_s_covariance_has_beta_squared():
    """C_{i+1} = (1 - b/i L) C_i (1 - b/i L) + (b/i)^2 Gamma: n C_n at n = 10,000."""
    beta, rates = 3.0, np.array([0.5, 1.0])
    gamma = np.array([[2.0, 0.5], [0.5, 1.0]])
    covariance = np.zeros((2, 2))
    for step in beta / np.arange(20, 10_000):
        kept = 1 - step * rates
        covariance = kept[:, None] * covariance * kept + step**2 * gamma
    without = gamma / (beta * np.add.outer(rates, rates) - 1)
    np.testing.assert_allclose(1e4 * covariance, beta**2 * without, rtol=0.02)


def test_the_gradient_of_k3():
    """Of log pi = theta_y - log sum exp theta, by differences; W = onehot(y) - pi."""
    theta, other, y = np.array([0.3, -0.2, 0.5]), np.array([0.2, 0.5, 0.3]), 1

    def softmax(logits):
        return np.exp(logits) / np.exp(logits).sum()

    def k3(logits):
        ratio = other[y] / softmax(logits)[y]
        return ratio - 1 - np.log(ratio)

    steps = 1e-6 * np.eye(3)
    found = [(k3(theta + step) - k3(theta - step)) / 2e-6 for step in steps]
    score = np.eye(3)[y] - softmax(theta)
    expected = score * (1 - other[y] / softmax(theta)[y])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not np.allclose(found, score * (1 - softmax(theta)[y] / other[y]), rtol=0.1)


def test_how_many_answers_would_tell_the_best_of_table_2_from_the_next():
    best_and_next = [(0.7817, 0.7753), (0.7819, 0.7793), (0.7757, 0.7713)]
    needed = [
        1.96**2 * (p * (1 - p) + q * (1 - q)) / (p - q) ** 2 for p, q in best_and_next
    ]
    np.testing.assert_allclose(needed, [32_000, 195_000, 70_000], rtol=0.02)
    [said] = [why for one, (_, why) in ARGUMENTS.items() if one.name.startswith("Table 2")]
    assert all(f"{count:,}" in said for count in (32_000, 195_000, 70_000))


def test_no_argument_is_taken_for_a_measurement():
    claims = judge_arguments(draw("quiet", sizes=(4, 8)))
    assert {one.about.kind for one in claims} == {"argument"}
    assert [one.statement for one in claims] == [one.name for one in ARGUMENTS]
    assert all(one.p_value is None and np.isnan(one.estimate.value) for one in claims)
    assert {one.measured for one in claims} == {NOT_MEASURED}
