"""Completions and probes written from logs: what a probe reads of them, and refusals."""

import json

import pytest
import yaml

from log_makers import groups_of, summarise, write_lines
from mse_lab.errors import InputError
from mse_lab.policy.prompt_tokens import text_of_tokens
from mse_lab.policy.supplied_completions import find_completions
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import load_prompts
from mse_lab.trainer_logs.write_probe import choose, pool_of, write_completions, write_probe

SIZE = 8


def open_instruct(prompt, step=1, size=SIZE, **more):
    """A group of open-instruct, whose completions are all unlike."""
    return [
        {"step": step, "prompt_idx": prompt, "prompt_tokens": [1 + prompt, 2],
         "reward": n % 2, "response_tokens": [1, n % 3 + 1, 0], "finish_reason": "stop",
         "logprobs": [-1.0, -0.25 * n, -0.5]} | more
        for n in range(size)
    ]  # fmt: skip


def chosen(tmp_path, lines, step=None, *, texts=False):
    summary = summarise(tmp_path, lines)
    return choose(summary.log.source, summary.groups, step, texts=texts)


def written(tmp_path, lines, **given):
    """Write the completions of a log; read the lines back."""
    prompts, _, _ = chosen(tmp_path, lines, **given)
    write_completions(tmp_path / "out.jsonl", prompts)
    return [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("count", range(8, 200, 7))
def test_pools_fit_and_are_a_probes(tmp_path, count):
    """The schema takes them: halves of the reference, two blocks of the largest group."""
    given = pool_of(count)
    pool, largest = given["pool"], given["group_sizes"][-1]
    assert sum(pool.values()) <= count
    assert count - sum(pool.values()) < largest + 2
    path = tmp_path / "a.yaml"
    needed = {"model": {"path": "m"}, "prompts": {"source": "p.jsonl"}}
    path.write_text(yaml.safe_dump(needed | given))
    assert load_probe(path).pool.replicate == pool["replicate"]


def test_the_first_step_by_default(tmp_path):
    lines = open_instruct(0, step=3) + open_instruct(0, step=2) + open_instruct(1, step=2)
    prompts, step, left_out = chosen(tmp_path, lines)
    assert (step, left_out, len(prompts)) == (2, 0, 2)
    assert len(chosen(tmp_path, lines, step=3)[0]) == 1


def test_lines_keep_tokens_rewards_and_log_probabilities(tmp_path):
    lines = written(tmp_path, open_instruct(0))
    assert len(lines) == SIZE
    assert lines[3] == {
        "prompt": "prompt-0000", "reward": 1.0, "tokens": [1, 1, 0],
        "log_probs": [-1.0, -0.75, -0.5],
    }  # fmt: skip


def test_numbers_that_are_no_rewards_do_not_count(tmp_path):
    lines = [
        {"prompt": "a", "tokens": [n, 0], "rewards": {"right": n % 2, "entropy": n * n},
         "advantage": n % 2 - 0.5}
        for n in range(SIZE)
    ]  # fmt: skip
    assert [line["reward"] for line in written(tmp_path, lines)] == [0, 1] * (SIZE // 2)


def test_log_probabilities_in_all_lines_or_in_none(tmp_path):
    lines = open_instruct(0) + open_instruct(1, logprobs=None)
    assert not any("log_probs" in line for line in written(tmp_path, lines))


def test_masks_in_all_lines_where_tools_answered(tmp_path):
    lines = [
        {"prompt": "a", "reward": 0, "tokens": [1, 2, 0], "mask": [1, int(n > 0), 1]}
        for n in range(SIZE)
    ]
    masks = [line["mask"] for line in written(tmp_path, lines)]
    assert masks == [[1, 0, 1]] + [[1, 1, 1]] * (SIZE - 1)
    whole = [line | {"mask": [1, 1, 1]} for line in lines]
    assert not any("mask" in line for line in written(tmp_path, whole))


def test_prompts_with_fewer_completions_are_left_out(tmp_path):
    lines = open_instruct(0) + open_instruct(1) + open_instruct(2, size=5)
    prompts, _, left_out = chosen(tmp_path, lines)
    assert (len(prompts), left_out) == (2, 1)


def test_a_probe_reads_what_was_written(tmp_path, checkpoint):
    """Prompts that are tokens alone get their text from the model's tokenizer."""
    lines = open_instruct(0) + open_instruct(1)
    prompts, _, _ = chosen(tmp_path, lines)
    file, path = tmp_path / "c.jsonl", tmp_path / "mine.yaml"
    write_completions(file, prompts)
    texts = write_probe(
        path, file, prompts, str(checkpoint), 3,
        lambda tokens: text_of_tokens(str(checkpoint), tokens),
    )  # fmt: skip
    probe = load_probe(path)
    read = load_prompts(probe.prompts, tmp_path)
    assert texts.name == "mine-prompts.jsonl"
    assert [prompt.text for prompt in read] == ["12", "22"]
    supplied = find_completions(probe, read, tmp_path)
    assert supplied.rewards("prompt-0001", "reference").tolist() == [0, 1, 0, 1]


def test_a_tokenizer_of_another_model_is_refused(checkpoint):
    with pytest.raises(InputError, match="makes other tokens"):
        text_of_tokens(str(checkpoint), [1, 77])


def messages(*turns):
    return [{"role": role, "content": text} for role, text in turns]


def test_one_message_of_the_user_is_a_chat(tmp_path):
    lines = [
        {"prompt": messages(("user", "1 + 1")), "reward": 1, "tokens": [n, 0]}
        for n in range(SIZE)
    ]
    prompts, _, _ = chosen(tmp_path, lines)
    path = tmp_path / "mine.yaml"
    write_probe(path, tmp_path / "c.jsonl", prompts, "m", 2, lambda tokens: "")
    assert load_probe(path).prompts.chat
    rows = (tmp_path / "mine-prompts.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["problem"] == "1 + 1"


def test_longer_conversations_are_refused(tmp_path):
    turns = messages(("system", "be brief"), ("user", "1 + 1"))
    lines = [{"prompt": turns, "reward": 1, "tokens": [n, 0]} for n in range(SIZE)]
    prompts, _, _ = chosen(tmp_path, lines)
    with pytest.raises(InputError, match="neither a text nor one message"):
        write_probe(tmp_path / "a.yaml", tmp_path / "c", prompts, "m", 2, lambda _: "")


@pytest.mark.parametrize(
    ("lines", "step", "reason"),
    [
        (open_instruct(0, size=4), None, "4 completions of a prompt; scores need 8"),
        (
            open_instruct(0),
            9,
            "no prompt has 8 completions at step 9; the steps are 1 to 1",
        ),
        (groups_of([0, 1] * 4), None, "no token ids, and a text does not say"),
    ],
    ids=["few", "step", "texts"],
)
def test_what_cannot_be_scored(tmp_path, lines, step, reason):
    with pytest.raises(InputError, match=reason):
        chosen(tmp_path, lines, step)


def test_texts_with_a_limit(tmp_path):
    lines = [{"prompt": "a", "reward": 1, "text": f"{n}"} for n in range(SIZE)]
    assert written(tmp_path, lines, texts=True)[2] == {
        "prompt": "a", "reward": 1.0, "text": "2",
    }  # fmt: skip


def test_the_command_asks_for_the_model(tmp_path, refused):
    path = write_lines(tmp_path / "log.jsonl", open_instruct(0))
    line = refused("rollouts", path, "--probe", tmp_path / "mine.yaml")
    assert "--probe needs --model" in line


def test_with_both_log_probabilities_those_drawn_with_are_an_engines(tmp_path):
    both = {"log_probs": [-1.0, -2.0], "trainer_log_probs": [-1.5, -2.5]}
    lines = [{"prompt": "a", "reward": n % 2, "tokens": [1, n], **both} for n in range(8)]
    for line in written(tmp_path, lines):
        assert line["log_probs"] == [-1.5, -2.5]
        assert line["engine_log_probs"] == [-1.0, -2.0]
