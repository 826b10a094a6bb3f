"""A user's own code: whatever it does is one line, and its traceback lies in a file."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from mse_lab.data.foreign_code import PROJECT, guard, load_function
from mse_lab.data.prompts import Prompt
from mse_lab.data.rewards import load_reward, reward_completions
from mse_lab.errors import InputError

IMPORTS = {
    "def reward(:\n": "SyntaxError",
    "x = '\0'\n": "null bytes",
    "x = '\udcff'\n": "SyntaxError",
    "1 / 0\n": "ZeroDivisionError: division by zero",
    "import sys\nsys.exit('done')\n": "SystemExit: done",
    "def f(): f()\nf()\n": "RecursionError",
    "import no_such_library\n": "no_such_library",
    "": "has no function reward; known: none",
    "def __getattr__(name): raise KeyError(name)\n": "KeyError",
}

CALLS = {
    "raise ValueError('a\\nb\\x1b[1m')": r"ValueError: a b\x1b[1m",
    "raise SystemExit(0)": "SystemExit: 0",
    "raise BaseException": "BaseException",
    "raise Mute": "Mute, whose own text fails",
    "raise ValueError('x' * 10**6)": "xxx ... xxx",
    "return reward(text, prompt)": "RecursionError",
    "return missing": "NameError",
    "return 'right'": "gave the text 'right', not a number",
    "return [0, 1]": "TypeError",
    "return 1j": "TypeError",
    "return 10**400": "OverflowError",
}

MUTE = """\
class Mute(BaseException):
    def __str__(self):
        raise SystemExit
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes the user's module, to be imported as `theirs`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def write(text):
        sys.modules.pop("theirs", None)
        path = tmp_path / "theirs.py"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    return write


def rewarded(record=None):
    prompt = Prompt("q7", "", "", record or {"id": "q7"})
    return reward_completions(load_reward("theirs:reward"), ["a", "b"], prompt)[0].tolist()


def kept_traceback(message):
    return Path(re.search(r"its traceback is in (.*)$", message)[1]).read_text()


def test_a_reward_that_leaves_the_folder_or_changes_its_row(module, tmp_path, monkeypatch):
    """Results go where they were to go; equal completions have equal rewards."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    module(
        "import os\n"
        "def reward(text, prompt):\n"
        "    os.chdir('/')\n"
        "    prompt['choices'].append(prompt.pop('answer'))\n"
        "    prompt['more']['k'] = 2\n"
        "    return len(prompt['choices'])\n"
    )
    row = {"answer": 1, "choices": [2], "more": {"k": np.ones(1)}, "table": np.ones(2)}
    assert rewarded(row) == [2, 2]
    assert Path.cwd() == tmp_path / "here"
    assert (row["answer"], row["choices"], row["more"]) == (1, [2], {"k": 1})
    module("def reward(text, prompt):\n    prompt['table'] += 1\n    return 1\n")
    with pytest.raises(InputError, match="read-only"):
        rewarded(row)


@pytest.mark.parametrize("text", IMPORTS, ids=IMPORTS.values())
def test_a_module_that_cannot_be_imported(text, module):
    module(text)
    with pytest.raises(InputError, match=IMPORTS[text]) as caught:
        load_function("theirs:reward", "reward")
    assert str(caught.value).startswith("reward = theirs:reward: ")
    if text:
        assert IMPORTS[text].partition(":")[0] in kept_traceback(str(caught.value))


@pytest.mark.parametrize("line", CALLS)
def test_a_reward_that_fails(line, module):
    path = module(f"{MUTE}def reward(text, prompt):\n    {line}\n")
    with pytest.raises(InputError) as caught:
        rewarded()
    message = str(caught.value)
    assert message.startswith(f"reward = theirs:reward ({path}): failed on prompt q7: ")
    assert CALLS[line] in message
    assert "Traceback" in kept_traceback(message)


def test_the_project_s_own_rewards_are_found_from_anywhere(tmp_path, monkeypatch):
    """As they are where the command is started outside a clone: not by way of the tests."""
    monkeypatch.chdir(tmp_path)
    elsewhere = [one for one in sys.path if Path(one).resolve() != Path(PROJECT)]
    monkeypatch.setattr(sys, "path", elsewhere)
    for name in [one for one in sys.modules if one.partition(".")[0] == "probes"]:
        monkeypatch.delitem(sys.modules, name)
    assert load_reward("probes.phase.rewards:within_two")("9", {"answer": "7"}) == 1


def test_ctrl_c_is_ctrl_c_and_a_traceback_may_have_no_place(monkeypatch, tmp_path):
    with pytest.raises(KeyboardInterrupt), guard("theirs"):
        raise KeyboardInterrupt
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    expected = "theirs: KeyError: 1; its traceback is in no file"
    with pytest.raises(InputError, match=expected), guard("theirs"):
        raise KeyError(1)
