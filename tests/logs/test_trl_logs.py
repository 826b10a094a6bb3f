"""TRL's files, by hand and by its trainer; lines of other trainers by the page's words."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from log_makers import (
    check,
    completions,
    counted,
    read,
    refuse,
    state_of,
    with_advantages,
    write_lines,
    write_trl,
)
from mse_lab.logs import forms

BASE = completions(prompts=6, size=4, steps=10, seed=5)
BY_BLOCK = counted(BASE, "id")
LOGGED = with_advantages(BASE, 4)


def reward_of(**rewards):
    """Rewards by function, and the advantages of their sum."""
    frame = BASE.assign(**rewards)
    total = frame[list(rewards)].sum(axis=1, min_count=1)
    return with_advantages(frame.assign(total=total), 4, "total")


def mixed(step=3):
    """A step in another order."""
    rows = np.arange(len(LOGGED))
    at = np.flatnonzero(LOGGED["step"] == step)
    rows[at] = np.random.default_rng(0).permutation(at)
    return LOGGED.iloc[rows]


FLAT = with_advantages(BASE.assign(reward=0.5), 4)
TIDY = BASE["id"] % 3 / 2  # Varies between groups alone.
KL = LOGGED.assign(advantage=np.float32(LOGGED["advantage"] + 0.1 * (BASE["place"] - 1.5)))
TOTAL = counted(BASE.assign(total=BASE["reward"] + TIDY), "id", reward="total")
WEIGHTED = with_advantages(
    BASE.assign(short=1 - BASE["reward"], total=0.9 * BASE["reward"] + 0.1), 4, "total"
)

# A name of a function as an evaluation's numbers have.
FUNCTIONS = reward_of(eval_1=BASE["reward"], tidy=TIDY).assign(seen=0.1 * BASE["place"])
EXTRA = {"rewards": ["eval_1", "tidy"], "extras": ["seen"]}
TWO = {"rewards": ["reward", "short"]}

# What is logged, what is counted, how it is written, and how it is read.
READ = {
    "prompts of their own": (LOGGED, BY_BLOCK),
    "one text": (LOGGED.assign(prompt="Play."), BY_BLOCK | {"prompts": 1}),
    "two texts": (LOGGED.assign(prompt=[f"as {n % 2}" for n in BASE["id"]]), BY_BLOCK),
    "unscaled": (with_advantages(BASE, 4, scale=False), BY_BLOCK),
    "equal rewards everywhere": (FLAT, {"zero_variance": 1.0, "groups": 60}),
    "equal rewards, one text": (
        FLAT.assign(prompt="Play."), {"groups": 60}, {}, {"group_size": 4}),
    "ids of prompts": (
        LOGGED.assign(prompt="Play.", prompt_id=BASE["id"] % 7), BY_BLOCK | {"prompts": 7},
        {"extras": ["prompt_id"]}),
    "groups by the user": (
        mixed(), BY_BLOCK, {"extras": ["id"]}, {"columns": "group=id", "group_size": 4}),
    "numbers beside, whole": (
        LOGGED.assign(calls=BASE["place"]), BY_BLOCK, {"extras": ["calls"]}),
    "a function of no prompt": (
        LOGGED.assign(tidy=np.nan), BY_BLOCK, {"rewards": ["reward", "tidy"]}),
    "functions by the state": (
        FUNCTIONS, TOTAL, EXTRA | {"state": state_of(10, ["eval_1", "tidy"])}),
    "functions by the user": (
        FUNCTIONS, TOTAL, EXTRA, {"columns": "reward=eval_1,reward=tidy"}),
    "weights": (
        WEIGHTED, {"zero_variance": BY_BLOCK["zero_variance"]}, TWO,
        {"columns": "reward=reward,reward=0.1*short"}),
    "no reward of some": (
        with_advantages(BASE.assign(reward=BASE["reward"].where(BASE["place"] > 0)), 4),
        counted(BASE[BASE["place"] > 0], "id") | {"group_size": 4}, {}, {"partial": True}),
}  # fmt: skip

# What is logged, the line, how it is written, and how it is read.
REFUSED = {
    "two floats": (WEIGHTED, "these columns are rewards: reward, short", TWO),
    "weights that are not given": (
        WEIGHTED, "the advantages do not follow the rewards in blocks of",
        TWO | {"state": state_of(10, ["reward", "short"])}),
    "a KL term": (KL, "with a KL term in the reward name the rewards"),
    "another order": (mixed(), "here blocks have 1, "),
    "a row is missing": (LOGGED.drop(index=9), "here blocks have 3, 4"),
    "equal rewards, one text": (
        FLAT.assign(prompt="Play."), r"groups of 2 or 3 or 4 or 6 or 8 or 12 or 24\?"),
    "another size": (
        LOGGED.assign(prompt="Play."), "do not follow the rewards in blocks of 8", {},
        {"group_size": 8}),
    "a size that divides nothing": (
        LOGGED, "--group-size 3: TRL writes a group as a block", {}, {"group_size": 3}),
    "two trainings in a file": (
        LOGGED.assign(step=1 + BASE["id"] % 2), "row 8: step 1 comes again after another",
        {"whole": True}),
    "no column of rewards": (
        LOGGED.assign(reward="good"), "its columns are step, prompt, completion"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*READ.items(), *REFUSED.items()], ids=lambda one: one[0])
def test_read_or_refused(tmp_path, case):
    frame, found, written, settings = [*case[1], {}, {}][:4]
    hold = refuse if isinstance(found, str) else check
    hold(write_trl(tmp_path, frame, **written), found, **settings)


def test_rewards_that_the_advantages_do_not_follow_are_said(tmp_path):
    found = check(write_trl(tmp_path, KL), BY_BLOCK, "reward=reward")
    assert any("advantages do not follow these rewards" in note for note in found.notes)


def left_out(found):
    return [(one.count, one.what.partition(" ")[2][:26]) for one in found.groups.left_out]


EVALUATION = "whose files hold an evalua"
REPEAT = "whose files repeat the bat"


def test_evaluations_are_left_out_by_the_state(tmp_path):
    """Steps 4 and 8 were evaluated; 9 and 10 are of an older training, that was longer."""
    folder = write_trl(tmp_path, LOGGED, state=state_of(8, evaluated=[4, 8]))
    training = BASE[~BASE["step"].isin([4, 8, 9, 10])]
    found = check(folder, counted(training, "id"))
    assert left_out(found) == [(2, EVALUATION), (2, "after 8, that of trainer_s")]
    assert 'eval_strategy="no" keeps them' in found.notes[0]
    named = sorted((folder / "completions").glob("*.parquet"))
    check(named, {"completions": len(BASE) - 48})
    check(named[3], {"completions": 24})


def test_the_newest_state_counts(tmp_path):
    folder = write_trl(tmp_path, LOGGED, state=state_of(2))
    for last, evaluated in ((6, [5]), (10, [5, 10])):
        at = folder / f"checkpoint-{last}"
        at.mkdir()
        (at / "trainer_state.json").write_text(
            json.dumps(state_of(last, evaluated=evaluated))
        )
    check(folder, {"completions": len(BASE) - 48})


def test_what_was_logged_before_training_is_an_evaluation(tmp_path):
    folder = write_trl(tmp_path, LOGGED.assign(step=BASE["step"] - 1))
    found = check(folder, counted(BASE[BASE["step"] > 1], "id"))
    assert left_out(found) == [(1, EVALUATION)]
    assert any("No trainer_state.json" in note for note in found.notes)


def test_only_evaluations_are_refused(tmp_path):
    state = state_of(10, evaluated=range(1, 11))
    refuse(write_trl(tmp_path, LOGGED, state=state), "evaluations only")


@pytest.mark.parametrize("evaluated", [[], [3]], ids=["training", "evaluation"])
def test_a_batch_that_is_written_again_counts_once(tmp_path, evaluated):
    """Step 4 repeats step 3, of its training or of its evaluation."""
    rows = LOGGED[LOGGED["step"] != 4]
    again = LOGGED[LOGGED["step"] == 3].assign(step=4)
    folder = write_trl(
        tmp_path, pd.concat([rows, again]), state=state_of(10, evaluated=evaluated)
    )
    found = check(folder, counted(BASE[~BASE["step"].isin([4, *evaluated])], "id"))
    assert left_out(found) == [(2, EVALUATION)] if evaluated else [(1, REPEAT)]


def test_a_step_in_two_files_is_refused(tmp_path):
    folder = write_trl(tmp_path, LOGGED) / "completions"
    rows = pd.read_parquet(folder / "completions_00003.parquet")
    rows.assign(completion="x").to_parquet(folder / "completions_3.parquet")
    for given in (folder, [*folder.iterdir()]):
        refuse(given, r"step 3 comes in .*\d+\.parquet and .*/comp")


def test_messages_are_prompts(tmp_path):
    def said(role, texts):
        return [[{"role": role, "content": text}] for text in texts]

    frame = LOGGED.assign(
        prompt=said("user", BASE["prompt"]), text=said("assistant", BASE["text"])
    )
    assert len(check(write_trl(tmp_path, frame), BY_BLOCK).prompts) == 60


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By TRL itself: two functions, ids, evaluations, two steps of each batch."""
    pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")
    from datasets import Dataset

    from trl_training import ROWS, right, train

    def named(completions, completion_ids, answer, log_extra, id, **columns):
        log_extra("completion_ids", completion_ids)
        log_extra("prompt_id", id)
        return right(completions, answer)

    def brief(completion_ids, **columns):
        return [float(len(ids) < 4) for ids in completion_ids]

    folder = tmp_path_factory.mktemp("trained")
    rows = [row | {"id": f"p{at}"} for at, row in enumerate(ROWS)]
    given = {"rows": rows[:8], "eval_dataset": Dataset.from_list(rows[8:])}
    given |= {"max_steps": 6, "num_iterations": 2, "log_completions": True}
    given |= {"eval_strategy": "steps", "eval_steps": 3, "per_device_eval_batch_size": 32}
    given |= {"per_device_train_batch_size": 32, "num_generations": 8}
    named.__name__ = "right"
    train(folder, [], [named, brief], save_strategy="steps", save_steps=6, **given)
    return folder


