"""Arguments: slips of the paper that are shown on paper, and by no run.

Each is a row of its own kind, so that nobody takes it for a measurement.

Theorem 8. With steps beta/i the iterates' covariance Sigma/n solves, to first order in 1/n,
beta (Lambda Sigma + Sigma Lambda) - Sigma = beta^2 Gamma: the noise comes in times beta/i.

Assumption 5. mu <= L, so beta > 1/(2 mu) makes the first step beta/1 larger than 1/(2 L).

Table 2. Telling shares p and q apart at 95% takes 1.96^2 (p(1-p) + q(1-q)) / (p-q)^2
independent answers for each.

Appendix A. K3 = r - 1 - log r with r = pi_ref/pi, and grad r = -r W: grad K3 = W (1 - r).
"""

from collections.abc import Mapping

from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import Claim, Statement, judges

NOT_MEASURED = "an argument, not measured on this run"

# What is argued, the verdict, and the argument.
ARGUMENTS: Mapping[Statement, tuple[Verdict, str]] = {
    Statement(
        "Theorem 8 (covariance)",
        "The limit's covariance is Gamma_kl / (beta (lambda_k + lambda_l) - 1).",
        argued=True,
        short="the limit's covariance",
    ): (
        "fails",
        "beta^2 is missing: the noise comes into step i times beta/i. The limit was "
        "simulated with it and without (results/theory).",
    ),
    Statement(
        "Assumption 5 (steps beta/i)",
        "Steps beta/i with beta > 1/(2 mu) stay where the other assumptions hold.",
        argued=True,
        short="steps beta/i from the first on",
    ): (
        "undecided",
        "As mu <= L, the first step is above 1/(2 L), and may leave them at once. Steps "
        "beta/(i + i0) have the same limit and start small.",
    ),
    Statement(
        "Table 2 (best group sizes)",
        "At N = 1024, 2048 and 4096 the group sizes 64, 64 and 128 are the best on MATH.",
        argued=True,
        short="the best G on MATH",
    ): (
        "undecided",
        "One run each. To tell the best from the next at 95% takes 32,000, 195,000 and "
        "70,000 independent answers for each; MATH's test has 5,000 problems.",
    ),
    Statement(
        "Appendix A (K3 gradient)",
        "The gradient of the K3 penalty is W (1 - pi/pi_ref).",
        argued=True,
        short="the gradient of K3",
    ): (
        "fails",
        "K3 is r - 1 - log r with r = pi_ref/pi, and grad r = -r W, so its gradient is "
        "W (1 - pi_ref/pi): the ratio is the other way round.",
    ),
}


@judges(order=100)
def judge_arguments(run: MeasuredRun) -> list[Claim]:
    """Claim every argument, in the same words for every run."""
    return [
        statement.about(run).claim(NOT_MEASURED, verdict, reason)
        for statement, (verdict, reason) in ARGUMENTS.items()
    ]
