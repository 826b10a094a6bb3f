"""Built-in rewards: what each takes for the answer, what it must not; and mathematics."""

import datetime
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from itertools import product
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mse_lab.data import mathematics as comparisons
from mse_lab.data.prompts import Prompt
from mse_lab.data.rewards import (
    contains,
    exact,
    gsm8k,
    integer,
    load_reward,
    mathematics,
    reward_completions,
    try_reward,
)
from mse_lab.errors import InputError

LONG = 5000 * "9"
# Reward -> reference answer -> completions that are right, and those that are not.
JUDGED = {
    integer: {
        165: (["165", "The answer is 165.", "11 * 15 = 165"], ["165 or 166", "", "none"]),
        "165": (["165"], ["-165"]),
        -41: (["-41"], ["41"]),
        7: (["+7", "007"], ["7.5"]),
        "1,024": (["1024", "1,024"], ["1.024"]),
        1024: (["1,024"], []),
        0: (["-0"], []),
        # The contract's definition to the letter: a minus after a digit is a sign.
        -15: (["10-15"], []),
        15: ([], ["10-15"]),
        5: (["16.5"], []),
        9: (["0" * 5000 + "9"], [LONG]),
    },
    gsm8k: {
        "9 * 2 = 18\n#### 18": (["#### 18", "####18", "She has $18.00.", "- 18 eggs"], []),
        "18.": (["so 18", "#### **18**", r"#### $\boxed{18}$", "#### Step 1\nadd\n#### 18"],
                ["#### 17, not 18", "18, then 19", "18.5", "-18", "1818", "####", "", LONG,
                 "eighteen", "####" + " " * 200_000]),
        "#### 1,024": (["1024", "#### $1,024"], []),
        "#### -5": (["#### -5", "-$5", "$-5", "a loss of \u22125 dollars"], ["5"]),
        "18.9": ([r"costs \$18.90"], []),
        ".5": (["0.5"], []),
        50: (["50%"], []),
        15: (["between 10-15"], []),
        -15: ([], ["18 is near 10-15"]),
        # The first mark counts: a model that does not stop goes on with other problems.
        18: (["#### 18\n\nProblem: 2 + 3\nSolution: #### 5"], []),
        5: ([], ["#### 18\n\nProblem: 2 + 3\nSolution: #### 5"]),
        -(10**28): ([], [f"-{10**28 + 1}"]),
    },
    mathematics: {
        r"\frac{1}{2}": ([r"so \boxed{\frac{1}{2}}", "the answer is 0.5"], []),
        "0.5": ([r"so \boxed{\frac12}"], []),
        r"11\sqrt{2}": ([r"\boxed{11\sqrt2}"], ["11"]),
        "(x+1)^2": ([r"$x^2 + 2x + 1$"], []),
        r"\text{(C)}": ([r"\boxed{(C)}"], []),
        r"\{1, 2\}": ([r"\boxed{\{2, 1\}}"], []),
        r"(-\infty,0)\cup(1,2]": ([r"\boxed{(-\infty, 0) \cup (1, 2]}"], []),
        "x = 5": (["5"], []),
        "9 * 2 = 18\n#### 18": (["The answer is 18."], []),
        r"Since 3 + 4 = 7, it is $\boxed{7}$.": ([r"\boxed{7}"], ["3"]),
        "0.3": ([], [r"\boxed{\frac13}"]),
        "y": ([], [r"\boxed{x}"]),
        "(2, 1)": ([], [r"\boxed{(1, 2)}"]),
        "5": ([], [r"\boxed{", r"\frac{" * 500, "(" * 500, "no idea", ""]),
        (r"\frac{1}{2}", "7"): ([r"\boxed{0.5}", "7"], ["2"]),
    },
    exact: {
        "a b": ([" a b\n"], ["a  b", "A b"]),
        ("Jane Austen", "Austen"): (["Austen", " Jane Austen"], ["by Austen"]),
    },
    # Any of several answers is right.
    contains: {
        ("Jane Austen", "Austen"): (["by Austen.", "jane austen"], ["Jane", ""]),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("reward", "answer"),
    [(reward, answer) for reward, judged in JUDGED.items() for answer in judged],
    ids=lambda value: getattr(value, "__name__", repr(value)[:30]),
)
def test_what_is_right_and_what_is_not(reward, answer):
    right, wrong = JUDGED[reward][answer]
    given_rewards = {text[:40]: reward(text, {"answer": answer}) for text in right + wrong}
    assert given_rewards == {text[:40]: float(text in right) for text in right + wrong}


@given(st.integers(), st.text(alphabet="abc .\n"))
def test_an_integer_is_found_however_it_is_written(number, words):
    """Behind any words, with separators, and only it: the next integer is another one."""
    for written in (f"{number}", f"{number:,}", f"{number:+,}"):
        text = f"{words} {written}."
        assert integer(text, {"answer": number}) == gsm8k(text, {"answer": number}) == 1
        assert integer(text, {"answer": number + 1}) == 0
        assert gsm8k(text, {"answer": number + 1}) == 0


PRICES = st.decimals(min_value=-(10**9), max_value=10**9, places=2)


@given(PRICES, st.integers())
def test_a_price_is_found_however_it_is_written(price, other):
    """18.50 is 18.5, with or without a dollar sign, whatever numbers came before."""
    reference = {"answer": f"{other} and so\n#### {price:,}"}
    sign, size = "-" * (price < 0), abs(price)
    for written in (f"{price}", f"{sign}${size:,}", f"${price}", f"{size.normalize():f}"):
        expected = 1 if written.startswith(("-", "$-")) == (price < 0) or not price else 0
        assert gsm8k(f"{other} {written}.", reference) == expected
        assert gsm8k(f"#### {written}\n{other}", reference) == expected
    assert gsm8k(f"{price + Decimal('0.01')}", reference) == 0


@pytest.mark.parametrize(
    ("name", "answer", "line"),
    [
        ("integer", ["1", "2"], "the answer is a list; contains, exact and math read any"),
        ("gsm8k", {"target": ["1"]}, "the answer is a mapping; name a part of it by"),
        ("contains", [], "the answer is an empty list; fill it in"),
        ("contains", ["a", None], "one of the answers is empty"),
        ("contains", ["a", math.nan], "one of the answers is empty"),
        ("exact", pd.DataFrame([["a"]]), "the answer is .*; write it as a text or number"),
        ("exact", torch.tensor(9.5), r"the answer is tensor\(9.5"),
        ("exact", b"9", r"the answer is b'9'; write it as a text or number"),
        ("integer", 9.0, "'9.0' is no integer; write a whole number, or use gsm8k"),
        ("exact", [["a"]], "the answer is no list of texts"),
        ("exact", ["", "10"], "one of the answers is empty"),
        *product(
            ("gsm8k", "integer"), ("", "one", "it costs 5 for 3", "#### none", None), [""]
        ),
    ],
)
def test_an_answer_that_is_not_read_is_refused_before_the_run(name, answer, line):
    """Not a reward of 0 for every completion; every prompt is tried."""
    try_reward(load_reward(name), prompts("1", "2"))
    with pytest.raises(InputError, match=f"failed on prompt q2: ValueError: .*{line}"):
        try_reward(load_reward(name), prompts("1", "2", answer))


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_answers_of_any_kind_of_list_are_read_alike(kind):
    for reward in (contains, exact, mathematics):
        assert [reward(text, {"answer": kind(["8", "9"])}) for text in "97"] == [1, 0]
        assert reward("9", {"answer": torch.tensor(9)}) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (np.float32(3.14), "3.14"),
        (np.array(3.14, np.float32), "3.14"),
        (np.array([3.14], np.float16), "3.14"),
        (Decimal("3.10"), "3.10"),
        (Fraction(1, 3), "1/3"),
        (np.datetime64("2026-01-01", "ns"), "2026-01-01T00:00:00.000000000"),
        (datetime.date(2026, 1, 1), "2026-01-01"),
        (datetime.time(1), "01:00:00"),
        (datetime.timedelta(days=2), "2 days, 0:00:00"),
        (np.str_("a"), "a"),
        (True, "True"),
    ],
)
def test_an_answer_is_what_it_is_written_as(answer, text):
    assert exact(text, {"answer": answer}) == 1


