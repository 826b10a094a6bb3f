"""Prompts: from a file or a data set, under our names, in their template."""

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import datasets
import pytest

from mse_lab.errors import InputError
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.prompts import load_prompts, read_records
from mse_lab.probe.rewards import gsm8k
from mse_lab.probe.schema import Prompts
from mse_lab.probe.templates import FEW_SHOT, PLAIN, TEMPLATES, parse_template
from served_hub import COMMIT, ServedHub

ROOT = Path(__file__).resolve().parents[2]
GSM8K = ROOT.parent / "shared/data/gsm8k"
FIELDS = {"problem": "question", "answer": "answer"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep what the library datasets prepares out of the user's cache."""
    folder = tmp_path_factory.mktemp("datasets-cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)


def word_problems(split, count=15):
    """Rows with GSM8K's fields: a question, and a solution with `####` at its end."""
    return [
        {"question": f"{split}: {index} and 2?", "answer": f"It is\n#### {index + 2}"}
        for index in range(count)
    ]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def load(root=ROOT, **values):
    if "source" in values:
        values["source"] = str(values["source"])
    return load_prompts(Prompts.model_validate(values), root)


@pytest.fixture
def lines(tmp_path):
    return write_lines(tmp_path / "sums.jsonl", word_problems("test"))


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


@pytest.mark.parametrize("name", ["arithmetic-tiny", "arithmetic"])
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


def test_lines_are_ended_by_line_feeds_alone(tmp_path):
    """U+2028 may stand in a text; a byte order mark and CR LF do no harm."""
    path = tmp_path / "p.jsonl"
    text = '{"id": 1, "problem": "a\u2028b", "answer": 1}\r\n\r\n{"id": 2, "problem": "c"'
    path.write_bytes(b"\xef\xbb\xbf" + f'{text}, "answer": 2}}\r\n'.encode())
    assert [prompt.text for prompt in load(source=path, template="none")] == [
        "a\u2028b",
        "c",
    ]


@pytest.mark.parametrize("name", ["id", "category"])
@pytest.mark.parametrize("value", ["a\rb", "a\nb", "a\u0085b", "a\u2028b", "\0", "x" * 501])
def test_what_cannot_stand_in_a_line_of_a_table(tmp_path, name, value):
    row = {"id": 1, "problem": "1", "answer": 1, name: value}
    expected = rf"p.jsonl, line 1: {name} '.*' (holds a control|is longer than 500)"
    with pytest.raises(InputError, match=expected):
        load(source=write_lines(tmp_path / "p.jsonl", [row]))


def test_what_looks_like_nothing_or_a_number_is_text(tmp_path):
    values = ["nan", "NA", "none", "001", "true", "1e5", " a", 'a,"b"']
    rows = [{"id": one, "problem": "1", "answer": 1, "category": one} for one in values]
    rows.append({"id": False, "problem": "1", "answer": 1, "category": 0})
    found = load(source=write_lines(tmp_path / "p.jsonl", rows))
    assert [prompt.id for prompt in found] == [*values, "False"]
    assert [prompt.category for prompt in found] == [*values, "0"]


def test_carriage_returns_end_lines_too(tmp_path):
    row = '{"id": %d, "problem": "1", "answer": 1}'
    path = tmp_path / "p.jsonl"
    path.write_bytes("\r".join([row % 1, row % 2]).encode())
    assert [prompt.id for prompt in load(source=path)] == ["1", "2"]


@pytest.mark.parametrize("name", ["a--b/c", "a/b.git", "-a/b"])
def test_no_name_for_the_hub(name):
    with pytest.raises(InputError, match="no such file or folder, and no name for the Hub"):
        load(source=name)


# Templates


SHOTS = [
    {"problem": "1 and 1?", "answer": "2"},
    {"problem": "{answer}", "answer": "{problem}"},
]


def test_a_template_with_demonstrations():
    """A demonstration that holds a place's name is text, not a place."""
    template = parse_template(
        "Solve.\n\n{shots}\nQ: {problem}\nA: {answer}\n\n{/shots}\nQ: {problem}\nA:", "t"
    )
    assert template.render("5?", SHOTS) == (
        "Solve.\n\nQ: 1 and 1?\nA: 2\n\nQ: {answer}\nA: {problem}\n\nQ: 5?\nA:"
    )
    assert template.render("{answer} {shots}") == "Solve.\n\nQ: {answer} {shots}\nA:"


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_shows_its_problem_once(name):
    template = parse_template(TEMPLATES[name], name)
    text = template.render("the problem {problem}", SHOTS[:1] if template.shot else [])
    assert text.count("the problem {problem}") == 1
    assert ("1 and 1?" in text) == bool(template.shot)
    assert not any(mark in text for mark in ("{shots}", "{/shots}", "{answer}"))


def test_templates_of_the_paper_are_as_they_were():
    assert parse_template(PLAIN, "plain").render("1 + 1 =") == (
        "Solve the arithmetic problem. Return ONLY the final integer.\n1 + 1 ="
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no place", "no {problem}"),
        ("{shots}{problem}{answer}{/shots}", "no {problem}"),
        (
            "{shots}{problem}{/shots}{problem}",
            "a demonstration needs {problem} and {answer}",
        ),
        ("{shots}{problem}", "must stand once each"),
        ("{/shots}{problem}{shots}", "must stand once each"),
        ("{shots}{problem}{answer}{/shots}" * 2 + "{problem}", "must stand once each"),
    ],
    ids=["bare", "only shots", "no answer", "open", "reversed", "twice"],
)
def test_a_broken_template(text, message, tmp_path, lines):
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(source=lines, fields=FIELDS, template=str(path))
    assert message in str(caught.value)
    assert "prompts.template = " in str(caught.value)


# Demonstrations


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
    with pytest.raises(InputError, match="has no place for demonstrations"):
        load(source=lines, fields=FIELDS, limit=1, template=template, shots={"count": 1})


# Data sets, through the library datasets


@pytest.fixture
def splits():
    return datasets.DatasetDict(
        {
            split: datasets.Dataset.from_list(word_problems(split, count))
            for split, count in (("train", 5), ("test", 15))
        }
    )


def as_lines(folder, splits):
    for split, rows in splits.items():
        rows.to_json(folder / f"{split}.jsonl")


def as_parquet(folder, splits):
    for split, rows in splits.items():
        rows.to_parquet(folder / f"{split}-00000-of-00001.parquet")


def as_saved(folder, splits):
    splits.save_to_disk(folder)


@pytest.mark.parametrize("write", [as_lines, as_parquet, as_saved])
def test_a_local_folder(write, splits, tmp_path, lines):
    """The test split by default, the demonstrations from the training split."""
    folder = tmp_path / "sums"
    folder.mkdir()
    write(folder, splits)
    values = {"fields": FIELDS, "template": "word-problem"}
    train = write_lines(tmp_path / "train.jsonl", word_problems("train", 5))
    assert load(source=folder, **values, shots={"count": 2}) == load(
        source=lines, **values, shots={"count": 2, "source": str(train)}
    )
    assert len(load(source=folder, **values, split="train")) == 5


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_local_file(suffix, splits, tmp_path, lines):
    path = tmp_path / f"sums.{suffix}"
    getattr(splits["test"], f"to_{suffix}")(path)
    assert load(source=path, fields=FIELDS) == load(source=lines, fields=FIELDS)


def write_repository(folder, splits):
    """Two subsets, as the Hub holds GSM8K."""
    configs = []
    for subset in ("main", "socratic"):
        (folder / subset).mkdir(parents=True)
        as_parquet(folder / subset, splits)
        files = "".join(
            f"  - split: {split}\n    path: {subset}/{split}-*\n" for split in splits
        )
        configs.append(f"- config_name: {subset}\n  data_files:\n{files}")
    (folder / "README.md").write_text(f"---\nconfigs:\n{''.join(configs)}---\n")
    return folder


BAD_DATA = {
    "no subset": ({}, "Config name is missing"),
    "wrong subset": ({"subset": "min"}, "Available: ['main', 'socratic']"),
    "wrong split": (
        {"subset": "main", "split": "dev"},
        "Should be one of ['train', 'test']",
    ),
    "local revision": ({"subset": "main", "revision": "main"}, "prompts.revision = main"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_a_bad_data_set(case, splits, tmp_path):
    changes, message = BAD_DATA[case]
    folder = write_repository(tmp_path / "sums", splits)
    assert len(load(source=folder, fields=FIELDS, subset="main")) == 15
    with pytest.raises(InputError) as caught:
        load(source=folder, fields=FIELDS, **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_that_json_lacks(tmp_path):
    """A date becomes text; what no text can show is refused, not dropped."""
    rows = [{"problem": "1", "answer": 1, "when": date(2026, 1, 2)}]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "dated.parquet")
    assert load(source=tmp_path / "dated.parquet")[0].record["when"] == "2026-01-02"
    rows = [{"problem": "1", "answer": 1, "sound": b"\x00"}]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "loud.parquet")
    with pytest.raises(InputError, match=r"loud.parquet, row 0: .* \(bytes\)"):
        load(source=tmp_path / "loud.parquet")


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


# The Hub

READ = """
import json, sys
from pathlib import Path
from mse_lab.errors import InputError
from mse_lab.probe.schema import Prompts
from mse_lab.probe.prompts import load_prompts
for values in json.loads(sys.argv[1]):
    try:
        prompts = load_prompts(Prompts.model_validate(values), Path())
        print(json.dumps([[prompt.id, prompt.text] for prompt in prompts]))
    except InputError as error:
        print(error)
"""


@pytest.fixture
def read_hub(tmp_path):
    """Return a function that reads owner/sums in a process with a Hub cache of its own."""

    def read(environment, *changes):
        prompts = {
            "source": "owner/sums",
            "subset": "main",
            "fields": FIELDS,
            "template": "word-problem",
            "shots": {"count": 1},
            "limit": 3,
        }
        done = subprocess.run(
            [sys.executable, "-c", READ, json.dumps([prompts | one for one in changes])],
            env={**os.environ, "HF_HOME": str(tmp_path / ".cache")} | environment,
            cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout.splitlines()

    return read


def test_a_data_set_of_the_hub(splits, tmp_path, read_hub, lines):
    """Fetched once; then found without a network, at its revision and at no other."""
    train = write_lines(tmp_path / "train.jsonl", word_problems("train", 5))
    expected = load(source=lines, fields=FIELDS, template="word-problem", limit=3,
                    shots={"count": 1, "source": str(train)})  # fmt: skip
    pinned, other = {"revision": COMMIT}, {"revision": "f" * 40}
    served = ServedHub("owner/sums", write_repository(tmp_path / "repository", splits))
    with served as hub:
        environment = {"HF_ENDPOINT": hub.endpoint}
        found, no_revision, no_set = read_hub(
            environment, pinned, {"revision": "nope"}, {"source": "owner/sms"}
        )
    assert json.loads(found) == [[prompt.id, prompt.text] for prompt in expected]
    assert no_revision.startswith(
        "prompts.revision = nope: owner/sums has no such revision"
    )
    assert no_set.startswith("prompts.source = owner/sms: no such file or folder")
    for without in (environment, {"HF_HUB_OFFLINE": "1"}):
        again, refused = read_hub(without, pinned, other)
        assert again == found
        assert refused == (
            "prompts.source = owner/sums: not in the local cache, and the Hub cannot be "
            "reached; where there is a network, fetch it with: "
            f"hf download owner/sums --repo-type dataset --revision {'f' * 40}"
        )


def test_the_library_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'mse_lab\[data\]'") as caught:
        load(source="openai/gsm8k")
    assert "prompts.source = openai/gsm8k" in str(caught.value)
    assert "\n" not in str(caught.value)


# Complaints


BAD = {
    "mixed ids": (
        [{"problem": 1, "answer": 1}, {"id": 2, "problem": 2, "answer": 2}],
        {},
        "line 2: has an id and the first has none",
    ),
    "id missing": (
        [{"id": 1, "problem": 1, "answer": 1}, {"problem": 2, "answer": 2}],
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


@pytest.mark.parametrize("source", ["none.jsonl", "folder/none.jsonl", "a/b/c", "gsm8k"])
def test_no_such_source(source):
    """A misspelt path is not looked for on the Hub."""
    with pytest.raises(InputError, match=f"prompts.source = {source}: no such file"):
        load(source=source)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"fields": {"question": "x"}}, "unknown key prompts.fields.question; "),
        ({"shots": {"cuont": 4}}, "unknown key prompts.shots.cuont; did you mean count?"),
        ({"shots": {"split": "train"}}, "split is given and no count; add count: 4"),
        ({"shots": {"count": -1}}, "prompts.shots.count = -1: "),
        ({"spilt": "train"}, "unknown key prompts.spilt; did you mean split?"),
        ({"fields": {"answer": 3}}, "prompts.fields.answer = 3: "),
    ],
    ids=["field", "shot", "no count", "negative", "split", "no name"],
)
def test_a_bad_configuration(prompts, message):
    with pytest.raises(InputError) as caught:
        parse_probe(
            {"model": {"path": "x"}, "prompts": {"source": "x"} | prompts}, "p.yaml"
        )
    assert message in str(caught.value)


# GSM8K itself


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
