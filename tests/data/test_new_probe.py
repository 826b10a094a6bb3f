"""A new probe: what files tell is filled in, what is asked for comes first, or one line."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from pydantic import BaseModel

import run_mse
from log_makers import write_lines
from mse_lab.commands.run import NEXT
from mse_lab.config.probe_files import load_probe
from mse_lab.config.schema import Probe
from mse_lab.data.new_probe import Wanted, write_new
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import load_reward
from mse_lab.errors import InputError
from mse_lab.project import PROJECT as ROOT

SUMS = [{"question": f"1 + {n}?", "solution": str(n + 1)} for n in range(3)]
IM = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in a folder with prompts, and a checkpoint as far as it is looked at."""
    monkeypatch.chdir(tmp_path)
    Path("my-model").mkdir()
    Path("my-model/config.json").write_text("{}")
    Path("my-model/tokenizer_config.json").write_text("{}")
    write_lines(Path("sums.jsonl"), SUMS)
    return tmp_path


def said(prompts="sums.jsonl", out=None, model="my-model", **wanted):
    """Give what is said of a new probe, of prompts that are there or of these rows."""
    if isinstance(prompts, list):
        prompts = write_lines(Path("rows.jsonl"), prompts).name
    lines = write_new(model, prompts, out and Path(out), ROOT, Wanted(**wanted))
    return "\n".join(lines)


def written(prompts="sums.jsonl", out=None, **wanted):
    said(prompts, out, **wanted)
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
    assert (probe.sampling.max_new_tokens, probe.training) == (16, None)
    half = {"max_position_embeddings": 20}  # Of the context, at most.
    for at, settings in enumerate([half, {"n_positions": 20}, {"text_config": half}]):
        Path("my-model/config.json").write_text(json.dumps(settings))
        assert written(out=f"{at}.yaml").sampling.max_new_tokens == 10


WORKED = [f"We add. \\boxed{{{n}}}" for n in range(3)]
# Answers -> reward, template, tokens; None where no built-in reward fits.
REWARDS = [
    (["1,024", 5], ("integer", "none", 16)),
    (["so\n#### 3.5", "6"], ("gsm8k", "word-problem", 256)),
    (WORKED, ("math", "none", 256)),
    ([[one] for one in WORKED], ("math", "none", 256)),
    (["\\frac{1}{2}", "0.5", "x^2"], None),
    (["yes", "New York City"], None),
    (["I think that it is a nice day.", "1"], None),
    (["So the answer is 7.", "It is 8"], None),
    (["def f():\n    return 1"], None),
    (["$x$", "this is a long sentence of words"], None),
]


@pytest.mark.parametrize(("answers", "chosen"), REWARDS)
def test_the_reward_is_one_that_a_completion_can_meet(answers, chosen):
    """Each answer is met by a completion that gives it, and by none that says nothing."""
    rows = [{"question": f"{at}?", "solution": one} for at, one in enumerate(answers)]
    if chosen is None:
        with pytest.raises(InputError, match="name the reward by --reward: contains"):
            written(rows)
        assert not Path("my-model.yaml").exists()
        assert written(rows, reward="contains").reward == "contains"
        return
    probe = written(rows)
    tokens = probe.sampling.max_new_tokens
    assert (probe.reward, probe.prompts.template, tokens) == chosen
    reward = load_reward(probe.reward)
    for prompt in load_prompts(probe.prompts, ROOT):
        right = str(prompt.record["answer"])
        met = [reward(one, prompt.record) for one in (right, f"\\boxed{{{right}}}")]
        assert (max(met), reward("", prompt.record)) == (1, 0)


@pytest.mark.parametrize(
    ("file", "text"),
    [("chat_template.jinja", "x"), ("tokenizer_config.json", '{"chat_template": "x"}')],
)
def test_a_chat_template_is_used(file, text, here):
    assert not written(out="without.yaml").prompts.chat
    (here / "my-model" / file).write_text(text)
    assert written(out="with.yaml").prompts.chat
    assert not written(out="refused.yaml", chat=False).prompts.chat


def test_prompts_that_hold_the_templates_tokens_do_not_get_it_again():
    Path("my-model/chat_template.jinja").write_text("x")
    rows = [{"input": IM.format(f"{n} + 1 ="), "label": str(n + 1)} for n in range(3)]
    assert "warning: 3 of 3 prompts hold a chat template's tokens" in said(rows)
    assert not load_probe(Path("my-model.yaml")).prompts.chat
    twice = "set prompts.chat = false, or they are in it twice"
    assert twice in said(rows, "b.yaml", chat=True)


def test_chats_are_measured_as_chats():
    turns = [{"role": "user", "content": "1 + 1?"}]
    rows = [{"prompt": turns, "answer": "so\n#### 2"}] * 3
    probe = written(rows)
    assert (probe.prompts.chat, probe.prompts.template) == (True, "none")
    assert (probe.prompts.fields.problem, probe.reward) == ("prompt", "gsm8k")
    with pytest.raises(InputError, match="--no-chat: the prompts are chats"):
        written(rows, "b.yaml", chat=False)


def test_nested_columns_go_by_dotted_names():
    """As in verl's files; a part that is no answer is refused, with those that are."""
    model = {"style": "rule", "ground_truth": "5"}
    row = {
        "data_source": "sums",
        "prompt": [{"role": "user", "content": "1 + 4 ="}],
        "reward_model": model,
        "extra_info": {"split": "train"},
    }
    pd.DataFrame([row] * 3).to_parquet("verl.parquet")
    probe = written(prompts="verl.parquet")
    assert probe.prompts.fields.answer == "reward_model.ground_truth"
    assert (probe.reward, probe.prompts.chat) == ("integer", True)
    assert [one.record["answer"] for one in load_prompts(probe.prompts, ROOT)] == ["5"] * 3
    for part in ("reward_model", "extra_info", "prompt"):
        with pytest.raises(InputError, match=rf"{part} = .*: no answer; name one by --ans"):
            written(prompts="verl.parquet", out="b.yaml", answer=part)


