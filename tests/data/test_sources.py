"""Sources: rows of files, of data sets, and of data sets of the Hub."""

import json
import os
import re
import subprocess
import sys
from datetime import date

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mse_lab.data.location import Location
from mse_lab.errors import InputError
from prompt_sets import FIELDS, ROOT, load, refuse
from served_hub import COMMIT, ModelHub, ServedHub

US = pa.timestamp("us")


def test_lines_end_in_line_feeds_or_carriage_returns_alone(tmp_path):
    """U+2028 may stand in a text; a byte order mark and CR LF do no harm."""
    path = tmp_path / "p.jsonl"
    text = '{"id": 1, "problem": "a\u2028b", "answer": 1}\r\n\r\n{"id": 2, "problem": "c"'
    path.write_bytes(b"\xef\xbb\xbf" + f'{text}, "answer": 2}}\r\n'.encode())
    found = load(source=path, template="none")
    assert [prompt.text for prompt in found] == ["a\u2028b", "c"]
    row = '{"id": %d, "problem": "1", "answer": 1}'
    path.write_bytes("\r".join([row % 1, row % 2]).encode())
    assert [prompt.id for prompt in load(source=path)] == ["1", "2"]


@pytest.mark.parametrize("source", ["none.jsonl", "folder/none.jsonl", "a/b/c", "gsm8k"])
def test_no_such_source(source):
    """A misspelt path is not looked for on the Hub; a name that is none is refused."""
    refuse(f"prompts.source = {source}: no such file", source=source)
    for name in ("a--b/c", "a/b.git", "-a/b"):
        refuse("no such file or folder, and of the Hub", source=name)


def as_lines(folder, splits):
    for split, rows in splits.items():
        rows.to_json(folder / f"{split}.jsonl")


def as_parquet(folder, splits):
    for split, rows in splits.items():
        rows.to_parquet(folder / f"{split}-00000-of-00001.parquet")


@pytest.mark.parametrize("write", [as_lines, as_parquet])
def test_a_local_folder(write, splits, tmp_path, lines):
    """The test split by default."""
    (folder := tmp_path / "sums").mkdir()
    write(folder, splits)
    assert load(source=folder, fields=FIELDS) == load(source=lines, fields=FIELDS)
    assert len(load(source=folder, fields=FIELDS, split="train")) == 5


def test_a_local_file(splits, tmp_path, lines, monkeypatch):
    """Without a further library; a CSV's cells are texts, an empty one is none."""
    for suffix in ("parquet", "csv"):
        path = tmp_path / f"sums.{suffix}"
        getattr(splits["test"], f"to_{suffix}")(path)
        assert load(source=path, fields=FIELDS) == load(source=lines, fields=FIELDS)
    monkeypatch.setitem(sys.modules, "datasets", None)
    path.write_text('id,problem,answer,level\n001,"1, 2",NA,0.50\n1,2,1,\n')
    one, other = (prompt.record for prompt in load(source=path))
    assert one == {"id": "001", "problem": "1, 2", "answer": "NA", "level": "0.50"}
    assert (other["id"], other["level"]) == ("1", None)
    refuse(r"openai/gsm8k: .*pip install '\.\[data\]' in", source="openai/gsm8k")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.csv", 'problem,answer\n"1,2\n', ": cannot be read: unexpected end of data"),
        ("a.csv", "answer,answer\n2,3\n", ": two columns are named answer; rename one"),
        ("a.csv", "problem,answer\n1\n", ", line 2: 1 cells for 2 columns; repair it"),
        ("a.json", '\n[{"problem": 1}]', ": a JSON array; give one JSON object a line"),
        ("a.tsv", "a\tb", ": a table with tabs; give one JSON object a line"),
        ("a.jsonl.gz", "", ": packed; give one JSON object a line"),
        ("a.csv", "problem;answer\n1 + 1;2\n", ".*columns are separated by ';', not comm"),
        ("a.csv", "problem\tanswer\n1\t2\n", ".*columns are separated by '.t', not comm"),
    ],
)
def test_a_file_that_holds_no_rows(name, text, line, tmp_path):
    (tmp_path / name).write_text(text)
    refuse(f"{name}{line}", source=tmp_path / name)


def readme_of(**files):
    """The README of a data set whose subsets have splits in files: split -> path."""
    configs = [
        f"- config_name: {subset}\n  data_files:\n"
        + "".join(
            f"  - split: {split}\n    path: {path}\n" for split, path in paths.items()
        )
        for subset, paths in files.items()
    ]
    return f"---\nconfigs:\n{''.join(configs)}---\n"


