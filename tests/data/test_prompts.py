"""Prompts: from a file or in memory, under our names, in their template, or one line."""

import json
import math
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from log_makers import write_lines
from mse_lab.config.prompt_templates import FEW_SHOT, TEMPLATES
from mse_lab.config.schema import Fields, Prompts
from mse_lab.data.prompts import choose_prompts, load_prompts, read_prompts, take_prompts
from mse_lab.data.rewards import contains, gsm8k
from mse_lab.errors import InputError
from prompt_sets import FIELDS, ROOT, load, refuse, word_problems

NESTED = {"q": {"text": "1 + 1"}, "reward_model": {"ground_truth": 2, "style": ["rule"]}}
NESTED |= {"extra_info": {"index": 3, "of": {"level": "easy"}}}
ONE = {"problem": 1, "answer": 1}
CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}]
TRAINED = [
    {"prompt": f"{at} + 1 =", "problem": "mine", "answer": at + 1} for at in range(9)
]


def test_fields_under_our_names_in_the_whole_row(lines):
    row = word_problems("test")[12]
    prompts = load(source=lines, fields=FIELDS, template="none")
    prompt = prompts[12]
    assert (prompt.text, prompt.id, prompt.category) == ("test: 12 and 2?", "sums-0012", "")
    assert prompt.record == {**row, "id": "sums-0012", "problem": row["question"]}
    assert (gsm8k("14", prompt.record), gsm8k("15", prompt.record)) == (1, 0)
    assert [one.id for one in prompts] == [f"sums-{at:04d}" for at in range(15)]


def test_a_limit_is_a_random_sample_by_the_seed(lines):
    """In order, none twice, each row as often: of 400 seeds 107 of 15 with 4, sd 8.8."""
    how = {"source": lines, "fields": FIELDS, "template": "none"}
    every = load(**how)
    config = Prompts.model_validate(how | {"source": str(lines), "limit": 4})
    samples = [read_prompts(config, ROOT, seed=seed) for seed in range(400)]
    assert {sample.in_source for sample in samples} == {15}
    places = [[every.index(one) for one in sample.prompts] for sample in samples]
    assert all(one == sorted({*one}) and len(one) == 4 for one in places)
    counts = Counter(place for one in places for place in one)
    assert {*counts} == {*range(15)}
    assert max(abs(count - 400 * 4 / 15) for count in counts.values()) < 5 * 8.8
    assert read_prompts(config, ROOT, seed=3) == samples[3]
    assert load(**how, limit=15) == load(**how, limit=99) == every


def test_a_reward_of_ones_own_reads_rows_without_answers(tmp_path):
    source = write_lines(tmp_path / "p.jsonl", [{"problem": "1"}, {"problem": "2"}])
    config = Prompts(source=str(source))
    (first, _) = load_prompts(config, ROOT, answered=False)
    assert "answer" not in first.record
    named = config.model_copy(update={"fields": Fields(answer="right")})
    for prompts, answered in ((config, True), (named, False)):
        with pytest.raises(InputError, match="is missing or empty"):
            load_prompts(prompts, ROOT, answered=answered)


def test_columns_inside_others_go_by_dotted_names(tmp_path):
    """The row keeps them as they are; a name with a dot in it comes first."""
    fields = {
        "problem": "q.text",
        "answer": "reward_model.ground_truth",
        "id": "extra_info.index",
        "category": "extra_info.of.level",
    }
    source = write_lines(tmp_path / "p.jsonl", [NESTED])
    (prompt,) = load(source=source, fields=fields, template="none")
    assert (prompt.id, prompt.text, prompt.category) == ("3", "1 + 1", "easy")
    assert prompt.record["answer"] == 2
    assert prompt.record["reward_model"] == NESTED["reward_model"]
    turns = write_lines(tmp_path / "t.jsonl", [{**NESTED, "turns": [{"says": "1 + 2"}]}])
    unknown = NESTED | {"extra_info": {"index": 3, "of": {"level": None}}}
    [of_none] = load(source=write_lines(tmp_path / "n.jsonl", [unknown]), fields=fields)
    assert of_none.category == ""
    inside = fields | {"problem": "turns.0.says"}
    assert load(source=turns, fields=inside, template="none")[0].text == "1 + 2"
    source = write_lines(tmp_path / "p.jsonl", [{**NESTED, "q.text": "plain"}])
    assert load(source=source, fields=fields, template="none")[0].text == "plain"


