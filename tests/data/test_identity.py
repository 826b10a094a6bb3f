"""The identity of foreign code: it changes with what the code does, and with that alone."""

import datetime
import hashlib
import json
import sys
import types
from copy import deepcopy
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
import torch

from mse_lab.data.identity import (
    UNKNOWN_IDENTITY,
    identify_function,
    identify_named,
    identify_prompts,
)
from mse_lab.data.prompts import Prompt
from mse_lab.data.rewards import reward_kind
from mse_lab.errors import InputError

REWARD = "def reward(text, row): return 1.0\n"
HERE, IN_A_PACKAGE = "graded_here", "kit.graded"
# The module of a reward, what it imports from beside it or beside its package, the file
# that is changed, and whether that counts.
IMPORTS = {
    "the file itself": (HERE, "", "graded_here.py", True),
    "a module": (HERE, "import helper", "helper.py", True),
    "a function": (HERE, "from helper import grade", "helper.py", True),
    "inside a function": (HERE, "def later():\n    import helper", "helper.py", True),
    "a module of a package": (HERE, "import pack.helper", "pack/helper.py", True),
    "by its package": (HERE, "from pack import helper", "pack/helper.py", True),
    "the package": (HERE, "import pack.helper", "pack/__init__.py", True),
    "what that imports": (HERE, "import pack.helper", "pack/deep.py", True),
    "what that imports, too": (HERE, "import pack.helper", "far.py", True),
    "by a folder alone": (HERE, "import bare.helper", "bare/helper.py", True),
    "another": (HERE, "import helper", "pack/helper.py", False),
    "a table": (HERE, "import helper", "table.csv", False),
    "by its name as a text": (HERE, "import importlib", "helper.py", False),
    "beside it in a package": (IN_A_PACKAGE, "from . import near", "kit/near.py", True),
    "beside it without a dot": (IN_A_PACKAGE, "import near", "kit/near.py", True),
    "beside its package": (IN_A_PACKAGE, "import broken", "broken.py", True),
    "by two dots": (IN_A_PACKAGE, "from ..kit import near", "kit/near.py", True),
}


@pytest.mark.parametrize(
    ("home", "statement", "name", "counts"), IMPORTS.values(), ids=IMPORTS
)
@pytest.mark.parametrize("how", ["by name", "as it is"])
def test_a_function_counts_with_what_its_file_imports_beside_it(
    how, home, statement, name, counts, tmp_path, monkeypatch
):
    """By statements, through other files; not what it opens or imports otherwise."""
    files = {
        f"{home.replace('.', '/')}.py": f"import json\n{statement}\n{REWARD}",
        "pack/__init__.py": "",
        "pack/helper.py": "from . import deep, helper\nfrom .deep import LIMIT\n",
        "pack/deep.py": "import far, graded_here\nLIMIT = 1\n",
        "broken.py": "def broken(:",  # Said by its import, not here.
        **dict.fromkeys(("helper.py", "far.py", "bare/helper.py", "table.csv"), "# 1\n"),
        "kit/near.py": "# 1\n",
    }
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    module = types.ModuleType(home)
    module.__file__ = str(tmp_path / f"{home.replace('.', '/')}.py")
    module.__package__ = home.rpartition(".")[0]
    exec(REWARD, vars(module))
    monkeypatch.setitem(sys.modules, home, module)

    def found():
        if how == "as it is":
            return identify_function(module.reward)
        return identify_named(module.reward, f"{home}:reward")

    before = found()
    (tmp_path / name).write_text("LIMIT = 2\n")
    assert (found() != before) is counts
    (tmp_path / name).write_text(files[name])
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


def identify(**row):
    return identify_prompts([Prompt("a", "1 + 1", "", row)])["set of prompts"]


def array(middle=1.0, **kind):
    """Longer than a text of it shows."""
    zeros = np.zeros(5000)
    return np.hstack([zeros, middle, zeros]).astype(**{"dtype": float, **kind})


def tensor(middle=1.0, dtype=torch.float32):
    return torch.tensor([0.0] * 5000 + [middle] + [0.0] * 5000).to(dtype)


class Image:
    def __repr__(self):
        return "Image"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (array(1.0), array(2.0)),
        (array(1.0), array(1.0, dtype=np.float32)),
        (array(1.0), array(1.0)[None]),
        (array(1, dtype=[("a", "f8")]), array(1, dtype=[("b", "f8")])),
        (tensor(1.0), tensor(2.0)),
        (tensor(1.0, torch.bfloat16), tensor(2.0, torch.bfloat16)),
        (torch.tensor(1.0), torch.tensor(2.0)),
        ([{"deep": array(1.0)}], [{"deep": array(2.0)}]),
        (np.array([["a"], [1]], object), np.array([["a"], [2]], object)),
        (b"one", b"two"),
        (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
        (Decimal("0.1"), Decimal("0.10")),
        (np.int64(1), np.int64(2)),
    ],
)
def test_values_in_memory_are_told_apart_by_what_they_hold(one, other):
    assert identify(extra=one) != identify(extra=other)
    assert identify(extra=deepcopy(one)) == identify(extra=one)
    prompts = [
        Prompt(name, "1", "", {"extra": each})
        for name, each in zip("ab", [one, other], strict=True)
    ]
    assert reward_kind(prompts[0], as_own) != reward_kind(prompts[1], as_own)


def as_own(text, row): ...


def test_plain_rows_keep_the_identity_that_committed_runs_have():
    """The digest of their JSON, by hand."""
    row = {"id": "a", "answer": 2, "list": [1, 0.5, None, True]}
    text = json.dumps([["1 + 1", row]])
    assert identify(**row) == hashlib.sha256(text.encode()).hexdigest()


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value", [object(), Image(), {1, 2}, [Image()], {("a", 1): 2}, CIRCLE, print]
)
def test_what_is_no_value_is_refused(value):
    with pytest.raises(InputError, match=r"^prompt a: its row has a value that cannot be"):
        identify(extra=value)


@pytest.mark.parametrize("name", ["<stdin>", "/nowhere/notebook.py", None])
def test_a_reward_that_is_typed_is_in_no_file(name, monkeypatch):
    typed = types.ModuleType("typed")
    typed.__file__ = name
    monkeypatch.setitem(sys.modules, "typed", typed)
    exec(REWARD, vars(typed))
    assert identify_function(typed.reward).startswith(UNKNOWN_IDENTITY)
    assert len(identify_named(typed.reward, "typed:reward")) == 64
