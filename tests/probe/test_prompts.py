"""Prompts: from a file or a data set, under our names, in their template."""

import json

import datasets
import pytest

from mse_lab.errors import InputError
from mse_lab.probe.prompt_templates import FEW_SHOT
from mse_lab.probe.prompts import load_prompts, read_records, take_prompts
from mse_lab.probe.rewards import gsm8k
from mse_lab.probe.schema import Prompts
from mse_lab.probe.sources import csv_rows
from prompt_sets import FIELDS, ROOT, load, word_problems, write_lines

GSM8K = ROOT.parent / "shared/data/gsm8k"


def test_fields_under_our_names_in_the_whole_row(lines):
    row = word_problems("test")[12]
    prompt = load(source=lines, fields=FIELDS, template="none")[12]
    assert prompt.text == "test: 12 and 2?"
    assert prompt.record == {**row, "id": "sums-0012", "problem": row["question"]}
    assert prompt.id == "sums-0012"
    assert prompt.category == ""
    assert gsm8k("14", prompt.record) == 1
    assert gsm8k("15", prompt.record) == 0


def test_ids_stay_under_a_limit(lines):
    whole = load(source=lines, fields=FIELDS)
    assert [prompt.id for prompt in whole] == [f"sums-{index:04d}" for index in range(15)]
    assert load(source=lines, fields=FIELDS, limit=4) == whole[:4]


def test_other_ids_and_categories(tmp_path):
    rows = [{"uid": 7, "problem": "a", "answer": 1, "level": "hard"},
            {"uid": 8, "problem": "b", "answer": 2, "level": None}]  # fmt: skip
    fields = {"id": "uid", "category": "level"}
    first, second = load(source=write_lines(tmp_path / "x.jsonl", rows), fields=fields)
    assert (first.id, first.category) == ("7", "hard")
    assert (second.id, second.category) == ("8", "")


NESTED = {"q": {"text": "1 + 1"}, "reward_model": {"ground_truth": 2, "style": ["rule"]},
          "extra_info": {"index": 3, "of": {"level": "easy"}}}  # fmt: skip


def test_columns_inside_others_go_by_dotted_names(tmp_path):
    """The row keeps them as they are; a name with a dot in it comes first."""
    fields = {"problem": "q.text", "answer": "reward_model.ground_truth",
              "id": "extra_info.index", "category": "extra_info.of.level"}  # fmt: skip
    source = write_lines(tmp_path / "p.jsonl", [NESTED])
    (prompt,) = load(source=source, fields=fields, template="none")
    assert (prompt.id, prompt.text, prompt.category) == ("3", "1 + 1", "easy")
    assert prompt.record["answer"] == 2
    assert prompt.record["reward_model"] == NESTED["reward_model"]
    source = write_lines(tmp_path / "p.jsonl", [{**NESTED, "q.text": "plain"}])
    assert load(source=source, fields=fields, template="none")[0].text == "plain"


@pytest.mark.parametrize("name", ["arithmetic-tiny", "arithmetic-worked", "arithmetic"])
def test_the_prompt_sets_of_this_project_read_as_they_stand(name):
    """Recorded results hold a hash of these records, the order of their keys included."""
    path = ROOT / f"probes/prompts/{name}.jsonl"
    found = load(source=f"probes/prompts/{name}.jsonl", template="few-shot")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [json.dumps(prompt.record) for prompt in found] == [
        json.dumps(record) for record in written
    ]
    for prompt, record in zip(found, written, strict=True):
        assert prompt.text == FEW_SHOT.replace("{problem}", record["problem"])
        assert prompt.category == record["category"]


@pytest.mark.parametrize("name", ["id", "category"])
@pytest.mark.parametrize("value", ["a\rb", "a\nb", "a\u0085b", "a\u2028b", "\0"])
def test_what_cannot_stand_in_a_line_of_a_table(tmp_path, name, value):
    row = {"id": 1, "problem": "1", "answer": 1, name: value}
    expected = rf"p.jsonl, line 1: {name} '.*' holds a control"
    with pytest.raises(InputError, match=expected):
        load(source=write_lines(tmp_path / "p.jsonl", [row]))


def test_a_csv_s_leading_zeros_stay(tmp_path):
    """001 and 1 are two prompts; columns without such a number are of numbers."""
    path = tmp_path / "codes.csv"
    path.write_text("id,problem,answer,weight\n001,01,7,0.50\n1,1,,1\n")
    first, second = csv_rows(path)
    assert first == {"id": "001", "problem": "01", "answer": 7, "weight": 0.5}
    assert second == {"id": "1", "problem": "1", "answer": None, "weight": 1.0}


