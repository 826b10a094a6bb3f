"""The identity of foreign code: it changes with what the code does, and with that alone."""

from functools import partial

import pytest

from mse_lab.probe import identity
from mse_lab.probe.foreign_code import load_function
from mse_lab.probe.identity import UNKNOWN, identify, identify_named

FILES = {
    "graded_here.py": "import near, numpy\nfrom starred import *\n"
    "def reward(text, row):\n    import late\n"
    "    __import__('named'), __import__('importlib').import_module('package.late')\n",
    "starred.py": "",
    "near.py": "from package.inner import x\n",
    "late.py": "",
    "named.py": "",
    "package/late.py": "",
    "package/__init__.py": "",
    "package/inner.py": "from . import beside\nimport far\ndef x(text, row): ...\n",
    "package/beside.py": "",
    "package/other.py": "",
    "far.py": "",
}
OF_PACKAGE = {"package/__init__.py", "package/inner.py", "package/beside.py"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules, on the path."""
    (tmp_path / "package").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def files_that_count(folder, name):
    """Which of the files change the identity of a function when they are changed."""
    function, _ = load_function(name, "reward")
    before, found = identify_named(function, name), set()
    for file, text in FILES.items():
        (folder / file).write_text(f"{text}y = 1")
        if identify_named(function, name) != before:
            found.add(file)
        (folder / file).write_text(text)
    assert identify_named(function, name) == before
    return found


def test_a_module_counts_with_what_it_imports_from_its_folder(folder):
    """One of a package with what it imports from the package."""
    assert files_that_count(folder, "graded_here:reward") == {*FILES} - {"package/other.py"}
    assert files_that_count(folder, "package.inner:x") == OF_PACKAGE


def test_of_what_is_installed_its_own_file_counts_alone(folder, monkeypatch):
    monkeypatch.setattr(identity, "_PACKAGE", folder)
    assert files_that_count(folder, "graded_here:reward") == {"graded_here.py"}


def closure(limit):
    return lambda text, row: limit


def test_a_module_s_function_counts_by_its_source(folder):
    function, _ = load_function("graded_here:reward", "reward")
    before = identify(function)
    (folder / "late.py").write_text("y = 1")
    assert identify(function) != before


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
    one, other = map(identify, pair)
    assert one != other
    assert not one.startswith(UNKNOWN)
    assert identify(pair[0]) == one


class Limit:
    def reward(self, text, row): ...


@pytest.mark.parametrize(
    "function",
    [Limit().reward, with_default(Limit()), closure(1), partial(max, 1), [].count],
)
def test_what_is_in_no_file_is_unknown(function):
    assert identify(function).startswith(UNKNOWN)
