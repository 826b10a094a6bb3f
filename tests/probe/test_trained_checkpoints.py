"""The checkpoints of a training run: found, put in order, refused where they are none."""

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.trained_checkpoints import START, Checkpoint, find_checkpoints


def test_checkpoints_stand_in_the_order_of_their_steps(tmp_path):
    two, ten = tmp_path / "checkpoint-2", tmp_path / "checkpoint-10"
    ten.mkdir()
    two.mkdir()
    pattern = str(tmp_path / "checkpoint-*")
    expected = [Checkpoint(2, two), Checkpoint(10, ten)]
    assert find_checkpoints([pattern]) == expected
    assert find_checkpoints([str(ten), str(two)]) == expected
    # What a shell makes of two patterns.
    assert find_checkpoints([str(ten), pattern]) == expected
    assert find_checkpoints([pattern], from_start=True) == [START, *expected]


def test_the_step_is_the_last_number_of_the_folders_own_name(tmp_path):
    folder = tmp_path / "seed-7/lr0.03-step-25"
    folder.mkdir(parents=True)
    assert find_checkpoints([str(folder)]) == [Checkpoint(25, folder)]


@pytest.mark.parametrize(
    ("folders", "words"),
    [
        ([], "no such folder"),
        (["last"], "no step in its name"),
        (["checkpoint-" + "9" * 23], "no step in its name"),
        (["a-2", "b-2"], "are both of step 2"),
    ],
)
def test_what_is_no_run_of_checkpoints_is_refused(folders, words, tmp_path):
    for folder in folders:
        (tmp_path / folder).mkdir()
    (tmp_path / "checkpoint-3").touch()  # a file is no checkpoint
    with pytest.raises(InputError, match=words):
        find_checkpoints([str(tmp_path / "*")])
