"""Foreign code, a user's own and math-verify: an answer, or one line that names it."""

import sys
from contextlib import suppress

import numpy as np
import pytest
from fuzzing import CASES, TEXTS, answer_or_one_line
from hypothesis import example, given
from hypothesis import strategies as st

from mse_lab.data import mathematics
from mse_lab.data.prompts import Prompt
from mse_lab.data.rewards import load_reward, reward_completions
from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.estimators.groups import Groups

ONE = Groups(*np.ones((3, 2, 1, 4)), np.ones(2), np.ones((2, 1)))
PROMPT = Prompt("p1", "", "", {"id": "p1", "answer": 1})

ERRORS = [
    *("ValueError('a\\n\\x1b[2J')", "SystemExit(3)", "BaseException()", "GeneratorExit()"),
    *("StopIteration()", "ExceptionGroup('a\\nb', [ValueError(1)])", "RecursionError()"),
    *("MemoryError()", "BrokenPipeError()", "TimeoutError()", "Mute()", "type('\\n')"),
]  # fmt: skip
VALUES = [
    *("None", "'1'", "b'1'", "1j", "[1]", "float('nan')", "1e300", "10**400", "object()"),
    *("one.rewards_PRG.astype(str)", "one.rewards_PRG[0]", "one.no_such", "1", "theirs"),
    *("one.rewards_PRG * 1e200", "[[1], [1, 2]]", "Odd()", "True", "one"),
]  # fmt: skip
BEFORE = """\
class Mute(Exception):
    def __str__(self):
        raise SystemExit

class Odd:
    def __float__(self):
        raise SystemExit
    def __array__(self, *args, **kwargs):
        raise Mute

"""
PIECES = [
    *("9", "^", "{", "}", "!", "(", ")", r"\frac", r"\sqrt", r"\boxed{", "$", "x", "="),
    *("1000000000!", "9^9^9^9", r"\infty", r"\begin{pmatrix}", r"\text{(C)}", "0.5"),
]

statements = st.sampled_from(
    [f"raise {error}" for error in ERRORS] + [f"return {value}" for value in VALUES]
)
arguments = st.sampled_from(
    ["", "one", "one, prompt", "*args", "one, *, k: 1", "one, **kw"]
)
names = st.sampled_from(["k", "unbiased", "binary", "length", "smallest_group", "K"])
settings = st.dictionaries(names, st.none() | st.integers() | TEXTS | st.lists(TEXTS))
latex = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # Else modules of the same second and size are taken for the one before.
    monkeypatch.setattr("sys.dont_write_bytecode", True)


def use(folder, content, settings):
    """Load the module as a reward and as an estimator, and call what is found."""
    (folder / "theirs.py").write_bytes(content.encode("utf-8", "surrogatepass"))
    sys.modules.pop("theirs", None)
    reward = answer_or_one_line(load_reward, "theirs:theirs")
    if reward is not None:
        answer_or_one_line(reward_completions, reward, ["a", "b"], PROMPT)
    estimator = answer_or_one_line(find_estimator, {"name": "theirs:theirs", **settings})
    if estimator is not None:
        answer_or_one_line(estimator.weights, ONE)


@given(arguments, statements, settings)
@CASES
def test_any_function(tmp_path, arguments, statement, settings):
    text = f"{BEFORE}def theirs({arguments}):\n    {statement}\n"
    use(tmp_path, text, settings)


@given(st.sampled_from(list(ESTIMATORS)) | TEXTS, settings | st.dictionaries(TEXTS, TEXTS))
@CASES
def test_any_parameters_of_the_built_in_ones(name, settings):
    answer_or_one_line(find_estimator, {**settings, "name": name})


@given(latex | TEXTS, latex)
@example("9^9^9^9", "5")
@example("5", "1000000000!")
@CASES
def test_any_mathematics(text, answer):
    with pytest.MonkeyPatch.context() as patch, suppress(mathematics.GaveUp):
        patch.setattr(mathematics, "SECONDS", 0.2)
        assert mathematics.are_equal(text, answer) in (True, False, None)
