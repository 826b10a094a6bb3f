"""`mse_lab.rollouts` and `mse-lab rollouts`: the contract, and no torch."""

import json
import subprocess
import sys

import pandas as pd
import pytest

import mse_lab
import run_mse
from log_makers import draw_groups, groups_of, write_lines
from mse_lab.errors import InputError

# What a user's scripts may rely on.
KEYS = ("source", "prompts", "groups", "completions", "group_size", "mean_reward",
        "never_right", "always_right", "zero_variance", "all_right", "all_wrong",
        "forecast")  # fmt: skip


@pytest.fixture
def log(tmp_path):
    """Twelve prompts, four of them never right."""
    values = [0.0] * 4 + [0.3, 0.6] * 3 + [1.0] * 2
    return write_lines(tmp_path / "run/log.jsonl", draw_groups(values, 8, groups=4))


def command(*words):
    return run_mse.main(["rollouts", *map(str, words)])


def test_json_keeps_the_contract(log, capsys):
    assert command(log.parent, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(KEYS) <= set(found)
    assert (found["prompts"], found["groups"], found["completions"]) == (12, 48, 384)
    assert found["group_size"] == 8
    for key in KEYS[6:11]:
        assert set(found[key]) == {"value", "low", "high"}
    assert set(found["forecast"][0]) == {"group_size", "zero_variance", "model"}
    assert found["never_right"]["value"] == pytest.approx(4 / 12)


def test_python_gives_frames(log):
    found = mse_lab.rollouts(log)
    assert found.summary["zero_variance"]["value"] == found.zero_variance.value
    assert len(found.prompts) == 12
    assert found.forecast["group_size"].tolist() == [2, 4, 8, 16, 32]
    assert found.forecast["model"].tolist() == [False] * 3 + [True] * 2
    assert len(found.plot().axes) == 4
    assert "log.jsonl (rows)" in " ".join(str(found).split())
    assert repr(found).startswith("Rollouts of ")
    assert found._repr_html_().startswith("<pre>")


def test_a_data_frame_and_files_give_the_same(log):
    frame = pd.DataFrame([json.loads(line) for line in log.read_text().splitlines()])
    assert (
        mse_lab.rollouts(frame).summary["forecast"]
        == mse_lab.rollouts([log]).summary["forecast"]
    )


def test_the_same_log_gives_the_same_summary(log):
    assert mse_lab.rollouts(log).summary == mse_lab.rollouts(log).summary


def test_names_are_no_html(tmp_path, capsys):
    folder = tmp_path / "<b>run"
    write_lines(folder / "log.jsonl", groups_of([0, 1]))
    assert command(folder, "--markdown") == 0
    assert (said := capsys.readouterr().out).startswith("## ")
    assert "<b>" not in said


@pytest.mark.parametrize(
    ("limit", "status"),
    [("silent=0.9", 0), ("silent=0.2", 1), ("silent=0.5", 0), ("silent,drift", 0)],
)
def test_limits_decide_the_exit_status(log, limit, status, capsys):
    """Half of the groups: a limit is exceeded above it, not at it."""
    assert command(log, "--fail-on", limit) == status
    assert ("is above" in capsys.readouterr().err) is bool(status)


def test_a_limit_on_what_logs_do_not_tell_is_refused(log, refused):
    line = refused("rollouts", log, "--fail-on", "truncated=0.3")
    assert "--fail-on truncated: these logs do not tell truncated" in line


def test_verdicts_take_the_limits_that_are_given(log, capsys):
    assert command(log, "--fail-on", "silent=0.2") == 1
    assert "LOOK zero-variance groups 50%" in " ".join(capsys.readouterr().out.split())
    verdicts = {one["check"]: one for one in mse_lab.rollouts(log).summary["verdicts"]}
    assert (verdicts["silent"]["verdict"], verdicts["silent"]["limit"]) == ("OK", 0.5)


@pytest.mark.parametrize(
    "words",
    [
        ["--fail-on", "quiet=0.5"],
        ["--fail-on", "silent=2"],
        ["--fail-on", "silent=much"],
        ["--columns", "q=a"],
        ["--group-size", "1"],
    ],
)
def test_arguments_that_are_refused(log, refused, words):
    assert len(refused("rollouts", log, *words)) > 20


def test_python_refuses_alike(log):
    refused = {"level": (1.0, "x", None), "group_size": (0, "x", [4], True, 10**29),
               "columns": ({"q": "a"}, {"prompt": 5})}  # fmt: skip
    for settings in ({key: value} for key in refused for value in refused[key]):
        with pytest.raises(InputError):
            mse_lab.rollouts(log, **settings)


def test_no_torch(log):
    code = (
        f"import mse_lab, sys; mse_lab.rollouts({str(log)!r}).summary; "
        "sys.exit(bool({'torch', 'transformers', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", [[], 3, None, [3]])
def test_what_is_no_log_is_refused(source):
    with pytest.raises(mse_lab.InputError, match="give a folder, files, or a data frame"):
        mse_lab.rollouts(source)


def test_columns_are_a_mapping(log):
    with pytest.raises(InputError, match=r"columns 'prompt=q,reward=r': give a mapping"):
        mse_lab.rollouts(log, columns="prompt=q,reward=r")
