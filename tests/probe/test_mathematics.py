"""Mathematics: comparisons without end, interrupted, or in a thread."""

import sys
import threading
from dataclasses import replace
from unittest.mock import Mock

import pytest

from mse_lab.errors import InputError
from mse_lab.probe import mathematics as comparisons
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import load_reward, mathematics, reward_completions, try_reward


def test_a_comparison_without_end_is_given_up(monkeypatch):
    """9^9^9^9 has more digits than there is memory for."""
    monkeypatch.setattr(comparisons, "SECONDS", 0.5)
    load_reward("math")
    prompt = Prompt(id="q7", text="", category="", record={"answer": "5"})
    texts = ["9^9^9^9", "5", "9^9^9^9", r"\boxed{1000000000!}"]
    found = reward_completions(mathematics, texts, prompt)
    assert found.values_N.tolist() == [0, 1, 0, 0]
    assert found.given_up == 3
    with pytest.raises(InputError, match="prompt q8: math-verify takes too long"):
        try_reward(
            mathematics, [replace(prompt, id="q8", record={"answer": "1000000000!"})]
        )


def test_an_answer_that_nobody_waits_for_is_not_the_next_one_s(monkeypatch):
    """Ctrl-C while math-verify is at work, in a program that goes on."""
    comparisons._process()
    with monkeypatch.context() as patch:
        patch.setattr(comparisons, "_read", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            comparisons.are_equal("6", "5")
    assert mathematics("5", {"answer": "5"}) == 1


def test_a_library_that_does_not_start(monkeypatch):
    """It is not taken for comparisons that are all given up."""
    comparisons._end(comparisons._process())
    comparisons._process.cache_clear()
    monkeypatch.setattr(comparisons, "_START", "import no_such_module")
    with pytest.raises(InputError, match="math-verify does not start"):
        mathematics("5", {"answer": "5"})


def test_mathematics_in_a_thread():
    """The library's time limit is a signal, which a thread may not set."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(mathematics(r"\boxed{\frac12}", {"answer": "0.5"}))
    )
    thread.start()
    thread.join()
    assert found == [1.0]


def test_the_library_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(InputError, match=r"pip install '\.\[math\]' in") as caught:
        load_reward("math")
    assert "\n" not in str(caught.value)
