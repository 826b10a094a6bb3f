"""Mutations are what they say, and the runner tells noticed from survived."""

import ast
import runpy
from pathlib import Path

import pytest

from mutations import run
from mutations.changes import acts_at_import, change, marked, mutations

PROGRAM = '''
def widest(lows, highs, level=0.5):
    """Words are left alone: 1 < 2."""
    if not lows:
        return None
    return max(highs) - min(lows) >= level, sum(highs)
'''
TEST = """
from one import widest


def test_of_widest():
    assert widest([0.0, 1.0], [0.2, 1.2])[0]
"""
EXPECTED = {
    ("max", "min"), ("min", "max"), ("max(highs)", "highs"), ("min(lows)", "lows"),
    ("sum", "mean"), ("sum(highs)", "highs"), ("not lows", "lows"),
    ("max(highs) - min(lows)", "max(highs) + min(lows)"), ("0.5", "1.0"),
    ("max(highs) - min(lows) >= level", "max(highs) - min(lows) > level"),
    ("max(highs) - min(lows) >= level", "max(highs) - min(lows) <= level"),
    ("return (max(highs) - min(lows) >= level, sum(highs))",
     "return (sum(highs), max(highs) - min(lows) >= level)"),
    ("if not lows:\n    return None", "if False:\n    return None"),
}  # fmt: skip


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The mutations of a program of one function, with a test of it."""
    (tmp_path / "one.py").write_text(PROGRAM)
    (tmp_path / "test_one.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", str(tmp_path))
    return {(one.before, one.after): one for one, _ in mutations("one.py", tmp_path)}


def test_every_change_of_a_function(found):
    assert set(found) == EXPECTED
    assert {one.function for one in found.values()} == {"widest"}


def test_the_tree_is_whole_again(tmp_path, found):
    for one, tree in mutations("one.py", tmp_path):
        assert ast.unparse(tree) != ast.unparse(ast.parse(PROGRAM)), one
    assert ast.unparse(tree).count("level") == PROGRAM.count("level")


def test_what_is_noticed_and_what_survives(tmp_path, found):
    tests = {"test_one.py::test_of_widest": 0.1}
    noticed, survives = found["max", "min"], found["sum(highs)", "highs"]
    assert run.judge(noticed, tests, tmp_path) == "test_one.py::test_of_widest"
    assert run.judge(survives, tests, tmp_path) == "survives"


def test_a_function_changes_where_it_stands(tmp_path, found):
    """What a module does when it is imported cannot: it needs to be imported anew."""
    held = runpy.run_path("one.py")["widest"]
    assert held([0.0, 1.0], [0.2, 1.2])[0]
    change([held, ast.parse], found["max", "min"], Path())
    assert not held([0.0, 1.0], [0.2, 1.2])[0]
    late = {pair for pair, one in found.items() if acts_at_import(one, tmp_path)}
    assert late == {("0.5", "1.0")}


def test_a_marked_function_says_when_it_is_entered(tmp_path):
    """One in another, too; its words stay the first line."""
    program = 'def outer():\n "Words."\n def inner(): return 1\n return inner()'
    (tmp_path / "two.py").write_text(program)
    names = []
    scope = {"mutations_enter": names.append}
    exec(compile(marked("two.py", tmp_path), "two.py", "exec"), scope)
    assert (scope["outer"](), scope["outer"].__doc__) == (1, "Words.")
    assert names == ["two.py outer", "two.py outer.inner"]


def test_tests_are_those_that_enter_the_function(found):
    one = found["max", "min"]
    entered = {"here": {"one.py widest"}, "there": {"one.py narrowest"}}
    assert run.tests_of(one, entered, {"here": 1.0, "there": 2.0}) == {"here": 1.0}


def test_every_listed_survivor_is_a_mutation_of_the_program_as_it_is():
    """A line that has changed is no longer known to matter: draw it again."""
    files = {name.partition(" ")[0].removesuffix(":") for name in run.listed()}
    known = {str(one) for file in files for one, _ in mutations(file)}
    assert not set(run.listed()) - known, "take these out, and run make mutations"
    assert all(run.listed().values())