def write_repository(folder, splits):
    """Two subsets, as the Hub holds GSM8K."""
    subsets = ("main", "socratic")
    for subset in subsets:
        (folder / subset).mkdir(parents=True)
        as_parquet(folder / subset, splits)
    files = {one: {split: f"{one}/{split}-*" for split in splits} for one in subsets}
    (folder / "README.md").write_text(readme_of(**files))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "Config name is missing"),
        ({"subset": "min"}, "Available: ['main', 'socratic']"),
        ({"subset": "main", "split": "dev"}, "Should be one of ['train', 'test']"),
        ({"subset": "main", "revision": "main"}, "prompts.revision = main"),
    ],
)
def test_a_bad_data_set(changes, message, splits, tmp_path):
    folder = write_repository(tmp_path / "sums", splits)
    assert len(load(source=folder, fields=FIELDS, subset="main")) == 15
    refuse(re.escape(message), source=folder, fields=FIELDS, **changes)


def test_values_that_json_lacks(tmp_path):
    """A date becomes text; what no text can show is refused, not dropped."""
    rows = [{"problem": "1", "answer": 1, "when": date(2026, 1, 2)}]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "dated.parquet")
    assert load(source=tmp_path / "dated.parquet")[0].record["when"] == "2026-01-02"
    rows = [{"problem": "1", "answer": 1, "sound": b"\x00"}]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "loud.parquet")
    refuse(r"loud.parquet, row 0: .* \(bytes\)", source=tmp_path / "loud.parquet")
    columns = {"problem": ["1"], "answer": ["1"], "when": pa.array([1 << 61], US)}
    pq.write_table(pa.table(columns), tmp_path / "late.parquet")
    assert load(source=tmp_path / "late.parquet")[0].record["when"]


READ = """
import json, sys
from pathlib import Path
from mse_lab.errors import InputError
from mse_lab.config.schema import Prompts
from mse_lab.data.prompts import load_prompts
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
    prompts = {
        "source": "owner/sums",
        "subset": "main",
        "fields": FIELDS,
        "template": "word-problem",
        "limit": 3,
    }

    def read(environment, *changes):
        done = subprocess.run(
            [sys.executable, "-c", READ, json.dumps([prompts | one for one in changes])],
            env={**os.environ, "HF_HOME": str(tmp_path / ".cache")} | environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        return done.stdout.splitlines()

    return read


def test_a_data_set_of_the_hub(splits, tmp_path, read_hub, lines):
    """Fetched once; then found without a network, at its revision and at no other."""
    expected = load(source=lines, fields=FIELDS, template="word-problem", limit=3)
    pinned, other = {"revision": COMMIT}, {"revision": "f" * 40}
    served = ServedHub("owner/sums", write_repository(tmp_path / "repository", splits))
    with served as hub:
        environment = {"HF_ENDPOINT": hub.endpoint}
        found, no_revision, no_set = read_hub(
            environment, pinned, {"revision": "nope"}, {"source": "owner/sms"}
        )
    assert json.loads(found) == [[prompt.id, prompt.text] for prompt in expected]
    assert "Revision Not Found" in no_revision
    assert no_set.startswith("prompts.source = owner/sms: no such file or folder, and of")
    again, refused = read_hub({"HF_HUB_OFFLINE": "1"}, pinned, other)
    assert again == found
    assert refused.startswith("prompts.source = owner/sums: no such file or folder")
    assert refused.endswith(
        f": hf download owner/sums --repo-type dataset --revision {'f' * 40}"
    )


@pytest.mark.parametrize(
    ("name", "revision", "expected"),
    [
        ("guarded/model", None, "gated"),
        ("nobody/model", None, "Repository Not Found"),
        ("tiny/model", "v9", "Revision Not Found"),
        ("broken/model", None, "503"),
        ("a--b/c", None, "Cannot have -- or"),
    ],
)
def test_what_the_hub_refuses_is_one_line(name, revision, expected, monkeypatch, tmp_path):
    hub = ModelHub(monkeypatch, tmp_path / "cache", tmp_path)
    with hub, pytest.raises(InputError, match=expected) as refused:
        Location("model.path", name, revision).fetch()
    message = str(refused.value)
    assert message.startswith(f"model.path = {name}: no such file or folder, and of the ")
    data = Location("prompts.source", "owner/name", "v1", "dataset")
    assert data.download == "hf download owner/name --repo-type dataset --revision v1"
    assert Location("model.path", "owner/name").download == "hf download owner/name"