def test_what_its_trainer_writes(trained):
    """Steps 1 and 2 share a batch, 3 and 6 hold evaluations, and 4 repeats that of 3."""
    files = sorted((trained / "completions").glob("*.parquet"))
    frame = pd.concat(map(pd.read_parquet, files))
    frame["reward"] = frame["right"] + frame["brief"]
    kept = frame[frame["step"].isin([1, 5])]
    found = check(trained, counted(kept, "step", "prompt_id"))
    assert found.groups.lengths[1].mean() == pytest.approx(
        kept["completion_ids"].map(len).mean()
    )
    assert found.groups.parts == ("right", "brief")
    assert left_out(found) == [(3, EVALUATION), (1, REPEAT)]


def test_a_csv_of_its_files_is_read_as_they_are(trained, tmp_path):
    """With pandas' column of row numbers; a list as NumPy writes it is refused."""
    found = read(trained).as_dict()
    (tmp_path / "completions").mkdir()
    shutil.copy(trained / "checkpoint-6/trainer_state.json", tmp_path)
    for file in (trained / "completions").glob("*.parquet"):
        frame, path = pd.read_parquet(file), tmp_path / "completions" / f"{file.stem}.csv"
        lists = frame["completion_ids"].map(lambda ids: ids.tolist())
        frame.assign(completion_ids=lists).to_csv(path)
    assert read(tmp_path).as_dict() == found | {"source": str(tmp_path)}
    frame.to_csv(path)
    refuse(tmp_path, r"give a list of token ids, \[1, 2\]")