@pytest.mark.parametrize("name", ["arithmetic-tiny", "arithmetic-worked", "arithmetic"])
def test_the_prompt_sets_of_this_project_read_as_they_stand(name):
    """Recorded results hold a hash of these records, the order of their keys included."""
    path = ROOT / f"probes/prompts/{name}.jsonl"
    found = load(source=f"probes/prompts/{name}.jsonl", template="few-shot")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [json.dumps(prompt.record) for prompt in found] == [*map(json.dumps, written)]
    for prompt, record in zip(found, written, strict=True):
        assert prompt.text == FEW_SHOT.replace("{problem}", record["problem"])
        assert prompt.category == record["category"]


def test_what_looks_like_nothing_or_a_number_is_text(tmp_path):
    values = ["nan", "NA", "none", "001", "true", "1e5", " a", 'a,"b"']
    pairs = [*zip(values, values, strict=True), (False, 0), (8, None)]
    rows = [{"uid": one, "level": other, **ONE} for one, other in pairs]
    fields = {"id": "uid", "category": "level"}
    found = load(source=write_lines(tmp_path / "p.jsonl", rows), fields=fields)
    assert [prompt.id for prompt in found] == [*values, "False", "8"]
    assert [prompt.category for prompt in found] == [*values, "0", ""]


def test_templates(tmp_path, lines):
    """Each shows its problem once, whatever the problem holds; demonstrations are text."""
    for name in (one for one in TEMPLATES if one != "none"):
        (prompt, *_) = load(source=lines, fields={"problem": "answer"}, template=name)
        assert prompt.text == TEMPLATES[name].replace("{problem}", "It is\n#### 2")
    (tmp_path / "mine.txt").write_text("Q: {answer}\nQ: {problem}\nA:")
    rows = [{"problem": "{problem} {answer}", "answer": 1}]
    source = write_lines(tmp_path / "odd.jsonl", rows)
    (prompt,) = load(source=source, template=str(tmp_path / "mine.txt"))
    assert prompt.text == "Q: {answer}\nQ: {problem} {answer}\nA:"
    (tmp_path / "mine.txt").write_text("no place")
    line = r"^prompts\.template = .*: the text has no \{problem\}; add it"
    refuse(line, source=source, template=str(tmp_path / "mine.txt"))


# Rows of a file, the line, and settings.
BAD = [
    ([{"id": 1, **ONE}, {"id": "", **ONE}], "line 2: id is missing or empty"),
    (
        [ONE], "line 1: uid is missing or empty; fill it in, or set prompts.fields.id to "
        "one of problem, answer", {"fields": {"id": "uid"}},
    ),
    (
        word_problems("test"), "line 1: problem is missing or empty; fill it in, or set "
        "prompts.fields.problem to one of question, answer",
    ),
    ([ONE], "line 1: has no level; set", {"fields": {"category": "level"}}),
    ([{"id": 1, **ONE}] * 2, "line 2: id 1 occurs twice; make the ids"),
    (
        [NESTED], "a mapping, which is no id; set prompts.fields.id to one of q.text, "
        "reward_model.ground_truth, reward_model.style",
        {"fields": {"problem": "q.text", "answer": "q", "id": "reward_model"}},
    ),
    (
        [NESTED], "reward_model.style = ['rule']: a list, which is no id",
        {"fields": {"problem": "q.text", "answer": "q", "id": "reward_model.style"}},
    ),
    (
        [NESTED], "line 1: q.text.more is missing or empty",
        {"fields": {"problem": "q.text.more", "answer": "q.text"}},
    ),
    (word_problems("test"), "prompts.split = trai", {"fields": FIELDS, "split": "train"}),
    *(
        ([{"id": 1, **ONE, name: f"a{value}b"}], "holds a control character, a line")
        for name in ("id", "category") for value in "\r\n\x85\u2028\0"
    ),
]  # fmt: skip
# Rows in memory: the problem of one.
BAD_PROBLEMS = [
    (CHAT, "prompt-0000 is a chat: set prompts.chat = true"),
    (CHAT, "and prompts.template = none", {"chat": True, "template": "plain"}),
    ([{"role": "user", "content": ["image"]}], "a role and a text", {"chat": True}),
    (["1 + 1"], "a role and a text", {"chat": True}),
    ({"text": "1 + 1"}, "give a text, or a list of messages"),
]
BAD_TRAINING_SETS = [
    ([{"question": "1", "answer": 2}], "in a column prompt; it has question"),
    ([{"prompt": ""}], "no text or messages"),
    ([{"prompt": "1"}, {"prompt": CHAT}], "texts beside chats"),
    ([], "prompts: none"),
    (iter(TRAINED), "of known length"),
    ([3], "a list of mappings"),
]


