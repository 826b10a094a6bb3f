"""A new probe: what files tell is filled in, and the rest stands at its default."""

import json
import re
import shutil
from pathlib import Path

import pytest
from pydantic import BaseModel

import run_mse
from mse_lab.probe.new_probe import write_new
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.schema import Probe
from prompt_sets import write_lines

ROOT = Path(__file__).resolve().parents[2]
SUMS = [{"question": f"1 + {n}?", "solution": str(n + 1)} for n in range(3)]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in a folder with prompts, and a checkpoint as far as it is looked at."""
    monkeypatch.chdir(tmp_path)
    Path("my-model").mkdir()
    Path("my-model/config.json").write_text("{}")
    write_lines(Path("sums.jsonl"), SUMS)
    return tmp_path


def written(model="my-model", prompts="sums.jsonl", out=None):
    write_new(model, prompts, out and Path(out), ROOT)
    return load_probe(Path(out or "my-model.yaml"))


def leaves(model, *above):
    """The places of all values of a probe."""
    for key, value in model:
        if isinstance(value, BaseModel):
            yield from leaves(value, *above, key)
        else:
            yield ".".join((*above, key))


def test_what_the_files_tell_is_filled_in():
    probe = written()
    assert (probe.model.path, probe.prompts.source) == ("my-model", "sums.jsonl")
    fields = probe.prompts.fields
    assert (fields.problem, fields.answer, fields.id) == ("question", "solution", "id")
    assert (probe.reward, probe.prompts.chat) == ("integer", False)
    assert probe.sampling.max_new_tokens == 16


@pytest.mark.parametrize(
    ("answer", "reward", "template", "tokens"),
    [("1,024", "integer", "none", 16), ("so\n#### 3.5", "gsm8k", "word-problem", 256),
     ("yes", "exact", "none", 16)],
)  # fmt: skip
def test_the_reward_is_one_that_reads_every_answer(answer, reward, template, tokens):
    write_lines(Path("sums.jsonl"), [*SUMS, {"question": "?", "solution": answer}])
    probe = written()
    assert (probe.reward, probe.prompts.template) == (reward, template)
    assert probe.sampling.max_new_tokens == tokens


@pytest.mark.parametrize(
    ("file", "text"),
    [("chat_template.jinja", "x"), ("tokenizer_config.json", '{"chat_template": "x"}')],
)
def test_a_chat_template_is_used(file, text, here):
    (here / "my-model/tokenizer_config.json").write_text("{}")
    assert not written(out="without.yaml").prompts.chat
    (here / "my-model" / file).write_text(text)
    assert written(out="with.yaml").prompts.chat


def test_what_stands_behind_a_hash_is_the_default():
    """Every key of a probe is there; with the hashes taken away it is the same probe."""
    before = written()
    text = Path("my-model.yaml").read_text()
    whole = re.sub(r"^( *)# ([a-z_]+: )", r"\1\2", text, flags=re.MULTILINE)
    Path("my-model.yaml").write_text(whole)
    assert load_probe(Path("my-model.yaml")) == before
    keys = {place.rpartition(".")[2] for place in leaves(before)}
    absent = {key for key in keys if not re.search(rf"\b{key}: ", whole)}
    assert absent == {"adapter_revision"}
    assert "#" in text
    assert set(Probe.model_fields) <= set(re.findall(r"^(\w+):", whole, re.MULTILINE))


def test_a_hub_s_model_and_prompts_are_not_asked_for(monkeypatch):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    said = write_new("owner/model", "owner/sums", None, ROOT)
    assert "prompts not read" in said
    probe = load_probe(Path("model.yaml"))
    assert (probe.model.path, probe.prompts.source) == ("owner/model", "owner/sums")
    assert (probe.reward, probe.prompts.limit) == ("exact", 100)


def test_a_probe_in_another_folder_leads_to_the_same_files(here):
    Path("mine").mkdir()
    probe = written(out="mine/one.yaml")
    assert (here / probe.model.path).samefile(here / "my-model")
    assert (here / probe.prompts.source).samefile(here / "sums.jsonl")


def test_names_that_yaml_would_misread(here):
    """A colon and a hash, a name that is a number."""
    for name in ("a: b #c.jsonl", "1e3.jsonl"):
        shutil.copy("sums.jsonl", here / name)
        assert written(prompts=name, out=f"{name}.yaml").prompts.source == name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere", "sums.jsonl"), "MODEL = nowhere: no such folder"),
        ((".", "sums.jsonl"), "MODEL = .: no config.json in it"),
        (("my-model", "none.jsonl"), "prompts.source = none.jsonl: no such file"),
        (("my-model", "empty.jsonl"), "empty.jsonl: has no prompts"),
        (("my-model", "odd.jsonl"), "no column is called problem or question or"),
        (("my-model", "sums.jsonl", "--out", "there.yaml"), "there.yaml: exists"),
        (("my-model", "sums.jsonl", "--out", "no/x.yaml"), "no/x.yaml: cannot be written"),
    ],
)
def test_what_cannot_be_used_is_one_line(words, message, refused):
    Path("empty.jsonl").write_text("\n")
    write_lines(Path("odd.jsonl"), [{"text": "?", "answer": 1}])
    Path("there.yaml").write_text("mine")
    assert message in refused("init", *words)
    assert Path("there.yaml").read_text() == "mine"


def test_columns_of_other_names_are_named(capsys):
    write_lines(
        Path("gold.jsonl"), [{"asked": f"1 + {n}?", "gold": n + 1} for n in range(3)]
    )
    words = ["my-model", "gold.jsonl", "--problem", "asked", "--answer", "gold"]
    assert run_mse.main(["init", *words]) == 0
    fields = load_probe(Path("my-model.yaml")).prompts.fields
    assert (fields.problem, fields.answer) == ("asked", "gold")
    said = capsys.readouterr().out
    assert "first prompt, gold-0000, as the model gets it: '1 + 0?'\n" in said
    assert "rewards: 1 for its reference answer '1', 0 for '2'\n" in said


def test_chats_are_measured_as_chats():
    turns = [{"role": "user", "content": "1 + 1?"}]
    write_lines(Path("chats.jsonl"), [{"prompt": turns, "answer": "so\n#### 2"}] * 3)
    probe = written(prompts="chats.jsonl")
    assert (probe.prompts.chat, probe.prompts.template) == (True, "none")
    assert (probe.prompts.fields.problem, probe.reward) == ("prompt", "gsm8k")


@pytest.mark.parametrize(
    "settings",
    [{"max_position_embeddings": 20}, {"n_positions": 20},
     {"text_config": {"max_position_embeddings": 20}}],
)  # fmt: skip
def test_no_more_tokens_than_half_of_the_context(settings):
    Path("my-model/config.json").write_text(json.dumps(settings))
    assert written().sampling.max_new_tokens == 10


def test_a_new_probe_runs_as_it_stands(checkpoint, capsys):
    """And the answers find the run by the probe's name, though its model has it, too."""
    shutil.copytree(checkpoint, "tiny")
    rows = [{"problem": "1 2", "answer": n % 3} for n in range(3)]
    write_lines(Path("digits.jsonl"), rows)
    assert run_mse.main(["init", "tiny", "digits.jsonl"]) == 0
    assert "next: mse-lab advise tiny.yaml" in capsys.readouterr().out
    small = [f"pool={json.dumps({'reference': 16, 'replicate': 128})}"]
    small += ["interval.resamples=100", "sampling.max_new_tokens=2"]
    words = [word for one in small for word in ("--set", one)]
    assert run_mse.main(["run", "tiny", *words]) == 0
    assert Path("results/tiny/mse.csv").is_file()
    for name in ("tiny", "tiny.yaml", "results/tiny"):
        assert run_mse.main(["claims", name]) == 0
    assert run_mse.main([]) == 0
    assert re.search(r"^  tiny +of another configuration", capsys.readouterr().out, re.M)
