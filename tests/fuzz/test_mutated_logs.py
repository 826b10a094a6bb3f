"""Logs that something happened to: every number printed is pandas' count, or a refusal.

A frame of completions knows the group of each (`id`), which the file that is written of it
may not show: shared texts, lost and doubled rows, another order, other names and nesting, a
cut or damaged file, links and copies.
"""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from fuzzing import CASES, SCALARS, answer_or_one_line, nested
from hypothesis import given
from hypothesis import strategies as st

from log_makers import (
    completions,
    counted,
    read,
    state_of,
    with_advantages,
    write_lines,
    write_trl,
    write_verl,
)
from mse_lab.logs.forms import NAMES as NAMES_OF_A_LOG
from mse_lab.report.rollouts_report import rollouts_text

BASE = completions(prompts=4, size=4, steps=3, seed=1)
GROUPS = BASE["id"].nunique()


def summary_of(path, **settings):
    found = read(path, **settings)
    json.dumps(found.as_dict(), allow_nan=False)
    rollouts_text(found).encode()
    return found


def expected(frame):
    """Count what is printed of a frame, by pandas."""
    drawn = frame.dropna(subset=["reward"])
    groups = drawn.groupby("id", sort=False)["reward"]
    least, most = drawn["reward"].min(), drawn["reward"].max()
    right = groups.min() > (0 if most - least <= 1e-8 else most - 1e-8)
    counts = counted(drawn, "id")
    counts.pop("group_size")  # That of completions drawn, with a reward or not.
    return counts | {
        "all_right": right[groups.size() > 1].mean(),
        "tokens": drawn["length"].mean(),
        "characters": drawn["text"].str.len().mean(),
    }


def compare(found, frame):
    """Hold what is printed to pandas' counts; True where it was printed."""
    if found is None:
        return False
    said = found.as_dict()
    said[said.get("length_unit")] = said.get("mean_length")
    for name, count in expected(frame).items():
        value = said.get(name, count)
        value = value["value"] if isinstance(value, dict) else value
        assert (value is None and np.isnan(count)) or value == pytest.approx(count), name
    return True


rows = st.lists(st.integers(0, len(BASE) - 1), min_size=1, max_size=6, unique=True)
groups = st.lists(st.integers(0, GROUPS - 1), min_size=2, max_size=GROUPS, unique=True)


def lose(frame, data):
    return frame.drop(index=frame.index[data.draw(rows)])


def double(frame, data):
    return frame.iloc[sorted([*range(len(frame)), *data.draw(rows)])].reset_index(drop=True)


def lose_group(frame, data):
    return frame[~frame["id"].isin(data.draw(groups)[:2])].reset_index(drop=True)


def mix(frame, data):
    seed = data.draw(st.integers(0, 99))
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def share(frame, data):
    some = frame["id"].isin(data.draw(groups))
    return frame.assign(prompt=frame["prompt"].where(~some, "Begin."))


def unscored(frame, data):
    reward = frame["reward"].copy()
    reward.iloc[data.draw(rows)] = np.nan
    return frame.assign(reward=reward)


def grade(frame, data):
    """Graded rewards, nearly equal ones among them."""
    noise = data.draw(st.sampled_from([0.0, 1e-10, 0.25]))
    return frame.assign(reward=frame["reward"] / 3 + noise * (frame["place"] % 2))


