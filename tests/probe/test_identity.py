"""The identity of foreign code: it changes with what the code does, and with that alone."""

import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from mse_lab.probe import identity
from mse_lab.probe.foreign_code import load_function
from mse_lab.probe.identity import UNKNOWN, identify, identify_named

FILES = {
    "graded_here.py": "import near, numpy\ndef reward(text, row):\n    import late\n",
    "near.py": "from package.inner import x\n",
    "late.py": "",
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


SETTING = "limit, words, near = .5, {'a', 'b'}, re.compile('a')\n"
HELPER = "def helper(text): return len(text)\n"
REWARD = "def reward(text, row, k=1):\n    return k * (helper(text) > limit)"
MADE = f"{SETTING}{HELPER}{REWARD}"

LAMBDA = "reward = lambda text, row: text in words and near.search(text)"

# Pairs of sources of a function `reward`, and whether they do the same.
PAIRS = {
    "the same": (MADE, MADE, True),
    "another line": (MADE, f"\n\n{MADE}", True),
    "constant": (LAMBDA, LAMBDA.replace("text)", "'b')"), False),
    "attribute": (LAMBDA, LAMBDA.replace("search", "match"), False),
    "default": (MADE, MADE.replace("k=1", "k=2"), False),
    "helper": (MADE, MADE.replace("len(text)", "-len(text)"), False),
    "number around": (MADE, MADE.replace(".5", ".6"), False),
    "set around": (LAMBDA, f"words = {{'c'}}\n{LAMBDA}", False),
    "pattern around": (LAMBDA, f"near = re.compile('a', re.I)\n{LAMBDA}", False),
    "what is not used": (LAMBDA, f"limit = 7\n{LAMBDA}", True),
    "what is handled": (
        "def reward(text, row):\n    try: return f()\n    except KeyError: return 1",
        "def reward(text, row):\n    try: return f()\n    except ValueError: return 1",
        False,
    ),
    "closure": (
        "def make(k): return lambda text, row: k\nreward = make(1)",
        "def make(k): return lambda text, row: k\nreward = make([1, {2: 3}])",
        False,
    ),
    "partial": (
        f"{MADE}\nreward = functools.partial(reward, k=2)",
        f"{MADE}\nreward = functools.partial(reward, k=3)",
        False,
    ),
    "kept": (
        f"{MADE}\nreward = functools.lru_cache(reward)",
        f"{MADE.replace('k=1', 'k=2')}\nreward = functools.lru_cache(reward)",
        False,
    ),
    "array": (
        "table = np.zeros(2000)\nreward = lambda text, row: table[0]",
        "table = np.eye(2000)[1000]\nreward = lambda text, row: table[0]",
        False,
    ),
    "recursion": (
        "def reward(text, row): return reward(text[1:], row) if text else 1",
        "def reward(text, row): return reward(text[1:], row) if text else 2",
        False,
    ),
    "what is built in": ("reward = max", "reward = min", False),
}


def make(text):
    """Make a function as in a notebook, where no module has its source."""
    around = {"__name__": "__main__", "re": re, "functools": functools, "np": np}
    if text is not MADE:
        text = f"{SETTING}{text}"
    exec(text, around)
    return around["reward"]


@pytest.mark.parametrize("case", PAIRS)
def test_what_is_made_in_python_counts_with_what_it_uses(case):
    one, other, same = PAIRS[case]
    found = identify(make(one)), identify(make(other))
    assert not any(known.startswith(UNKNOWN) for known in found)
    assert (found[0] == found[1]) == same


def test_a_module_s_function_counts_by_its_source(folder):
    """Whether it is the reward, or used by it."""
    function, _ = load_function("graded_here:reward", "reward")
    user = make("reward = lambda text, row: graded(text, row)")
    user.__globals__["graded"] = function
    before = identify(function), identify(user)
    (folder / "late.py").write_text("y = 1")
    after = identify(function), identify(user)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_an_object_of_a_module_counts_with_what_it_holds(folder):
    (folder / "scorer.py").write_text("class Scorer:\n    def __call__(self, *_): ...\n")
    scorer = load_function("scorer:Scorer", "reward")[0]()
    scorer.limit = 1
    before = identify(scorer)
    scorer.limit = 2
    assert identify(scorer) != before
    scorer.limit = 1
    assert identify(scorer) == before
    (folder / "scorer.py").write_text("class Scorer:\n    def __call__(self, *_): return 1")
    assert identify(scorer) != before


def test_what_cannot_be_compared_is_named():
    function = make("reward = lambda text, row: judge(text)")
    function.__globals__["judge"] = np.random.default_rng()
    expected = f"{UNKNOWN}it holds a Generator, which cannot be compared"
    assert identify(function) == expected
    nested = []
    for _ in range(10**5):
        nested = [nested]
    function.__globals__["judge"] = nested
    assert identify(function).startswith(UNKNOWN)


def test_the_next_start_finds_the_same():
    """Sets have another order in every process."""
    code = (
        "import re\nfrom mse_lab.probe.identity import identify\n"
        f"{SETTING}words |= set('cdefgh')\n{LAMBDA}\n"
        "print(identify(lambda text, row: reward(text, row) in {'x', 'y', 'z'}))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    }
    assert len(found) == 1
