"""The command line, given anything: an answer, or one line and exit status 2."""

from argparse import ArgumentTypeError

import pytest
import yaml
from fuzzing import CASES, heard
from hypothesis import example, given
from hypothesis import strategies as st

import run_mse
from mse_lab.commands import cli, command_line
from mse_lab.commands.command_line import file_to_write
from mse_lab.errors import LONGEST_LINE, InputError
from mse_lab.results.files import write_bytes

COMMANDS = list(cli.COMMANDS)

# Bytes of a file name that are no UTF-8 arrive as lone surrogates.
ODD = ["", " ", ".", "..", "/", "~", "-", "--", "\n", "\x1b[2J", "\udcff", "x.png"]
LONG = ["x" * 300, "x" * 5000, "x/" * 3000, "../" * 2000, "x" * 255 + ".png"]
FILES = ["tiny", "tiny/base/", "probe.yaml", "probe.yaml/", "probe.yaml/y", "/dev/null"]
# No command line holds a NUL.
LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
NAMES = st.text(LETTERS, max_size=20) | st.sampled_from([*ODD, *LONG, *FILES])
KEYS = st.sampled_from(
    ["seed", "pool.replicate", "pool", "a.b.c", "model", "model.path", ""]
)
WORDS = st.lists(
    NAMES
    | st.sampled_from(
        ["--out", "--set", "--json", "--fresh", "--fre", "--no", "-x", *COMMANDS]
    )
    | st.builds("{}={}".format, KEYS, NAMES)
    | st.builds("--{}={}".format, st.sampled_from(["out", "set", "fresh", "x"]), NAMES),
    max_size=6,
)


@pytest.fixture
def unusable(tmp_path, monkeypatch):
    """A probe without a model, and none of the project's: nothing is ever measured."""
    values = {"model": {"path": "nowhere"}, "prompts": {"source": "nowhere.jsonl"}}
    (tmp_path / "probe.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.chdir(tmp_path)
    for module in (command_line, *cli.COMMANDS.values()):
        monkeypatch.setattr(module, "ROOT", tmp_path, raising=False)


@given(st.sampled_from([*COMMANDS, "--"]), WORDS)
@example("figure", ["nowhere", "--out", ""])
@example("figure", ["nowhere", "--out", "."])
@example("report", ["nowhere", "--out", "x" * 5000])
@example("run", ["probe.yaml", "--out", "probe.yaml"])
@example("run", ["probe.yaml", "--out=--"])
@example("run", ["probe.yaml", "--set", "x" * 5000])
@example("run", ["x" * 5000 + ".yaml"])
@CASES
def test_any_words(unusable, command, words):
    """Behind a command, or behind the end of all options."""
    status, said = heard(run_mse.main, [command, *words])
    if status == 0:
        assert {command, *words} & {"demo", "-h", "--help"}
        return
    assert status == 2, said
    assert said.startswith("run_mse.py: ")
    assert said.endswith("\n")
    assert said[:-1].isprintable()
    assert len(said) < LONGEST_LINE + 20


@given(NAMES)
@CASES
def test_a_file_of_any_name_is_written_or_refused(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("written")
    try:
        path = file_to_write(f"{folder}/{name.replace('/', '_')}")
        write_bytes(path, b"whole")
    except (InputError, OSError, ArgumentTypeError):
        assert not list(folder.iterdir())
    else:
        assert path.read_bytes() == b"whole"
        assert [one.name for one in folder.iterdir()] == [path.name]
