"""Forms of logs, one a row: read as pandas counts them, or refused by what is missing."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_makers import (
    check,
    completions,
    counted,
    read,
    refuse,
    with_advantages,
    write_lines,
    write_verl,
)
from mse_lab.logs.reward_groups import APART

BASE = completions()
BY_ID = counted(BASE, "id")
ONE_PROMPT = "Begin the game."
MESSAGES = [{"role": "user", "content": ONE_PROMPT}]


def lines(*names, **more):
    """A line for each completion; names of columns, or `theirs=ours`."""
    pairs = [name.partition("=")[::2] for name in names]
    rows = BASE.to_dict("records")
    return [
        {theirs: row[ours or theirs] for theirs, ours in pairs}
        | {key: one(row) if callable(one) else one for key, one in more.items()}
        for row in rows
    ]


def keyed(*names, **more):
    """Lines that know their group by the prompt's id."""
    return lines("prompt_id=id", *names, **more)


def csv(folder):
    BASE[["prompt", "step", "reward"]].to_csv(folder / "log.csv", index=False)


def verl(folder, **columns):
    write_verl(folder, BASE.sample(frac=1, random_state=0), **columns)


def parquet(folder):
    frame = BASE.rename(columns={"id": "prompt_id"}).drop(columns="place")
    frame["prompt"] = [MESSAGES] * len(frame)
    frame.drop(columns="prompt").to_parquet(folder / "log.parquet")


def rewards(**parts):
    return {"rewards": lambda row: {key: one(row) for key, one in parts.items()}}


