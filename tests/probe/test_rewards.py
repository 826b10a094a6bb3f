"""Rewards: what each takes for the answer, and what it must not."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mse_lab.errors import InputError
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import (
    exact,
    gsm8k,
    integer,
    load_reward,
    mathematics,
    reward_completions,
    try_reward,
)

# Completion, reference answer, reward.
INTEGER = [
    ("165", 165, 1),
    ("The answer is 165.", "165", 1),
    ("11 * 15 = 165", 165, 1),
    ("-41", -41, 1),
    ("+7", 7, 1),
    ("1,024", "1024", 1),
    ("1024", "1,024", 1),
    ("007", 7, 1),
    ("-0", 0, 1),
    ("41", -41, 0),
    ("165 or 166", 165, 0),
    # The contract's definition to the letter: a minus after a digit is a sign.
    ("10-15", -15, 1),
    ("10-15", 15, 0),
    ("16.5", 5, 1),
    ("", 0, 0),
    ("none", 0, 0),
    ("9" * 5000, 9, 0),
    ("0" * 5000 + "9", 9, 1),
]

GSM8K = [
    ("#### 18", "9 * 2 = 18\n#### 18", 1),
    ("####18", "#### 18", 1),
    ("She makes $18.00.", "#### 18", 1),
    ("so 18", 18, 1),
    ("so 18", "18.", 1),
    ("#### $1,024", "#### 1024", 1),
    ("1024", "#### 1,024", 1),
    ("#### -5", "#### -5", 1),
    ("-$5", "#### -5", 1),
    ("$-5", -5, 1),
    ("a loss of \u22125 dollars", -5, 1),
    ("#### **18**", 18, 1),
    (r"#### $\boxed{18}$", 18, 1),
    (r"costs \$18.90", "18.9", 1),
    ("0.5", ".5", 1),
    ("50%", 50, 1),
    ("between 10-15", 15, 1),
    ("- 18 eggs", 18, 1),
    ("#### 18\n\nProblem: 2 + 3\nSolution: #### 5", 18, 1),
    ("#### Step 1\nadd\n#### 18", 18, 1),
    # What must not count.
    ("#### 18\n\nProblem: 2 + 3\nSolution: #### 5", 5, 0),
    ("#### 17, not 18", 18, 0),
    ("18, then 19", 18, 0),
    ("18.5", 18, 0),
    ("-18", 18, 0),
    ("1818", 18, 0),
    ("18 is near 10-15", -15, 0),
    ("####", 18, 0),
    ("", 18, 0),
    ("eighteen", 18, 0),
    ("9" * 5000, 18, 0),
    ("####" + " " * 200_000, 18, 0),
    (f"-{10**28 + 1}", -(10**28), 0),
]

MATH = [
    (r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}", 1),
    (r"so \boxed{\frac12}", "0.5", 1),
    ("the answer is 0.5", r"\frac{1}{2}", 1),
    (r"\boxed{11\sqrt2}", r"11\sqrt{2}", 1),
    (r"$x^2 + 2x + 1$", "(x+1)^2", 1),
    (r"\boxed{(C)}", r"\text{(C)}", 1),
    (r"\boxed{\{2, 1\}}", r"\{1, 2\}", 1),
    (r"\boxed{(-\infty, 0) \cup (1, 2]}", r"(-\infty,0)\cup(1,2]", 1),
    ("5", "x = 5", 1),
    ("The answer is 18.", "9 * 2 = 18\n#### 18", 1),
    (r"\boxed{7}", r"Since 3 + 4 = 7, it is $\boxed{7}$.", 1),
    # What must not count: a bare reference read as its first number, for one.
    ("11", r"11\sqrt{2}", 0),
    (r"\boxed{\frac13}", "0.3", 0),
    (r"\boxed{x}", "y", 0),
    (r"\boxed{(1, 2)}", "(2, 1)", 0),
    (r"\boxed{", "5", 0),
    (r"\frac{" * 500, "5", 0),
    ("(" * 500, "5", 0),
    ("no idea", "5", 0),
    ("", "5", 0),
]


def tabulated(table):
    return pytest.mark.parametrize(
        ("text", "answer", "expected"), table, ids=lambda value: repr(value)[:30]
    )


@tabulated(INTEGER)
def test_integer(text, answer, expected):
    assert integer(text, {"answer": answer}) == expected


@tabulated(GSM8K)
def test_gsm8k(text, answer, expected):
    assert gsm8k(text, {"answer": answer}) == expected


@tabulated(MATH)
def test_mathematics(text, answer, expected):
    assert mathematics(text, {"answer": answer}) == expected


def test_exact():
    assert exact(" a b\n", {"answer": "a b"}) == 1
    assert exact("a  b", {"answer": "a b"}) == 0


@given(st.integers(), st.text(alphabet="abc .\n"))
def test_an_integer_is_found_however_it_is_written(number, words):
    """Behind any words, with separators, and only it: the next integer is another one."""
    for written in (f"{number}", f"{number:,}", f"{number:+,}"):
        text = f"{words} {written}."
        assert integer(text, {"answer": number}) == gsm8k(text, {"answer": number}) == 1
        assert integer(text, {"answer": number + 1}) == 0
        assert gsm8k(text, {"answer": number + 1}) == 0


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9),
                max_value=10**9),
    st.integers(),
)  # fmt: skip
def test_a_price_is_found_however_it_is_written(price, other):
    """18.50 is 18.5, with or without a dollar sign, whatever numbers came before."""
    reference = {"answer": f"{other} and so\n#### {price:,}"}
    sign, size = "-" * (price < 0), abs(price)
    for written in (f"{price}", f"{sign}${size:,}", f"${price}", f"{size.normalize():f}"):
        expected = 1 if written.startswith(("-", "$-")) == (price < 0) or not price else 0
        assert gsm8k(f"{other} {written}.", reference) == expected
        assert gsm8k(f"#### {written}\n{other}", reference) == expected
    assert gsm8k(f"{price + Decimal('0.01')}", reference) == 0


@pytest.mark.parametrize("answer", ["", "one", "it costs 5 for 3", "#### none", None])
@pytest.mark.parametrize("name", ["gsm8k", "integer"])
def test_a_reference_without_its_number_is_refused(name, answer):
    """Not a reward of 0 for every completion."""
    prompt = Prompt(id="q7", text="", category="", record={"answer": answer})
    with pytest.raises(InputError, match="failed on prompt q7"):
        try_reward(load_reward(name), [prompt])


def test_a_reference_without_mathematics_is_refused():
    with pytest.raises(ValueError, match="no mathematics"):
        mathematics("5", {"answer": r"$ $"})


def test_every_prompt_is_tried_before_the_run():
    prompts = [
        Prompt(id=f"q{index}", text="", category="", record={"answer": answer})
        for index, answer in enumerate(["1", "2", "three"])
    ]
    try_reward(load_reward("integer"), prompts[:2])
    with pytest.raises(InputError, match="failed on prompt q2: ValueError"):
        try_reward(load_reward("integer"), prompts)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gsm9k", "reward = gsm9k: no such reward; did you mean gsm8k?"),
        ("maths", "did you mean math?"),
        ("nowhere:f", "cannot import nowhere"),
        ("json:loads", "json belongs to Python, an installed"),
        (".a:b", "write package.module:function"),
        ("a\0b:c", "write package.module:function"),
    ],
)
def test_no_such_reward(name, message):
    with pytest.raises(InputError, match=message):
        load_reward(name)


def counts_letters(text, prompt):
    counts_letters.calls += 1
    return len(text) * prompt["weight"]


counts_letters.calls = 0
WEIGHTED = Prompt(id="q7", text="", category="", record={"id": "q7", "weight": 0.5})


def test_a_reward_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "letters.py").write_text(
        "def reward(text, prompt):\n    return len(text) * prompt['weight']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found, _ = reward_completions(load_reward("letters:reward"), ["a", "", "abc"], WEIGHTED)
    np.testing.assert_array_equal(found, [0.5, 0, 1.5])


def test_equal_texts_are_rewarded_once():
    found, _ = reward_completions(counts_letters, ["ab", "a", "ab"], WEIGHTED)
    np.testing.assert_array_equal(found, [1, 0.5, 1])
    assert counts_letters.calls == 2