def again(frame, data):
    """Append the whole or a part once more, other completions of the same prompts."""
    size = data.draw(st.sampled_from([len(frame), len(frame) // 3]))
    part = frame[:size].assign(id=frame["id"] + GROUPS, reward=1 - frame["reward"])
    return pd.concat([frame, part], ignore_index=True)


HAPPENS = [lose, double, lose_group, mix, share, unscored, grade, again]
happened = st.lists(st.sampled_from(HAPPENS), max_size=2)


def mutate(data, frame=BASE):
    for one in data.draw(happened):
        frame = one(frame, data) if len(frame) == len(BASE) else frame
    return frame


NAMES = {
    "prompt": ["prompt", "question", "task.text"],
    "reward": ["reward", "score", "r.total"],
}
IDS = [None, "prompt_id", "group", "example_id", "meta.uid"]


def put(record, name, value):
    """Put a value into a record, in a mapping where the name is dotted."""
    top, _, inner = name.partition(".")
    if inner:
        record.setdefault(top, {})[inner] = value
    else:
        record[name] = value


def as_lines(data, frame):
    """Make lines under names that are drawn, and the --columns that say so, or not."""
    names = {key: data.draw(st.sampled_from(found)) for key, found in NAMES.items()}
    names["prompt_id"] = data.draw(st.sampled_from(IDS))
    kept = data.draw(st.lists(st.sampled_from(["step", "text", "length"]), unique=True))
    kind = data.draw(st.sampled_from([float, str, json.dumps]))
    # Ids that are texts in some lines, that begin anew, prompts that differ by a harness.
    texts = data.draw(st.sampled_from([0, 0, 0, 1]))
    anew = data.draw(st.sampled_from([GROUPS, GROUPS, 4, 1]))
    flat = names["prompt_id"] in ("prompt_id", "group", "example_id")
    harness = flat and anew > 1 and data.draw(st.booleans())  # One id tells nothing.
    lines, told = [], []  # Of each line its prompt, its id and its step, as they show.
    for row in frame.to_dict("records"):
        record = {key: row[key] for key in kept}
        own = f" {len(lines)}" if harness else ""
        put(record, names["prompt"], row["prompt"] + own)
        known = not np.isnan(row["reward"])
        put(record, names["reward"], kind(row["reward"]) if known else None)
        if names["prompt_id"]:
            shown = row["id"] % GROUPS % anew
            put(record, names["prompt_id"], str(shown) if row["place"] < texts else shown)
        one_id = names["prompt_id"] and row["id"] % GROUPS % anew
        told.append((row["prompt"] + own, one_id, row["step"] if "step" in kept else None))
        lines.append(record)
    columns = {key: [name] for key, name in names.items() if name and name != key}
    columns.pop("prompt_id" if names["prompt_id"] == "group" else "", None)
    if data.draw(st.booleans()):
        columns.pop("prompt_id", None)
    return lines, columns, told


def where_ids_tell_nothing(frame, told):
    """Take prompts, and steps, for groups where all lines have one id."""
    texts, ids, steps = zip(*told, strict=True)
    one_way = len({*texts}) in (1, len(texts))
    if ids[0] is None or len({*ids}) > 1 or not one_way:
        return frame
    shown = zip(texts, steps, strict=True)
    return frame.assign(id=[f"{text} {step}" for text, step in shown])


def spoil(data, path):
    """Do something to a file; return the lines that are left, where they are fewer."""
    raw = path.read_bytes()
    lines = raw.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    match data.draw(st.sampled_from(["no", "damage", "cut", "cut zip", "zip"])):
        case "damage":
            path.write_bytes(b"".join([*lines[:at], b"{half\n", *lines[at + 1 :]]))
            return [*range(at), *range(at + 1, len(lines))]
        case "cut":
            kept = raw[: data.draw(st.integers(1, len(raw)))]
            path.write_bytes(kept)
            last = kept.splitlines()[-1]  # Whole, too, if its break alone is missing.
            return range(
                kept.count(b"\n") + (not kept.endswith(b"\n") and last in raw.splitlines())
            )
        case "cut zip":
            packed = gzip.compress(raw)
            size = data.draw(st.integers(len(packed) // 3, len(packed)))
            path.with_suffix(".jsonl.gz").write_bytes(packed[:size])
            path.unlink()
        case "zip":
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(raw))
    return None


@given(st.data())
@CASES
def test_lines(tmp_path_factory, data):
    frame = mutate(data)
    lines, columns, told = as_lines(data, frame)
    path = write_lines(tmp_path_factory.mktemp("log") / "a.jsonl", lines)
    left, partial = spoil(data, path), data.draw(st.booleans())
    found = answer_or_one_line(
        lambda: summary_of(path.parent, columns=columns, partial=partial)
    )
    if left is not None:
        frame, told = frame.iloc[[*left]], [told[at] for at in left]
    elif found is not None and found.groups.log.left_out and partial:
        count = len(found.groups.log.completions)
        frame, told = frame[:count], told[:count]
    compare(found, where_ids_tell_nothing(frame, told) if told else frame)


@given(st.data())
@CASES
def test_tables(tmp_path_factory, data):
    frame = mutate(data)
    names = data.draw(st.permutations(["step", "id", "prompt", "reward", "length"]))
    names = names[: data.draw(st.integers(2, 5))]
    known = data.draw(st.sampled_from([{}, {"prompt_id": ["id"]}, {"group": ["id"]}]))
    folder, kind = tmp_path_factory.mktemp("log"), data.draw(st.integers(0, 2))
    given = frame[list(names)]
    if kind == 0:
        given.to_csv(folder / "a.csv", index=False)
    elif kind == 1:
        given.to_parquet(folder / "a.parquet", row_group_size=7)
    target = given if kind == 2 else folder
    compare(answer_or_one_line(lambda: summary_of(target, columns=known)), frame)


@given(st.data())
@CASES
def test_files_of_verl(tmp_path_factory, data):
    frame, folder = mutate(data), tmp_path_factory.mktemp("log")
    uid = data.draw(st.sampled_from(["", "id", "place", "text"]))
    write_verl(folder, frame, reward=9.0, **({"uid": frame[uid]} if uid else {}))
    if data.draw(st.booleans()):
        write_verl(folder / "validation", frame[frame["step"] == 2], reward=9.0)
    found = answer_or_one_line(lambda: summary_of(folder))
    # Not where a file says what is false: that places are groups, or a text that comes
    # twice, or all of them.
    own = frame["text"].is_unique if uid == "text" else len(frame) < 2 * len(BASE)
    if uid == "id" or (uid != "place" and own):
        compare(found, frame)


@given(st.data())
@CASES
def test_files_of_trl(tmp_path_factory, data):
    weight = data.draw(st.sampled_from([0.0, 1.0, 0.5]))
    seen = data.draw(st.sampled_from([0.0, 0.1])) * BASE["place"]
    total = BASE["reward"] + weight * seen
    base = with_advantages(BASE.assign(seen=seen, total=total), 4, "total")
    frame = base
    for one in data.draw(
        st.lists(st.sampled_from([lose, double, lose_group, mix, share]), max_size=1)
    ):
        frame = one(base, data)
    evaluated = data.draw(st.sets(st.integers(1, 3), max_size=2))
    state = data.draw(st.sampled_from([None, ["reward"], ["reward", "seen"]]))
    folder = write_trl(
        tmp_path_factory.mktemp("log"),
        frame,
        ["reward"] if data.draw(st.booleans()) else ["reward", "seen"],
        state=None if state is None else state_of(3, state, evaluated),
    )
    size = data.draw(st.sampled_from([None, None, 2, 4, 8]))
    found = answer_or_one_line(lambda: summary_of(folder, group_size=size))
    if size not in (None, 4):
        return  # The user's word, where the advantages do not speak against it.
    if state is not None:
        frame = frame[~frame["step"].isin(evaluated)]
    # What follows the advantages is the total, whichever columns were written.
    compare(
        found, frame.assign(reward=frame["total"]) if state == ["reward", "seen"] else frame
    )


values = nested(SCALARS | st.sampled_from([1e308, 2**63, 10**400, "\ud800", "nan"]))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(NAMES_OF_A_LOG), values), max_size=4
    )
)
@CASES
def test_any_value_of_any_name(tmp_path_factory, changes):
    lines = [
        {"prompt_id": f"{n // 2}", "reward": n % 2, "token_ids": [n]} for n in range(4)
    ]
    for at, name, value in changes:
        lines[at][name] = value
    path = write_lines(tmp_path_factory.mktemp("log") / "a.jsonl", lines)
    answer_or_one_line(summary_of, path)


@given(st.binary(max_size=60), st.sampled_from([".jsonl", ".parquet", ".csv"]))
@CASES
def test_any_bytes(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("log") / f"log{suffix}"
    path.write_bytes(content)
    answer_or_one_line(summary_of, path)
