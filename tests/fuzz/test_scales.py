"""Rewards and scores of any size: numbers or one line, never a library's warning."""

from dataclasses import replace

import numpy as np
from fuzzing import CASES, answer_or_one_line
from hypothesis import example, given
from hypothesis import strategies as st

from mse_lab.answers.statements import judge_run
from mse_lab.mse.regime import gain_shares
from mse_lab.report.advice_report import advice_text
from mse_lab.report.claims_report import claims_screen
from simulated import analysed, make_design

ESTIMATORS = ("vanilla", "grpo", "oracle", "grpo-std", "best-constant")
BINARY = make_design(np.random.default_rng(0), prompts=4)
GRADED = replace(BINARY, reward_PC=-BINARY.score_PCD[..., 0])

# Powers of ten of each prompt's rewards, or of its scores.
powers = st.tuples(*[st.integers(-320, 30)] * 4) | st.integers(-320, 30).map(
    lambda n: [n] * 4
)


def draw(design, rewards, scores):
    """Draw pools of four prompts, each scaled by powers of ten."""
    with np.errstate(all="ignore"):
        z, w = (10.0 ** np.array(one)[:, None] for one in (rewards, scores))
        scaled = replace(
            design,
            reward_PC=design.reward_PC * z,
            score_PCD=design.score_PCD * w[..., None],
        )
        return scaled.draw(np.random.default_rng(1), 16, 2, 8)


def answer(pools):
    """Put everything to the pools."""
    result = analysed(pools, [2, 4], estimators=ESTIMATORS, resamples=20)
    for table in result.tables.values():
        assert not np.isinf(table.select_dtypes(float)).any(axis=None)
    assert result.warnings is not None
    assert not np.isnan(gain_shares(result.moments)).any()
    claims_screen(judge_run(result))
    answer_or_one_line(lambda: advice_text(result.advise()))


@CASES
@given(st.sampled_from([BINARY, GRADED]), powers, powers)
@example(GRADED, [-160] * 4, [-50] * 4)
@example(GRADED, [24] * 4, [11] * 4)
@example(GRADED, [-26, 24, 0, -300], [-12, -13, 11, 0])
@example(BINARY, (20, -13, 2, -21), (-34, 0, -13, 6))
@example(BINARY, (19, -12, 3, -22), (-28, 0, -12, 11))
@example(BINARY, (18, -15, 1, -22), (-34, 0, -13, 6))
def test_pools_of_any_scale(design, rewards, scores):
    answer_or_one_line(answer, draw(design, rewards, scores))
