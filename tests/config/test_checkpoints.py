"""The checkpoints of a training: found, put in order, refused where they are none."""

import pytest

from mse_lab.config.checkpoints import find_checkpoints
from mse_lab.errors import InputError


def save(folder, *names, file="config.json"):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / file).touch()


def test_they_stand_in_the_order_of_their_steps(tmp_path):
    save(tmp_path, "checkpoint-10", "checkpoint-2")
    save(tmp_path, "seed-7/lr0.03-step-25", file="adapter_config.json")
    (tmp_path / "checkpoint-3").touch()  # a file is no checkpoint
    two, ten = tmp_path / "checkpoint-2", tmp_path / "checkpoint-10"
    pattern, last = str(tmp_path / "checkpoint-*"), tmp_path / "seed-7/lr0.03-step-25"
    # A pattern, and what a shell makes of one, with a folder named twice.
    for given in ([pattern, str(last)], [str(last), str(ten), pattern]):
        assert [*find_checkpoints(given).items()] == [(2, two), (10, ten), (25, last)]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "no such folder; give what a trainer saved"),
        (["last"], "last: no step in its name"),
        (["a-2", "b-2"], "are both of step 2; give one of them"),
    ],
)
def test_what_is_no_training_is_refused(names, words, tmp_path):
    save(tmp_path, *names)
    with pytest.raises(InputError, match=words):
        find_checkpoints([str(tmp_path / "*")])


def test_an_empty_folder_is_no_checkpoint(tmp_path):
    (tmp_path / "checkpoint-4").mkdir()
    with pytest.raises(InputError, match=r"checkpoint-4: neither config\.json nor adapter"):
        find_checkpoints([str(tmp_path / "checkpoint-4")])