def write_csv(folder, frame):
    names = ["step", "prompt", "text", "reward", "calls", "advantage"]
    table = frame[names].rename(columns={"text": "completion"})
    table.to_csv(folder / "log.csv", index=False)


def test_a_text_in_a_csv_makes_no_other_column_the_reward(tmp_path):
    rewards = LOGGED["reward"].astype(object).where(LOGGED.index != 5, "n/a!")
    write_csv(tmp_path, LOGGED.assign(calls=1.5, reward=rewards))
    refuse(tmp_path, "rewards: reward, calls")
    refuse(tmp_path, "'n/a!'", "reward=reward")


def test_a_csv_whose_rewards_are_not_told_from_other_numbers(tmp_path):
    """An integer of `log_extra` is no reward in Parquet; a CSV has no types."""
    texts = LOGGED["text"].where(BASE["place"] > 0, "")
    write_csv(tmp_path, LOGGED.assign(text=texts, calls=BASE["place"]))
    refuse(tmp_path, r"rewards: reward, calls\? .*--columns reward")
    found = check(tmp_path, BY_BLOCK, "reward=reward")
    assert found.groups.lengths[1].tolist() == texts.str.len().tolist()


MESSAGES = [{"role": "user", "content": "Begin the game."}]

# Lines of other trainers, whose words are those of the page: two groups of two.
OTHERS = {
    "verifiers": lambda g, k: {
        "example_id": g, "prompt": MESSAGES, "completion": MESSAGES, "reward": k,
            "task": "t",
    },
    "open-instruct": lambda g, k: {
        "step": 1, "sample_idx": k, "prompt_idx": g, "prompt_tokens": [1], "reward": k,
        "response_tokens": [2, k], "finish_reason": "stop", "logprobs": [-1.0, -1.0],
    },
    "prime-rl": lambda g, k: {
        "task": {"key": "a"}, "rewards": {"NAME": {"score": k, "weight": 1}}, "nodes": [],
        "info": {"group_id": f"g{g}"}, "run": {"step": 1},
    },
    "AReaL": lambda g, k: {
        "task_id": g, "sample_idx": k, "tail_version": 1 + k, "prompt": "a", "reward": k,
        "completion": "b",
    },
    "NeMo-RL": lambda g, k: {
        "content": ["a"], "rewards": [k], "input_lengths": [3], "token_ids": [[1, 2]],
        "token_loss_mask": [[0, 1]],
    },
    "slime": lambda g, k: {
        "group_index": g, "index": k, "prompt": "a", "response": "b", "tokens": [1, 2, 3],
        "response_length": 1, "reward": k, "status": "truncated", "loss_mask": [1],
    },
}  # fmt: skip


@pytest.mark.parametrize("trainer", OTHERS)
def test_the_words_of_the_page_read_other_trainers(tmp_path, trainer):
    page = Path(forms.__file__).with_name("README.md").read_text()
    words = re.search(rf"^\|{trainer},.*\|`(.*)`\|$", page, re.MULTILINE)[1].split()
    made = [OTHERS[trainer](g, k) for g in (0, 1) for k in (0, 1)]
    size = 2 if "--group-size" in words else None
    path = write_lines(tmp_path / "log.jsonl", made)
    found = check(path, {"groups": 2}, words[1], group_size=size)
    assert found.groups.completions["reward"].tolist() == [0, 1, 0, 1]
