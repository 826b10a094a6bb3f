"""The files of a log: found, recognised, passed over, or refused by name."""

import json
from pathlib import Path

import numpy as np
import pytest

from log_makers import groups_of, summarise, write_lines
from mse_lab.api.rollouts import rollouts
from mse_lab.errors import InputError
from mse_lab.trainer_logs.find_logs import find_state, is_named_evaluation
from mse_lab.trainer_logs.forms import FORMS, recognise
from mse_lab.trainer_logs.general_form import parse_columns
from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import read_log
from mse_lab.trainer_logs.summary import Summary

VERL = {"input": "a", "output": "b", "score": 1, "step": 1}


def test_a_file_that_has_only_begun_is_left_out(tmp_path):
    write_lines(tmp_path / "1.jsonl", [VERL])
    (tmp_path / "2.jsonl").write_text('{"inp')
    (tmp_path / "3.jsonl").write_text("")
    log = read_log([tmp_path])
    assert [path.name for path in log.source.unknown] == ["2.jsonl", "3.jsonl"]


def test_mixed_forms_are_refused_by_name(tmp_path):
    write_lines(tmp_path / "a.jsonl", [VERL])
    write_lines(tmp_path / "b.jsonl", groups_of([0, 1]))
    with pytest.raises(InputError, match=r"a.jsonl \(verl\).*b.jsonl \(rows\).*of one"):
        read_log([tmp_path])
    assert len(read_log([tmp_path / "a.jsonl"]).columns.step_N) == 1


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        read_log([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"has no \.jsonl, .*\.parquet.* file; name the"):
        read_log([tmp_path])


def test_every_form_recognises_its_own_keys():
    for form in FORMS[:-2]:
        assert recognise([*form.needs, "more"]).name == form.name
    assert recognise(["prompt", "reward"]).name == "rows"
    assert recognise(["problem", "answer"]) is None


def test_own_columns_of_a_folder(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"q": "a", "r": 1}])
    write_lines(tmp_path / "sub/b.jsonl", [{"q": "a", "r": 0}])
    write_lines(tmp_path / "other.jsonl", [{"loss": 3}])
    log = read_log([tmp_path], parse_columns("prompt=q,reward=r"))
    assert log.columns.rewards["reward"].tolist() == [1, 0]


def test_what_was_left_out_is_said(tmp_path):
    (tmp_path / "other.jsonl").write_text('{"loss": 1}\n')
    write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    log = read_log([tmp_path])
    assert [path.name for path in log.source.unknown] == ["other.jsonl"]
    few = summarise(tmp_path / "more", groups_of([0, 1])).notes
    assert few == ["Few prompts (1): intervals say how little is known of others."]


def test_an_unknown_form_is_described(tmp_path):
    write_lines(tmp_path / "log.jsonl", [{"question": "a", "score": 1}])
    with pytest.raises(InputError, match=r"log.jsonl \(the first has question, score\)"):
        read_log([tmp_path])
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(InputError, match=r"no record in the first"):
        read_log([tmp_path])


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path):
    write_lines(tmp_path / "1.jsonl", groups_of([0, 1]))
    (tmp_path / "2.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "config.jsonl").write_text('{\n"a": 1,\n"b": 2\n}\n')
    notes = summarise_folder(tmp_path).notes
    assert any("file(s) cannot be read: left out" in note for note in notes)
    (tmp_path / "1.jsonl").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        read_log([tmp_path / "2.parquet"])


def summarise_folder(folder):
    log = read_log([folder])
    return Summary(log, make_groups(log))


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("eval_7.pt", True), ("rollout_eval_7.pt", True), ("eval-rollout/3/1.jsonl", True),
        ("validation_data/5.jsonl", True), ("val_data_step3.jsonl", True),
        ("verl_valida/5.jsonl", True), ("retrieval/5.jsonl", False),
        ("values.jsonl", False), ("rollouts/5.jsonl", False),
    ],
)  # fmt: skip
def test_names(name, is_one):
    root = Path("/home/eval/run")
    assert is_named_evaluation(root / name, root) is is_one


def test_verls_validations(tmp_path):
    """In a folder of any name: they have a key `reward` beside the score."""
    write_lines(tmp_path / "dumps/train/1.jsonl", [VERL] * 4)
    write_lines(tmp_path / "dumps/other/1.jsonl", [VERL | {"reward": 1}] * 9)
    log = read_log([tmp_path])
    assert (len(log.columns.step_N), len(log.source.evaluations)) == (4, 1)
    # Named themselves, they are read; so they are where all have the key.
    assert len(read_log([tmp_path / "dumps/other"]).columns.step_N) == 9


def test_evaluations_alone_are_refused_unless_they_are_named(tmp_path):
    """By a pattern of the shell the files that train are named beside them."""
    path = write_lines(tmp_path / "eval_1.jsonl", [VERL])
    with pytest.raises(InputError, match=r"evaluations only; .*eval_1.jsonl"):
        read_log([tmp_path])
    assert len(read_log([path]).columns.step_N) == 1
    other = write_lines(tmp_path / "1.jsonl", [VERL] * 4)
    assert len(read_log([path, other]).columns.step_N) == 4


def rows(step, names):
    """Rows of TRL, four completions of each prompt."""
    return [
        {"step": step, "prompt": name, "completion": f"{n}", "right": float(n % 2),
         "advantage": n % 2 - 0.5}
        for name in names
        for n in range(4)
    ]  # fmt: skip