def of_a_file(rows, folder, **values):
    load(source=write_lines(folder / "p.jsonl", rows), **values)


def in_memory(problem, folder, **values):
    config = Prompts(source="memory", **{"template": "none"} | values)
    take_prompts([{"problem": problem, "answer": 1}], config, answered=True)


def of_a_trainer(rows, folder):
    choose_prompts(rows, 4, seed=0)


@pytest.mark.parametrize(
    ("read", "case"),
    [
        *((of_a_file, one) for one in BAD),
        *((in_memory, one) for one in BAD_PROBLEMS),
        *((of_a_trainer, one) for one in BAD_TRAINING_SETS),
    ],
)
def test_what_is_no_prompt_set(read, case, tmp_path):
    rows, line, *values = case
    with pytest.raises(InputError, match=re.escape(line)):
        read(rows, tmp_path, **(values[0] if values else {}))


def test_rows_of_a_trainer_are_prompts_in_a_file_and_in_memory(tmp_path):
    rows = [{"prompt": "1 + 1", "answer": 2}, {"prompt": CHAT, "answer": 2}]
    source = str(write_lines(tmp_path / "rows.jsonl", rows))
    config = Prompts(source=source, template="none", chat=True)
    for found in (load_prompts(config, ROOT), take_prompts(rows, config, answered=True)):
        assert [one.turns for one in found] == [CHAT[1:], CHAT]
        assert found[1].text == "1 + 1"


def test_arrays_of_a_frame_are_lists(tmp_path):
    """Answers and chats, as pandas reads them of a Parquet file."""
    path = tmp_path / "rows.parquet"
    pd.DataFrame([{"prompt": CHAT, "answer": ["2", "two"]}]).to_parquet(path)
    rows = pd.read_parquet(path).to_dict("records")
    assert isinstance(rows[0]["prompt"], np.ndarray)
    config = Prompts(source=str(path), template="none", chat=True)
    assert choose_prompts(rows, 1, 0)[0].turns == CHAT
    for found in (load_prompts(config, ROOT), take_prompts(rows, config, answered=True)):
        assert found[0].turns == CHAT
        assert [contains(text, found[0].record) for text in ("two", "3")] == [1, 0]


def test_a_number_of_few_digits_is_what_it_is_written_as(tmp_path):
    path, answers = tmp_path / "rows.parquet", np.array([3.14, 0.1], np.float32)
    pd.DataFrame({"problem": ["a", "b"], "answer": answers}).to_parquet(path)
    assert [one.record["answer"] for one in load(source=str(path))] == [3.14, 0.1]


@pytest.mark.parametrize("missing", [None, math.nan, np.nan, pd.NA, pd.NaT, "", " "])
def test_what_a_frame_calls_missing_is(missing):
    """It would be the answer `nan`, which no completion gives."""
    config = Prompts(source="memory", template="none")
    rows = pd.DataFrame({"problem": ["1 + 1"] * 2, "answer": ["2", missing]})
    with pytest.raises(InputError, match=r"prompts\[1\]: answer is missing or empty; fill"):
        take_prompts(rows.to_dict("records"), config, answered=True)
    with pytest.raises(InputError, match="in, or call one of question, answer problem"):
        take_prompts([{"question": "1 + 1", "answer": 2}], config, answered=True)
    rows = [{"problem": "1 + 1", "answer": 2, "category": missing}]
    [found] = take_prompts(rows, config, answered=True)
    assert found.category == (missing if isinstance(missing, str) else "")


def test_a_trainers_rows_are_the_same_every_time_and_no_first_ones():
    chosen = choose_prompts(TRAINED, 4, seed=0)
    assert len(chosen) == 4
    assert chosen == choose_prompts(TRAINED, 4, seed=0)
    assert all(one.record == TRAINED[int(one.id)] for one in chosen)
    places = {
        tuple(one.id for one in choose_prompts(TRAINED, 4, seed=seed)) for seed in range(20)
    }
    assert len(places) > 10
    assert [one.id for one in choose_prompts(TRAINED, 99, seed=0)] == [*map(str, range(9))]


def test_a_trainers_rows_are_given_as_everywhere_else():
    one, other = choose_prompts(["1 + 1 =", {"problem": "2 + 2 =", "answer": 4}], 3, seed=0)
    assert (one.text, other.text, other.record["answer"]) == ("1 + 1 =", "2 + 2 =", 4)
    (chat,) = choose_prompts([{"prompt": CHAT}], 3, seed=0)
    assert chat.turns == CHAT
