"""The figure: what stands where, and in which scale."""

import numpy as np
import pandas as pd

from mse_lab.studies.theory.figure import compose_theory
from mse_lab.studies.theory.study import Study

SHARES = np.linspace(0.1, 0.9, 5)


def law(estimator, steps, shift):
    points = {"gap": SHARES + shift, "runs": SHARES, "limit": SHARES / 2}
    return pd.DataFrame({"estimator": estimator, "steps": steps, **points})


def weights(bandit, weight, value):
    columns = {"bandit": bandit, "weight": weight, "group_size": [2, 3]}
    return pd.DataFrame({**columns, "relative": value})


def bounds(kind):
    known = {"gap": [0.1, 0.2], "low": 0.1, "high": 0.2, "bound": [1.0, 2.0]}
    return pd.DataFrame({"kind": kind, "steps": [0, 1], **known, "floor": 0.05})


def test_three_panels():
    tables = {
        "theorem_8": pd.concat(
            [law("grpo", 10, 0), law("grpo", 99, 1), law("oracle", 99, 2)]
        ),
        "corollary_9": pd.concat(
            [weights("two", "0", 1.0), weights("six", "0", 1.1), weights("six", "sum", 1.0)]
        ),
        "lemma_6": pd.concat([bounds("(a), constant step"), bounds("(b), falling")]),
    }
    first, second, third = compose_theory(Study([], tables)).axes
    # Of the longer runs alone: the limit as a line, the runs as marks.
    lines = [line.get_ydata()[0] for line in first.lines]
    assert lines == [SHARES[0] / 2, SHARES[0]] * 2
    assert "99 steps" in first.get_title()
    assert len(second.lines) == 3
    assert third.get_yscale() == "log"
    names = [text.get_text() for text in third.get_legend().get_texts()]
    assert names == ["constant step", "step β/(i + 200)", "their bounds", "(β/4) tr Γ"]
    heights = [line.get_ydata() for line in third.lines if len(line.get_ydata())]
    assert [list(one) for one in heights[:2]] == [[0.1, 0.2], [1.0, 2.0]]
