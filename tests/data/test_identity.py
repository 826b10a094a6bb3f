"""The identity of foreign code: it changes with what the code does, and with that alone."""

from functools import partial

import pytest

from mse_lab.data.foreign_code import load_function
from mse_lab.data.identity import UNKNOWN_IDENTITY, identify_function, identify_named


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file of a reward, on the path."""
    path = tmp_path / "graded_here.py"
    path.write_text("def reward(text, row): return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    return path


@pytest.mark.parametrize("how", ["by name", "as it is"])
def test_a_function_counts_with_its_whole_file(file, how):
    function, _ = load_function("graded_here:reward", "reward")

    def found():
        if how == "as it is":
            return identify_function(function)
        return identify_named(function, "graded_here:reward")

    before, text = found(), file.read_text()
    file.write_text(f"{text}LIMIT = 1\n")
    assert found() != before
    file.write_text(text)
    assert found() == before


def closure(limit):
    return lambda text, row: limit


def with_default(limit):
    def reward(text, row, limit=limit): ...

    return reward


def with_named(limit):
    def reward(text, row, *, limit=limit): ...

    return reward


# Pairs whose members differ in what they give, though not in their places.
NUMBERS = [lambda text, row: 1.5, lambda text, row: 2.5]
NAMES = [lambda text, row: len(text), lambda text, row: ord(text)]
INNER = [lambda text, row: [1 for _ in text], lambda text, row: [2 for _ in text]]
COLUMNS = [lambda completions, answer: answer, lambda completions, gold: gold]
DEFAULTS = [with_default(limit) for limit in ((1, "a"), (1, "b"))]
NAMED = [with_named(limit) for limit in ({"k": 1}, {"k": 2})]


@pytest.mark.parametrize("pair", [NUMBERS, NAMES, INNER, COLUMNS, DEFAULTS, NAMED])
def test_two_functions_of_one_place_are_told_apart(pair):
    one, other = map(identify_function, pair)
    assert one != other
    assert not one.startswith(UNKNOWN_IDENTITY)
    assert identify_function(pair[0]) == one


class Limit:
    def reward(self, text, row): ...


@pytest.mark.parametrize(
    "function",
    [Limit().reward, with_default(Limit()), closure(1), partial(max, 1), [].count],
)
def test_what_is_in_no_file_is_unknown(function):
    assert identify_function(function).startswith(UNKNOWN_IDENTITY)