RIGHT, TIDY = (lambda row: row["reward"]), (lambda row: 0.5)
TWO = BY_ID | {"mean_reward": BY_ID["mean_reward"] + 0.5}
HARNESS = {"prompt": lambda row: f"Mend /ws-{row['id']}-{row['place']}."}
NULLS = BASE.assign(reward=BASE["reward"].where(BASE["place"] > 0))
# The eight rewards of a group: sums of floats that are equal to 32 bits.
SUMS = [{"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.0}]


def late(*names, **columns):
    """Lines of which only those from the 101st on, after the head, have more columns."""
    made = keyed("step", *names)
    return [*made[:100], *(line | columns for line in made[100:])]


LATE = "line 101: has {}, and earlier rows have none; give it in every row$"

# What is written, what is counted, and the --columns.
READ = {
    "rows by id": (keyed("step", "reward"), BY_ID),
    "rows by text": (lines("prompt", "step", "reward", "text", "length"), BY_ID),
    "text in another column": (lines("q=prompt", "r=reward"), BY_ID, "prompt=q,reward=r"),
    "numbers as texts": (keyed(reward=lambda row: str(row["reward"])), BY_ID),
    "true and false": (keyed(reward=lambda row: row["reward"] > 0), BY_ID),
    "CSV": (csv, BY_ID),
    "Parquet": (parquet, BY_ID),
    "verl, mixed order": (verl, BY_ID),
    "verl, reward beside score": (lambda at: verl(at, reward=9.0), BY_ID),
    "verl, one text, by uid": (
        lambda at: verl(at, uid="6f1c-" + BASE["id"].astype(str), input=ONE_PROMPT), BY_ID),
    "one text, by example_id": (
        lines("example_id=id", "reward", prompt=MESSAGES), BY_ID, "prompt_id=example_id"),
    "prompts of a harness": (
        lines("reward", "step", "group_id=id", **HARNESS), BY_ID | {"prompts": 60},
        "group=group_id"),
    "nested ids": (
        lines("reward", task=lambda row: {"i": {"n": row["id"]}}), BY_ID,
        "prompt_id=task.i.n"),
    "an id of each completion": (
        lines("prompt", "reward", request_id=lambda row: f"{row['id']}-{row['place']}"),
        BY_ID),
    "rewards by function": (keyed(**rewards(right=RIGHT, tidy=TIDY)), TWO),
    "a total beside parts": (keyed("reward", **rewards(right=RIGHT, tidy=TIDY)), BY_ID),
    "a part called total": (
        keyed(**rewards(right=RIGHT, total=RIGHT)), BY_ID, "reward=rewards.total"),
    "a column without a value in late lines": (late("reward", group=None), BY_ID),
    "the user's, in late lines": (late("reward", c=None), BY_ID, "completion=c"),
    "a weight": (
        keyed("reward", tidy=TIDY), BY_ID | {"mean_reward": TWO["mean_reward"] + 0.5},
        "reward=reward,reward=2*tidy"),
    "sums of floats": (
        keyed(rewards=lambda row: SUMS[row["place"] % 2]),
        {"zero_variance": 1.0, "mean_reward": 0.3}),
    "differences of 1e-9": (
        keyed(reward=lambda row: 0.3 + 1e-9 * row["place"]), {"zero_variance": 1.0}),
    "differences of 1e-6": (
        keyed(reward=lambda row: 0.3 + 1e-6 * row["place"]), {"zero_variance": 0.0}),
}  # fmt: skip


def write(folder, made):
    """Write lines, the text of a CSV, or what a function writes."""
    if callable(made):
        made(folder)
    elif isinstance(made, str):
        (folder / "log.csv").write_text(made)
    else:
        write_lines(folder / "log.jsonl", made)
    return folder


@pytest.mark.parametrize("name", READ)
def test_read(tmp_path, name):
    made, *expected = READ[name]
    assert not check(write(tmp_path, made), *expected).groups.left_out


def far_date(folder):
    """A date of the year 142,000 in a list, which Python has not."""
    dates = pa.array([[4_400_000_000_000]] * len(BASE), pa.list_(pa.timestamp("s")))
    columns = {"prompt": dates, "reward": pa.array(BASE["reward"])}
    pq.write_table(pa.table(columns), folder / "log.parquet")


def damaged_name(folder):
    """A name of a column that is no UTF-8."""
    parquet(folder)
    path = folder / "log.parquet"
    path.write_bytes(path.read_bytes().replace(b"prompt_id", b"prompt_i\xff"))


def nested(folder):
    deep = "[" * 3000 + "]" * 3000
    (folder / "log.jsonl").write_text(f'{{"prompt": {deep}, "reward": 1}}\n' * 3)


def in_two_files(one, other):
    """A line in each of two files, of prompts 1 and 2 unless they say otherwise."""

    def act(folder):
        write_lines(folder / "a.jsonl", [{"prompt_id": 1} | one])
        write_lines(folder / "b.jsonl", [{"prompt_id": 2} | other])

    return act


def of_verl(*names):
    return lines("input=prompt", "output=text", "score=reward", *names, gts="")


# What is written, the line, and the --columns.
REFUSED = {
    "appended, with steps": (
        keyed("step", "reward") * 2,
        "line 481: prompt '0' at step 1 comes again after another"),
    "verl, appended": (of_verl("step") * 2, "line 481: step 1 comes again after"),
    "verl, each line twice": ([row for row in of_verl("step", "uid=id") for _ in range(2)],
        "has 16 completions, some of them the same: of a file that was appended to"),
    "the user's groups numbered anew": (lines("reward", g=lambda row: row["id"] % 5),
        "line 41: group '0' comes again after another", "group=g"),
    "prompts of a harness": (lines("reward", "step", "group_id=id", **HARNESS),
        "and group_id is that of several: --columns group=group_id if it identifies"),
    "one group of all prompts": (
        lines("reward", group=0, **HARNESS), "and group is that of several"),
    "a group of some other prompts": (
        lines("reward", "step", "group_id=id",
            prompt=lambda row: f"Mend /ws-{row['id']}-{row['place'] // 2}."),
        "has 2 completions, and group_id is that of several"),
    "versions of a policy": (
        lines("prompt", "reward", policy_version=lambda row: row["place"] // 2),
        "with 4 values of policy_version: --columns prompt_id=policy_version"),
    "a line twice in a group of an id": (
        (made := lines("group=id", "reward", "prompt", "completion=text"))[:1] + made,
        "has 9 completions, some of them the same"),
    "a group that comes in the second line": (
        [{"reward": 1, "group": at} for at in (None, 1, 1)], "group is missing"),
    "a number with a bar": ("prompt,reward\na,1_0\n", "reward = '1_0': give a number"),
    "a reward in late lines": (late(reward=1.0), LATE.format("reward")),
    "the user's reward in late lines": (late(r=1.0), LATE.format("r"), "reward=2*r"),
    "a nested reward in late lines": (late(r={"a": 1.0}), LATE.format("r"), "reward=r.a"),
    "a group in late lines": (late("reward", g=1), LATE.format("g"), "group=g"),
    "a score in late lines": (
        late("input=prompt", "output=text", gts="", score=1.0), LATE.format("score")),
    "two columns in late lines": ([*late(g=1) * 9, {"step": 9, "g": 1, "r": 1}],
        LATE.format("g"), "group=g,reward=r"),
    "one column in late lines, one in none": (late(reward=1.0),
        "has no column 'g'; its columns are prompt_id, step, rew", "reward=reward,group=g"),
    "a total in late lines": (late("rewards=reward", reward=1.0),
        "line 101: has reward, and earlier rows have none; .* in every row or in none$"),
    "a completion in late lines": (late("reward", completion="a"), "has completion"),
    "half a group by a late id": (
        [{"prompt_id": n // 5, "reward": n % 2} | ({"uid": 1} if n > 4095 else {})
            for n in range(4200)],
        "has 5 completions, with 2 values of uid"),
    "one id in two types": (
        lines("reward", prompt_id=lambda row: (str if row["place"] else int)(row["id"])),
        "prompt_id is of the type str, in rows"),
    "an id as float and int": (
        lines("reward", prompt_id=lambda row: row["id"] * (1 if row["place"] else 1.0)),
        "type int, in rows before float"),
    "an id in two spellings": (
        "prompt_id,reward\n1,0\n1.0,1\n",
        "the ids 1 and 1.0 are one number in two spellings"),
    "a date out of range": (far_date, "a number or date out of range"),
    "a damaged name": (damaged_name, "log.parquet: cannot be read"),
    "3,000 lists deep": (nested, "not valid JSON|nested too deeply"),
    "one text": (
        lines("reward", prompt=ONE_PROMPT), "480 completions, and there is no other"),
    "passes side by side": (lines("prompt", "reward", Epoch=lambda row: row["place"] // 4),
        "with 2 values of Epoch: --columns .*, step=Epoch if a pass"),
    "one group of all texts, two alike": (
        lines("reward", prompt=lambda row: f"{max(row['id'], 1)}", group=1),
        "has 16 completions, others 8"),
    "an id that is drawn again": (lines("reward", prompt_id=lambda row: row["id"] % 12),
        "prompt '0' comes again after another: a file that was appended to"),
    "an id that counts within a step": (
        lines("reward", "step", "prompt", prompt_id=lambda row: row["id"] % 12),
        "goes with two prompts"),
    "a number of each completion": (
        lines("reward", "prompt", "group=place"), "and group is that of several"),
    "no prompt": (lines("reward", "problem=id", "text"),
        "which of the columns reward, problem, text identifies"),
    "no reward": (
        lines("prompt", "text"), "its columns are prompt, text; which is the reward"),
    "no reward in any line": (keyed(reward=None), "no completion has a reward"),
    "a column that is not there": (keyed("reward"),
        "has no column 'score'; its columns are prompt_id, reward", "reward=score"),
    "a group that no row has": (
        keyed("reward", g=None), "no row has 'g', named by --columns group=g", "group=g"),
    "one of two nested rewards that no row has": (
        keyed(r=lambda row: {"a": row["reward"]}),
        "no row has 'r.b', named by --columns reward=r.b", "reward=r.a,reward=r.b"),
    "a column named twice": (
        keyed("reward"), "reward is named twice", "reward=reward,reward=2*reward"),
    "an infinite weight": (keyed("reward"), "give a weight", "reward=1e400*reward"),
    "dates as steps": (
        lambda at: BASE.assign(step=pd.Timestamp("2026-01-01"))[["id", "step", "reward"]]
        .to_parquet(at / "a.parquet"),
        "row 0: step = '2026-01-01", "prompt_id=id"),
    "a group in some lines": (
        [*keyed("reward", group=1), *keyed("reward")], "line 481: group is missing"),
    "a step in late lines": ([*keyed("reward") * 9, *keyed("reward", "step")],
        "line 4321: has step, and earlier rows have none"),
    "a step in some files": (
        in_two_files({"reward": 0}, {"reward": 0, "step": 1}),
        r"a.jsonl, line 1: step is missing, which"),
    "a group in two files": (in_two_files({"reward": 0}, {"prompt_id": 1, "reward": 1}),
        "prompt '1' has 2 completions, in two files"),
    "a list of rewards": (lines("prompt", reward=[0.0, 1.0]),
        r"line 1: reward = \[0.0, 1.0\]: give the one reward of a completion, and a line"),
    "rewards of a group": (
        [{"prompt_id": 1, "rewards": [0, 1]}], r"rewards = \[0, 1\]: give the one reward"),
    "a list in some lines": ([*keyed("reward")[:1], *keyed(reward=[1.0])],
        r"line 2: reward = \[1.0\]: give the one reward"),
    "a part called total": (
        keyed(**rewards(right=RIGHT, total=RIGHT)), "is total their total"),
    "a part that is the sum": (
        keyed(**rewards(a=RIGHT, b=TIDY, all=lambda row: row["reward"] + 0.5)),
        "is all their total"),
    "a reward that is a word": (
        keyed(reward="good"), "line 1: reward = 'good': give a number"),
    "a reward in a mapping": (
        keyed(reward={"value": 1.0}), "or a part of it: --columns reward=reward.value"),
    "another word for an end": (keyed("reward", truncated="abort"),
        "truncated = 'abort': give true or false, or length, truncated, stop"),
    "an infinite reward": (
        keyed(reward=1e300), r"reward = 1e\+300: give a number of at most"),
    "half a step": (keyed("reward", step=1.5), "step = 1.5: give a whole number"),
    "a huge step": (keyed("reward", step=10**400), "step = 1000"),
    "two columns of one name": (
        "prompt,reward,reward\na,1,0\n", "two columns are named reward"),
    "a row of too many cells": (
        "prompt,reward\na,1\nb,1,0\n", "line 3: 3 cells for 2 columns"),
    "a table of W&B": (lambda at: (at / "a.table.json").write_text("{}"),
        "a table of W&B; export its rows"),
    **{f"--columns {columns}": (keyed("reward"), line, columns) for columns, line in (
        ("q=a", "known:|did you mean"), ("promt=a", "did you mean prompt"),
        ("prompt", "give a column"), ("step=a,step=b", "only rewards add up"),
        ("reward=1e*a", "has no column '1e.a'"),
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    made, *said = REFUSED[name]
    refuse(write(tmp_path, made), *said)


def test_completions_without_a_reward_are_left_out_and_counted(tmp_path):
    """One at most without --partial, as of damaged lines; an eighth only by it."""
    made = keyed("reward")
    made[3]["reward"] = None
    one = read(write(tmp_path / "one", made))
    assert [(part.count, part.what) for part in one.groups.left_out] == [
        (1, "completions have no reward: left out")
    ]
    some = [line | ({"reward": None} if n % 8 == 0 else {}) for n, line in enumerate(made)]
    path = write(tmp_path / "some", some)
    refuse(path, "61 of 480 completions have no reward, more than")
    expected = counted(NULLS.drop(index=3).dropna(), "id") | {"group_size": 8}
    check(path, expected, partial=True)


def test_ends_as_engines_say_them(tmp_path):
    made = keyed("reward", why=lambda row: "length" if row["length"] > 15 else "stop")
    found = check(write(tmp_path, made), BY_ID, "truncated=why")
    assert found.groups.cut_N.tolist() == (BASE["length"] > 15).tolist()


SIZED = {
    "two epochs": lines("prompt", "reward") * 2,
    "groups numbered anew": lines("reward", group=lambda row: row["id"] % 5),
    "appended": keyed("step", "reward") * 2,
    "prompts of a harness": lines("reward", "step", "group_id=id", **HARNESS),
    "a harness without ids": lines("reward", "step", **HARNESS),
}


@pytest.mark.parametrize("name", SIZED)
def test_a_size_cuts_by_order(tmp_path, name):
    path, twice = write(tmp_path, SIZED[name]), len(SIZED[name]) // len(BASE)
    expected = {"groups": 60 * twice, "zero_variance": BY_ID["zero_variance"]}
    assert APART not in check(path, expected, group_size=8).notes
    short = write(tmp_path / "short", SIZED[name][1:])
    refuse(short, "which are no whole groups|values of group_id", group_size=8)


def test_a_size_cuts_nothing_where_the_order_says_nothing(tmp_path):
    """Of verl's files, where two groups of a step have one prompt."""
    made = [line | {"step": 1} for line in of_verl()] * 2
    path = write(tmp_path, lambda at: write_lines(at / "1.jsonl", made))
    refuse(path, "has 16 completions, not 8, and the order of these", group_size=8)


def test_a_size_says_where_rows_of_a_group_lie_apart(tmp_path):
    """As they end in a trainer that draws many prompts at once; two epochs of them."""
    mixed = sorted(lines("place", "prompt", "reward"), key=lambda one: one["place"]) * 2
    expected = {"groups": 120, "zero_variance": BY_ID["zero_variance"]}
    found = check(write(tmp_path, mixed), expected, group_size=8)
    assert APART in found.notes


def test_blocks_of_lines_take_a_size(tmp_path):
    path = write(tmp_path, lines("step", "reward"))
    check(path, {"zero_variance": BY_ID["zero_variance"]}, group_size=8)
    refuse(path, "which of the columns")
    refuse(path, "96 completions, which are no whole", group_size=5)


def test_a_frame_is_read_as_its_file(tmp_path):
    frame = BASE.rename(columns={"id": "prompt_id"}).drop(columns=["prompt", "place"])
    check(frame, BY_ID)
    twice = pd.concat([frame, frame[["reward"]]], axis=1)
    refuse(twice, "the data frame: two columns are named reward")
    refuse(frame.drop(columns="reward"), "columns={'prompt_id'")


def test_trl_is_known_in_a_frame():
    frame = with_advantages(BASE.rename(columns={"text": "completion"}), 8)
    names = ["step", "prompt", "completion", "reward", "advantage"]
    assert check(frame[names], BY_ID).as_dict()["form"] == "TRL"


def test_values_are_those_of_the_prompts(tmp_path):
    found = read(write(tmp_path, keyed("step", "reward", "length")))
    by_prompt = BASE.groupby("id", sort=False)
    assert found.prompts["value"].tolist() == by_prompt["reward"].mean().tolist()
    assert found.prompts["mean_length"].tolist() == by_prompt["length"].mean().tolist()
    assert found.numbers["never_right"].value == np.mean(by_prompt["reward"].sum() == 0)
    assert found.steps["groups"].tolist() == [12] * 5