def evaluated(tmp_path, *batches):
    """The steps, from 1, that are left out of a log without a state."""
    for step, names in enumerate(batches, start=1):
        write_lines(tmp_path / f"completions_{step:05d}.jsonl", rows(step, names))
    return read_log([tmp_path]).source.evaluations


@pytest.mark.parametrize(
    ("batches", "steps"),
    [
        (["ab", "yz", "ca", "yz", "bd", "yz"], ["step 2", "step 4", "step 6"]),
        (["abe", "cde", "xyz", "cae", "bde", "xyz"], ["step 3", "step 6"]),
        ([*"abcdcbad"], []),  # Two epochs: a prompt came at steps 4 and 8 by chance.
        (["ab", "cd", "ab", "cd", "ab", "cd"], []),  # A data set of two batches.
        (["ab", "cd", "ef", "ab", "cd", "ef"], []),  # Batches that are not shuffled.
        (["ab", "az", "ca", "az"], []),  # A prompt that is trained, too.
        (["ab", "cd", "ef", "gh"], []),
    ],
)
def test_prompts_that_come_at_a_rhythm(tmp_path, batches, steps):
    assert evaluated(tmp_path, *batches) == steps


def write_state(folder, step, *evaluations):
    entries = [{"step": step, "rewards/right/mean": 0.5, "loss": 0.0}]
    entries += [{"step": one, "eval_loss": 0.1} for one in evaluations]
    folder.mkdir(parents=True, exist_ok=True)
    state = {"global_step": step, "log_history": entries}
    (folder / "trainer_state.json").write_text(json.dumps(state))


def test_the_newest_state_counts_and_its_rhythm_goes_on(tmp_path):
    write_state(tmp_path / "checkpoint-9", 9, 2)
    write_state(tmp_path / "checkpoint-10", 10, 4, 8)
    state = find_state(tmp_path / "completions")
    assert state.functions == ("right",)
    judged = [step for step in range(18) if state.holds_evaluation(step)]
    assert judged == [0, 4, 8, 12, 16]


@pytest.mark.parametrize("text", ["", "[]", '{"log_history": 3}', '{"log_history": [3]}'])
def test_a_state_that_is_none(tmp_path, text):
    (tmp_path / "trainer_state.json").write_text(text)
    assert find_state(tmp_path / "completions") is None


def test_the_state_names_the_rewards(tmp_path):
    """A column that does not vary within groups would fit the advantages, too."""
    lines = [row | {"level": 3.0} for step in (1, 2) for row in rows(step, "ab")]
    write_lines(tmp_path / "completions/completions_00001.jsonl", lines)
    assert rollouts(tmp_path).mean_reward.value == 3.5
    write_state(tmp_path / "checkpoint-2", 2)
    assert rollouts(tmp_path).mean_reward.value == 0.5


def log_of_two_iterations(folder):
    """Each batch trains twice; an evaluation stands in the next file, too, till a batch."""
    drawn = ["ab", "ab", "yz", "yz", "bd", "YZ", "ae", "ae", "yZ", "yZ", "cf", "Yz"]
    drawn += ["Yz", "Yz"]
    for step, names in enumerate(drawn, start=1):
        own = [row | {"completion": f"{names} {row['completion']}"}
               for row in rows(step, names.lower())]  # fmt: skip
        write_lines(folder / f"completions/completions_{step:05d}.jsonl", own)


@pytest.mark.parametrize("with_state", [True, False])
def test_an_evaluation_that_later_files_repeat(tmp_path, with_state):
    log_of_two_iterations(tmp_path)
    if with_state:
        write_state(tmp_path, 14, 3, 6, 9, 12)
    log = read_log([tmp_path])
    # Without a state copies are found before evaluations.
    found = len(log.source.evaluations), log.source.copies
    assert found == ((8, 2) if with_state else (4, 6))
    assert np.unique(log.columns.step_N).tolist() == [1, 5, 7, 11]
    assert not {"y", "z"} & {log.columns.prompts[n] for n in log.columns.prompt_N}


def test_a_training_by_trl_with_evaluations(tmp_path):
    """Its folder as it lies there: the steps that trained, as TRL logs them."""
    pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[data]'")
    from trl_logs import plain_problems, train_with_logs

    train_with_logs(
        tmp_path, prompts=plain_problems(12), steps=4, group_size=4, functions=2,
        evaluated=plain_problems(20)[12:], eval_strategy="steps", eval_steps=2,
        per_device_train_batch_size=16, per_device_eval_batch_size=16,
        save_strategy="steps", save_steps=2,
    )  # fmt: skip
    assert (tmp_path / "checkpoint-4/optimizer.pt").exists()
    found = rollouts(tmp_path)
    state = json.loads((tmp_path / "checkpoint-4/trainer_state.json").read_text())
    logged = {one["step"]: one for one in state["log_history"] if "reward" in one}
    assert found.steps["step"].tolist() == [1, 3]
    for name, key in (("mean_reward", "reward"), ("zero_variance", "frac_reward_zero_std")):
        np.testing.assert_allclose(found.steps[name], [logged[n][key] for n in (1, 3)])
    assert "2 evaluation(s)" in found.notes[0]
    # The same without the state, by the prompts.
    assert rollouts(tmp_path / "completions").steps["step"].tolist() == [1, 3]
    for checkpoint in tmp_path.glob("checkpoint-*/trainer_state.json"):
        checkpoint.unlink()
    assert rollouts(tmp_path).steps["step"].tolist() == [1, 3]