def prompts(*answers):
    return [Prompt(f"q{at}", "", "", {"answer": one}) for at, one in enumerate(answers)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gsm9k", "reward = gsm9k: no such reward; did you mean gsm8k?"),
        ("maths", "did you mean math?"),
        ("nowhere:f", "start where nowhere lies"),
        # A probe and its completions may come from anybody.
        *((f"{module}:x", f"{module} belongs to Python or an installed package")
          for module in ("builtins", "sys", "os.path", "yaml", "torch", "json")),
        ("nowhere.py:f", "write nowhere:f"),
        ("./far/nowhere.py:f", "write far.nowhere:f"),
        *((name, "write package.module:f") for name in (".a:b", "a\0b:c", ":", "a:")),
    ],
)  # fmt: skip
def test_no_such_reward(name, message):
    with pytest.raises(InputError, match=message):
        load_reward(name)


def test_a_comparison_without_end_is_given_up(monkeypatch):
    """9^9^9^9 has more digits than there is memory for."""
    monkeypatch.setattr(comparisons, "SECONDS", 0.5)
    (prompt,) = prompts("5")
    texts = ["9^9^9^9", "5", "9^9^9^9", r"\boxed{1000000000!}"]
    found = reward_completions(mathematics, texts, prompt)
    assert (found.values_N.tolist(), found.given_up) == ([0, 1, 0, 0], 3)
    with pytest.raises(InputError, match="prompt q0: math-verify takes too long"):
        try_reward(mathematics, prompts("1000000000!"))


def test_an_answer_that_nobody_waits_for_is_not_the_next_one_s(monkeypatch):
    """Ctrl-C while math-verify is at work, in a program that goes on; or in a thread."""
    comparisons._process()
    with monkeypatch.context() as patch:
        patch.setattr(comparisons, "_read", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            comparisons.are_equal("6", "5")
    assert mathematics("5", {"answer": "5"}) == 1
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(mathematics, "5", {"answer": "5"}).result() == 1


def test_a_library_that_does_not_start_or_is_missing(monkeypatch):
    """It is not taken for comparisons that are all given up."""
    with pytest.raises(ValueError, match="no mathematics"):
        mathematics("5", {"answer": r"$ $"})
    comparisons._end(comparisons._process())
    comparisons._process.cache_clear()
    monkeypatch.setattr(comparisons, "_START", "import no_such_module")
    with pytest.raises(InputError, match="math-verify does not start"):
        mathematics("5", {"answer": "5"})
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(InputError, match=r"pip install '\.\[math\]' in"):
        load_reward("math")
