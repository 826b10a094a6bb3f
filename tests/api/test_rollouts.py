"""`mse_lab.rollouts` and `mse-lab rollouts`: what they take and give, and no torch."""

import json

import pandas as pd
import pytest

import mse_lab
import run_mse
from log_makers import draw_groups, groups_of, write_lines

COUNTS = ("prompts", "groups", "completions", "group_size", "mean_reward", "forecast")
SHARES = ("never_right", "always_right", "zero_variance", "all_right", "all_wrong")
# What a user's scripts may rely on.
KEYS = {"source", "left_out", *COUNTS, *SHARES}


@pytest.fixture
def log(tmp_path):
    """Twelve prompts, four of them never right."""
    values = [0.0] * 4 + [0.3, 0.6] * 3 + [1.0] * 2
    return write_lines(tmp_path / "run/log.jsonl", draw_groups(values, 8, groups=4))


def test_json_has_what_scripts_rely_on(log, carry_out):
    """Python gives the same."""
    found = json.loads(carry_out("rollouts", log.parent, "--json"))
    assert {*found} >= KEYS
    assert (found["prompts"], found["groups"], found["completions"]) == (12, 48, 384)
    assert (found["group_size"], found["left_out"]) == (8, [])
    for key in SHARES:
        assert {*found[key]} == {"value", "low", "high"}
    assert {*found["forecast"][0]} == {"group_size", "zero_variance"}
    assert found["never_right"]["value"] == pytest.approx(4 / 12)
    assert found == mse_lab.rollouts(log.parent).summary


def test_python_gives_frames_and_a_figure(log):
    found = mse_lab.rollouts(log)
    assert len(found.prompts) == 12
    assert found.forecast["group_size"].tolist() == [2, 4, 8]
    assert len(found.plot().axes) == 4
    assert "log.jsonl (rows)" in " ".join(str(found).split())
    assert repr(found).startswith("Rollouts of ")
    assert found._repr_html_().startswith("<pre>")


def test_a_frame_files_and_a_folder_give_the_same(log):
    frame = pd.read_json(log, lines=True)
    wanted = mse_lab.rollouts(log.parent).summary
    for given in (frame, [log], str(log)):
        found = mse_lab.rollouts(given).summary
        assert {key: found[key] for key in COUNTS} == {key: wanted[key] for key in COUNTS}


def test_names_are_no_html(tmp_path, carry_out):
    folder = tmp_path / "<b>run"
    write_lines(folder / "log.jsonl", groups_of([0, 1]))
    said = carry_out("rollouts", folder, "--markdown")
    assert said.startswith("## ")
    assert "<b>" not in said


@pytest.mark.parametrize(
    ("limit", "status"),
    [("silent=0.9", 0), ("silent=0.2", 1), ("silent=0.5", 0), ("silent,drift", 0)],
)
def test_limits_decide_the_exit_status_and_the_verdict(log, limit, status, capsys):
    """Half of the groups: a limit is exceeded above it, not at it."""
    assert run_mse.main(["rollouts", str(log), "--fail-on", limit]) == status
    said = capsys.readouterr()
    assert ("is above" in said.err) is bool(status)
    assert ("LOOK zero-variance groups 50%" in " ".join(said.out.split())) is bool(status)


@pytest.mark.parametrize(
    "settings",
    [
        *({"level": one} for one in (1.0, "x", None)),
        *({"group_size": one} for one in (0, "x", [4], True, 4097)),
        *({"columns": one} for one in ({"q": "a"}, {"prompt": 5}, "prompt=q")),
        *({"source": one} for one in ([], 3, None, [3])),
    ],
    ids=str,
)
def test_python_refuses_in_a_line(log, settings):
    with pytest.raises(mse_lab.InputError, match=r"give |did you mean|known:"):
        mse_lab.rollouts(**{"source": log, **settings})