ASKED = {"question": "author of Emma", "golden_answers": ["Jane Austen", "Austen"]}
ASKED |= {"reward_model": {"ground_truth": {"target": ["Austen"]}}}
SCORES = """
def whole(solution_str, ground_truth):
    return float(any(one in solution_str for one in ground_truth["target"]))
def broken(text, row):
    return row["absent"]
"""


def test_lists_and_mappings_of_answers(monkeypatch):
    """Any of a list is right; a reward of one's own reads the row, and is tried."""
    rows = [ASKED, ASKED, ASKED | {"golden_answers": "Paris"}]
    Path("scores_of_nq.py").write_text(SCORES)
    monkeypatch.syspath_prepend(".")
    assert written(rows, answer="golden_answers").reward == "contains"
    with pytest.raises(InputError, match=r"reward_model\.ground_truth = .*: no answer"):
        written(rows, "b.yaml")
    assert "warning" not in said(rows, "c.yaml", reward="scores_of_nq:whole")
    fails = "warning: on a bare answer the reward fails: reward = scores_of_nq:br"
    assert fails in said(rows, "d.yaml", reward="scores_of_nq:broken")


def test_says_what_was_not_seen():
    """No tokenizer; and that more prompts are there than are taken."""
    Path("my-model/tokenizer_config.json").unlink()
    told = said([SUMS[n % 3] for n in range(1493)])
    assert "prompts: 100 of 1,493, at random by the seed" in told
    assert "problems in question, answers in solution, reward integer" in told
    assert "warning: no tokenizer of my-model was seen" in told


def test_what_is_asked_for_comes_first(capsys):
    Path("around.txt").write_text("Q: {problem}\nA:")
    words = "my-model sums.jsonl --reward first-integer --max-tokens 3 --answer solution"
    words = ["init", *words.split(), "--template", "around.txt", "--out", "mine.yaml"]
    assert run_mse.main(words) == 0
    probe = load_probe(Path("mine.yaml"))
    assert (probe.reward, probe.sampling.max_new_tokens) == ("first-integer", 3)
    assert probe.prompts.template == "around.txt"
    told = capsys.readouterr().out
    assert r"first prompt, sums-0000, as the model gets it: 'Q: 1 + 0?\nA:'" in told
    assert "rewards: 1 for its reference answer '1', 0 for '2'\n" in told


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
    assert "prompts not read" in said("owner/sums", model="owner/model")
    probe = load_probe(Path("model.yaml"))
    assert (probe.model.path, probe.prompts.source) == ("owner/model", "owner/sums")
    assert (probe.reward, probe.prompts.limit) == ("exact", 100)


def test_names_and_folders_of_every_kind(here):
    """A colon and a hash, a name that is a number; a probe in another folder."""
    for name in ("a: b #c.jsonl", "1e3.jsonl"):
        shutil.copy("sums.jsonl", here / name)
        assert written(prompts=name, out=f"{name}.yaml").prompts.source == name
    Path("mine").mkdir()
    Path("around.txt").write_text("{problem}")
    probe = written(out="mine/one.yaml", template="around.txt")
    assert (here / probe.model.path).samefile(here / "my-model")
    assert (here / probe.prompts.source).samefile(here / "sums.jsonl")
    assert (here / probe.prompts.template).samefile(here / "around.txt")


def test_a_new_probe_runs_as_it_stands(checkpoint, capsys):
    """And the answers find the run by the probe's name, though its model has it, too."""
    shutil.copytree(checkpoint, "tiny")
    rows = [{"problem": "1 2", "answer": n % 3} for n in range(3)]
    write_lines(Path("digits.jsonl"), rows)
    assert run_mse.main(["init", "tiny", "digits.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "next: python run_mse.py advise tiny.yaml\n" in shown
    assert max(map(len, shown.splitlines())) <= 80
    small = [f"pool={json.dumps({'reference': 16, 'replicate': 128})}"]
    small += ["interval.resamples=100", "sampling.max_new_tokens=2"]
    words = [word for one in small for word in ("--set", one)]
    assert run_mse.main(["run", "tiny", *words]) == 0
    assert Path("results/tiny/mse.csv").is_file()
    proposed = re.findall(r"python run_mse\.py (.*)", capsys.readouterr().out)
    assert [line.split() for line in proposed] == [[one, "tiny"] for one in NEXT]
    for name in ("tiny", "tiny.yaml", "results/tiny"):
        assert run_mse.main(["claims", name]) == 0


def test_a_first_row_without_an_answer():
    with pytest.raises(InputError, match="line 1: answer is missing or empty"):
        said([{"question": "1 + 1", "answer": None}, *SUMS])


def test_an_instruction_may_have_no_input():
    rows = [{"instruction": "1 + 1", "input": "", "output": 2}]
    assert written(rows).prompts.fields.problem == "instruction"
    rows.append({"instruction": "Add", "input": "1 + 1", "output": 2})
    with pytest.raises(InputError, match="-0001: instruction and input hold a problem;"):
        said(rows, "other.yaml")
    assert written(rows, "b.yaml", problem="instruction")


def test_the_next_command_is_typed_as_it_stands():
    assert said(out="my own.yaml").endswith(" advise 'my own.yaml'")
