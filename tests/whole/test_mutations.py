"""The list of mutations fits the program, and its runner tells caught from survived."""

from dataclasses import replace

import pytest

from mutations.run import Mutation, judge, misplaced, mutated, read_mutations


@pytest.mark.parametrize("mutation", read_mutations(), ids=lambda one: one.name)
def test_mutations_fit_the_program(mutation):
    assert misplaced(mutation) is None


@pytest.fixture
def tree(tmp_path):
    """A program of one line, and a test that states one of its two properties."""
    (tmp_path / "one.py").write_text("def double(x):\n    return 2 * x\n")
    test = "from one import double\n\n\ndef test_of_one():\n    assert double(1) == 2\n"
    (tmp_path / "test_one.py").write_text(test)
    return tmp_path


SEEN = Mutation("seen", "doubles", "one.py", "2 * x", "3 * x", ("test_one.py",))
UNSEEN = replace(SEEN, after="2 * abs(x)")


def test_a_mutation_is_caught_or_survives_and_leaves_nothing(tree):
    assert judge(tree, [SEEN]) == "test_one.py::test_of_one"
    assert judge(tree, [UNSEEN]) == "SURVIVED"
    assert "2 * x" in (tree / "one.py").read_text()


def test_a_mutation_that_does_not_import_shows_nothing(tree):
    with pytest.raises(SystemExit):
        judge(tree, [replace(SEEN, after="2 *")])


def test_what_cannot_be_applied_is_named(tree):
    twice = replace(SEEN, before="x")
    assert "2 times" in misplaced(twice, tree)
    gone = replace(SEEN, tests=("test_two.py",))
    assert "test_two.py" in misplaced(gone, tree)


def test_several_at_once(tree):
    with mutated(tree, [SEEN, replace(SEEN, before="(x)", after="(x=1)")]):
        assert (tree / "one.py").read_text() == "def double(x=1):\n    return 3 * x\n"