def test_what_looks_like_nothing_or_a_number_is_text(tmp_path):
    values = ["nan", "NA", "none", "001", "true", "1e5", " a", 'a,"b"']
    rows = [{"id": one, "problem": "1", "answer": 1, "category": one} for one in values]
    rows.append({"id": False, "problem": "1", "answer": 1, "category": 0})
    found = load(source=write_lines(tmp_path / "p.jsonl", rows))
    assert [prompt.id for prompt in found] == [*values, "False"]
    assert [prompt.category for prompt in found] == [*values, "0"]


def test_demonstrations_from_another_file(lines, tmp_path):
    train = write_lines(tmp_path / "train.jsonl", word_problems("train", 9))
    found = load(source=lines, fields=FIELDS, template="word-problem",
                 shots={"count": 2, "source": str(train)})  # fmt: skip
    assert found[3].text == (
        "Solve the problem step by step. End with a line that holds #### and the final "
        "number.\n\n"
        "Problem: train: 0 and 2?\nSolution: It is\n#### 2\n\n"
        "Problem: train: 1 and 2?\nSolution: It is\n#### 3\n\n"
        "Problem: test: 3 and 2?\nSolution:"
    )


def test_no_demonstration_is_measured_itself(lines):
    """From the same file they are the rows behind the measured ones."""
    found = load(source=lines, fields=FIELDS, template="word-problem", limit=4,
                 shots={"count": 2})  # fmt: skip
    assert "Problem: test: 4 and 2?" in found[0].text
    assert "Problem: test: 5 and 2?" in found[0].text
    for prompt in found:
        assert sum(other.record["problem"] in prompt.text for other in found) == 1


def test_a_measured_problem_is_known_by_its_words(lines, tmp_path):
    """Whatever its case and spacing; and no demonstration is shown twice."""
    rows = [
        {"question": "TEST:  0 and\n2?", "answer": "leaked #### 2"},
        *[{"question": "1 or 2?", "answer": "#### 1"}] * 2,
        {"question": "last", "answer": "#### 0"},
    ]
    train = write_lines(tmp_path / "train.jsonl", rows)
    found = load(source=lines, fields=FIELDS, template="word-problem",
                 shots={"count": 2, "source": str(train)})  # fmt: skip
    assert "leaked" not in found[0].text
    assert found[0].text.count("1 or 2?") == 1
    with pytest.raises(
        InputError, match=r"count = 3: .*train.jsonl has 2 rows that are not"
    ):
        load(source=lines, fields=FIELDS, template="word-problem",
             shots={"count": 3, "source": str(train)})  # fmt: skip


def test_nothing_is_left_to_demonstrate(lines):
    with pytest.raises(
        InputError, match=r"lower prompts.limit, or set prompts.shots.source"
    ):
        load(source=lines, fields=FIELDS, template="word-problem", shots={"count": 1})


@pytest.mark.parametrize("template", ["plain", "few-shot", "none"])
def test_a_template_without_a_place_for_demonstrations(lines, template):
    with pytest.raises(InputError, match="has no demonstrations"):
        load(source=lines, fields=FIELDS, limit=1, template=template, shots={"count": 1})


def test_a_run_on_a_data_set(write_probe, splits, tmp_path, capsys):
    """Its config.yaml, with every default spelt out, gives the same bytes again."""
    import run_mse

    folder = tmp_path / "digits"
    folder.mkdir()
    rows = [
        {"question": text, "answer": f"#### {text[-1]}"} for text in ("1 2", "3", "2 2")
    ]
    datasets.Dataset.from_list(rows).to_parquet(folder / "test.parquet")
    prompts = {"source": str(folder), "fields": FIELDS, "template": "none", "limit": 2}
    path = write_probe(prompts=prompts, reward="gsm8k")
    assert run_mse.main(["run", str(path), "--out", str(tmp_path / "a")]) == 0
    again = tmp_path / "a/small/config.yaml"
    assert run_mse.main(["run", str(again), "--out", str(tmp_path / "b")]) == 0
    for name in ("mse.csv", "prompts.csv"):
        first = (tmp_path / f"a/small/{name}").read_text()
        assert (tmp_path / f"b/config/{name}").read_text() == first.replace(
            "small", "config"
        )
    assert "digits-0001" in first


