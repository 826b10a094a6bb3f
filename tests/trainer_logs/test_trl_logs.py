"""TRL's own files: written by its trainer on the tiny checkpoint, and by hand."""

import numpy as np
import pandas as pd
import pytest

from mse_lab.errors import InputError
from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import read_log
from mse_lab.trainer_logs.summary import Summary
from trl_logs import plain_problems, train_with_logs

pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[data]'")


def summarise(folder):
    log = read_log([folder])
    return Summary(log, make_groups(log))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """As TRL writes them, without a line of ours."""
    folder = tmp_path_factory.mktemp("plain")
    train_with_logs(folder, prompts=plain_problems(6), steps=3, num_iterations=2)
    return folder


@pytest.fixture(scope="module")
def with_ids(tmp_path_factory):
    """With the two lines, and two reward functions."""
    folder = tmp_path_factory.mktemp("ids")
    train_with_logs(folder, prompts=plain_problems(6), steps=2, with_ids=True, functions=2)
    return folder


def test_totals_are_those_of_pandas(with_ids):
    files = sorted((with_ids / "completions").glob("*.parquet"))
    frame = pd.concat([pd.read_parquet(file) for file in files])
    frame["reward"] = frame["right"] + frame["brief"]
    by_group = frame.groupby(["step", "prompt_id"])["reward"]
    found = summarise(with_ids)
    assert found.log.source.form.name == "TRL"
    assert len(found.groups.reward_N) == len(frame)
    assert found.mean_reward.value == pytest.approx(frame["reward"].mean())
    assert found.zero_variance.value == pytest.approx((by_group.nunique() == 1).mean())
    assert found.lengths[1].mean() == pytest.approx(frame["completion_ids"].map(len).mean())
    assert [one.name for one in found.reward_functions] == ["right", "brief"]
    assert found.advantage_fits


def test_the_cut_is_told_by_end_tokens(with_ids):
    """The end token of the tiny checkpoint is 0: eight tokens without it were cut."""
    files = sorted((with_ids / "completions").glob("*.parquet"))
    ids = pd.concat([pd.read_parquet(file) for file in files])["completion_ids"]
    cut = [len(one) == 8 and one[-1] != 0 for one in ids]
    assert summarise(with_ids).truncated_N.tolist() == cut


def test_groups_without_ids_are_those_of_a_prompt_at_a_step(plain):
    found = summarise(plain)
    assert set(found.groups.size_K) == {8}
    assert found.groups_per_step == 4
    assert found.truncated is None
    assert found.lengths[0] == "characters"


def test_a_batch_that_is_written_twice_counts_once(plain):
    """Two iterations over a batch: the second step's file repeats the first's."""
    found = summarise(plain)
    assert len(found.log.source.forms) == 3
    assert found.log.source.copies == 1
    assert len(found.groups.reward_N) == 64
    assert "repeat the batch" in found.notes[0]


def rows(step, **more):
    frame = pd.DataFrame(
        {
            "step": step,
            "prompt": ["a"] * 4 + ["b"] * 4,
            "completion": list("wxyzwxyz"),
            "right": [0.0, 1, 1, 0, 1, 1, 1, 1],
            "advantage": [-1.0, 1, 1, -1, 0, 0, 0, 0],
        }
    )
    return frame.assign(**more)


def write(folder, *frames):
    for number, frame in enumerate(frames, start=1):
        frame.to_parquet(folder / f"completions_{number:05d}.parquet")
    return summarise(folder)


def test_messages_are_prompts(tmp_path):
    messages = [[{"role": "user", "content": text}] for text in "aaaabbbb"]
    answers = [[{"role": "assistant", "content": "2"}]] * 8
    found = write(tmp_path, rows(1, prompt=messages, completion=answers))
    assert found.groups.size_K.tolist() == [4, 4]
    assert found.duplicates.value == 0.75


def test_what_a_reward_function_logs_beside_is_no_reward(tmp_path):
    found = write(tmp_path, rows(1, note="x", count=3))
    assert [*found.groups.columns.rewards] == ["right"]


def test_floats_that_are_logged_beside_are_told_by_the_advantages(tmp_path):
    found = write(tmp_path, rows(1, entropy=[0.9, 0.1, 0.2, 0.8, 0, 0, 0, 0]))
    assert [*found.groups.columns.rewards] == ["right"]
    assert found.mean_reward.value == 0.75
    assert "entropy: not among the rewards, left out." in found.notes


def test_rewards_of_whole_numbers_count_where_floats_do_not_fit(tmp_path):
    whole = np.array([0, 1, 1, 0, 1, 1, 1, 1])
    found = write(tmp_path, rows(1, right=whole, brief=0.5))
    assert [*found.groups.columns.rewards] == ["right", "brief"]
    found = write(tmp_path, rows(1, right=whole))
    assert [*found.groups.columns.rewards] == ["right"]


def test_no_column_of_rewards_is_one_line(tmp_path):
    with pytest.raises(InputError, match="no column of rewards"):
        write(tmp_path, rows(1).drop(columns="right"))


def test_a_function_that_scores_some_prompts_only(tmp_path):
    """TRL writes NaN where a reward function gave None."""
    found = write(tmp_path, rows(1, other=np.array([np.nan] * 4 + [0.5] * 4)))
    assert found.groups.reward_N.tolist() == [0, 1, 1, 0, 1.5, 1.5, 1.5, 1.5]


def test_a_prompt_drawn_twice_in_a_step(tmp_path):
    found = write(tmp_path, pd.concat([rows(1), rows(1), rows(1)[:4]]))
    assert found.groups.size_K.tolist() == [4] * 5
    assert found.groups.drawn_twice == 2


def test_a_file_of_no_rows(tmp_path):
    found = write(tmp_path, rows(1), rows(2)[:0])
    assert len(found.groups.reward_N) == 8