BAD = {
    "no id": (
        [{"id": 1, "problem": 1, "answer": 1}, {"id": "", "problem": 2, "answer": 2}],
        {},
        "line 2: id is missing or empty",
    ),
    "named id missing": (
        [{"problem": 1, "answer": 1}],
        {"fields": {"id": "uid"}},
        "line 1: uid is missing or empty; fill it in, or set prompts.fields.id to one of "
        "problem, answer",
    ),
    "unmapped": (
        word_problems("test"),
        {},
        "line 1: problem is missing or empty; fill it in, or set prompts.fields.problem to "
        "one of question, answer",
    ),
    "no category": (
        [{"problem": 1, "answer": 1}],
        {"fields": {"category": "level"}},
        "line 1: has no level; set prompts.fields.category",
    ),
    "a mapping as the answer": (
        [NESTED],
        {"fields": {"problem": "q.text", "answer": "reward_model"}},
        "a mapping, which is no answer; set prompts.fields.answer to one of q.text, "
        "reward_model.ground_truth, reward_model.style",
    ),
    "a list as the answer": (
        [NESTED],
        {"fields": {"problem": "q.text", "answer": "reward_model.style"}},
        "reward_model.style = ['rule']: a list, which is no answer",
    ),
    "nothing inside": (
        [NESTED],
        {"fields": {"problem": "q.text.more", "answer": "reward_model.ground_truth"}},
        "line 1: q.text.more is missing or empty",
    ),
    "split of a file": (
        word_problems("test"),
        {"fields": FIELDS, "split": "train"},
        "prompts.split = train: ",
    ),
    "split of the same file": (
        word_problems("test"),
        {"fields": FIELDS, "limit": 1, "template": "boxed",
         "shots": {"count": 1, "split": "train"}},
        "prompts.shots.split = train: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_prompt_set(case, tmp_path):
    rows, values, message = BAD[case]
    with pytest.raises(InputError) as caught:
        load(source=write_lines(tmp_path / "p.jsonl", rows), **values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not GSM8K.is_dir(), reason="GSM8K's own files are not at hand")
def test_gsm8k():
    """Every reference states a number, and no other problem's reference is right."""
    prompts = load(
        source=GSM8K / "test.jsonl",
        fields=FIELDS,
        template="word-problem",
        shots={"count": 4, "source": str(GSM8K / "train-first300.jsonl")},
    )
    assert len(prompts) == 1319
    assert (prompts[0].id, prompts[-1].id) == ("test-0000", "test-1318")
    assert prompts[0].text.count("####") == 5
    assert prompts[0].text.endswith("farmers' market?\nSolution:")
    assert all(gsm8k(prompt.record["answer"], prompt.record) for prompt in prompts)
    assert gsm8k("#### 18", prompts[0].record) == 1
    assert gsm8k("#### 3", prompts[0].record) == 0
    config = Prompts(source=str(GSM8K / "test.jsonl"), fields=FIELDS, limit=5)
    assert read_records(config, ROOT) == [prompt.record for prompt in prompts[:5]]


CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}]
ROWS = [{"prompt": "1 + 1", "answer": 2}, {"prompt": CHAT, "answer": 2}]


def test_rows_of_a_trainer_are_prompts_in_a_file_and_in_memory(tmp_path):
    write_lines(tmp_path / "rows.jsonl", ROWS)
    config = Prompts(source=str(tmp_path / "rows.jsonl"), template="none", chat=True)
    read, taken = load_prompts(config, ROOT), take_prompts(ROWS, config, answered=True)
    assert [one.turns for one in read] == [CHAT[1:], CHAT]
    assert [one.turns for one in taken] == [CHAT[1:], CHAT]
    assert read[1].text == "1 + 1"


@pytest.mark.parametrize(
    ("problem", "changes", "words"),
    [
        (CHAT, {}, "prompt-0000 is a chat: set prompts.chat = true"),
        (CHAT, {"chat": True, "template": "plain"}, "and prompts.template = none"),
        ([{"role": "user", "content": ["image"]}], {"chat": True}, "a role and a content"),
        (["1 + 1"], {"chat": True}, "a role and a content"),
        ({"text": "1 + 1"}, {}, "give a text, or a list of messages"),
    ],
)
def test_what_is_no_prompt_is_not_read_as_text(problem, changes, words):
    config = Prompts(source="memory", **{"template": "none"} | changes)
    with pytest.raises(InputError, match=words):
        take_prompts([{"problem": problem, "answer": 1}], config, answered=True)
