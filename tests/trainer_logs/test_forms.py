"""Each trainer's form on small files as its source writes them."""

import json

import numpy as np
import pytest

from log_makers import read, summarise, write_lines
from mse_lab.errors import InputError
from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import completions_of, read_log
from mse_lab.trainer_logs.records import records_of
from mse_lab.trainer_logs.summary import Summary


def test_verl(tmp_path):
    """A file a step; the worker's balancing has put a prompt's completions apart."""
    for step in (1, 2, 10):
        rows = [
            {
                "input": text,
                "output": f"{n}",
                "gts": "2",
                "score": float(n % 2),
                "step": step,
            }
            for n, text in enumerate("abba" * 2)
        ]
        write_lines(tmp_path / f"{step}.jsonl", rows)
    log = read_log([tmp_path])
    groups = make_groups(log)
    assert log.source.form.name == "verl"
    assert [path.stem for path in log.source.forms] == ["1", "2", "10"]
    assert groups.size_K.tolist() == [4] * 6
    assert groups.step_K.tolist() == [1, 1, 2, 2, 10, 10]
    # a has numbers 0, 3, 4, 7, of which two are odd.
    assert groups.mean_K.tolist() == [0.5] * 6


def test_verls_uid_tells_two_draws_of_a_prompt_apart(tmp_path):
    rows = [
        {"input": "a", "output": "", "score": 1, "step": 1, "uid": f"s{sample}_{n}_0"}
        for n in range(3)
        for sample in (7, 9)
    ]
    assert read(tmp_path, rows).columns.group_N.tolist() == [0, 1, 0, 1, 0, 1]


def test_open_instruct(tmp_path):
    row = {
        "step": 4, "sample_idx": 0, "prompt_idx": 0, "prompt_tokens": [1, 2],
        "response_tokens": [5, 6, 0], "reward": 10.0, "advantage": 0.5,
        "finish_reason": "stop", "dataset": "gsm8k", "ground_truth": None,
        "request_info": None, "logprobs": [-0.1, -0.2, -0.3],
    }  # fmt: skip
    cut = row | {"response_tokens": [5] * 8, "finish_reason": "length", "reward": 0.0,
                 "advantage": -0.5, "logprobs": [-0.1] * 8}  # fmt: skip
    # The run's other file holds no rollouts.
    write_lines(tmp_path / "x_metadata.jsonl", [{"run_name": "x", "git_commit": "0"}])
    write_lines(tmp_path / "x_rollouts_000000.jsonl", [row, cut])
    log = read_log([tmp_path])
    assert log.source.form.name == "open-instruct"
    assert [path.name for path in log.source.unknown] == ["x_metadata.jsonl"]
    assert log.columns.truncated_N.tolist() == [0, 1]
    assert log.columns.length_N.tolist() == [3, 8]
    assert log.columns.group_N.tolist() == [0, 0]
    assert Summary(log, make_groups(log)).advantage_fits is True


def nemo_row(reward, drawn, *, batched):
    """Two tokens of the prompt, three of the policy, one of padding."""
    row = {
        "content": "user: 1 + 1", "rewards": reward, "input_lengths": 5,
        "token_ids": [8, 9, 5, 6, 0, 99], "token_loss_mask": [0, 0, 1, 1, 1, 0],
        "generation_logprobs": [0, 0, *drawn, 0], "prev_logprobs": [0, 0, -1, -1, -1, 0],
    }  # fmt: skip
    return {key: [value] for key, value in row.items()} if batched else row


@pytest.mark.parametrize("batched", [True, False])
def test_nemo_rl(tmp_path, batched):
    """Values come in batches of one; the step stands in the file's name."""
    rows = [nemo_row(1.0, [-1, -1, -1.5], batched=batched),
            nemo_row(0.0, [-1, -1, -1], batched=batched)]  # fmt: skip
    log = read(tmp_path, rows, "train_data_step12.jsonl")
    columns = log.columns
    assert log.source.form.name == "NeMo-RL"
    assert columns.step_N.tolist() == [12, 12]
    assert columns.group_N.tolist() == [0, 0]
    assert columns.length_N.tolist() == [3, 3]
    assert columns.tokens_N.tolist() == [3, 3]
    assert columns.log_ratio_N.tolist() == [0.5, 0.0]


def test_nemo_rl_without_tokens(tmp_path):
    rows = [{"content": ["1 + 1"], "rewards": [0.5], "input_lengths": [5], "idx": 0}]
    assert read(tmp_path, rows, "train_data_step1.jsonl").columns.length_N.tolist() == [-1]


def test_nemo_rl_with_dynamic_sampling(tmp_path):
    """`rewards` are those of all completions, in another order than the contents."""
    rows = [nemo_row(0.0, [-1, -1, -1], batched=True) | {"filtered_rewards": [one]}
            for one in (1.0, 0.5)]  # fmt: skip
    # A newer version has a row for each reward, those behind the contents empty.
    filtered = {key: [] for key in rows[0] if key != "rewards"}
    rows += [{"rewards": [0.0]} | filtered]
    assert read(tmp_path, rows).columns.rewards["reward"].tolist() == [1.0, 0.5]


def swift_table(step):
    return {
        "gen_step": [step] * 4, "prompt": ["a", "a", "b", "b"],
        "completion": [f"{step}{one}" for one in "wxyz"],
        "MathORM": [0.0, 1.0, 1.0, 1.0], "solution": ["1"] * 4,
        "advantages": [-0.7, 0.7, 0.0, 0.0],
    }  # fmt: skip


def test_ms_swift(tmp_path):
    """A table a batch, or a row a completion; never a group a line."""
    log = read(tmp_path, [swift_table(0), swift_table(1)], "completions.jsonl")
    groups = make_groups(log)
    assert log.source.form.name == "ms-swift"
    assert groups.size_K.tolist() == [2] * 4
    assert [*groups.columns.rewards] == ["MathORM"]
    rows = [{"gen_step": 2, "prompt": "a", "completion": f"{n}", "reward": n % 2}
            for n in range(4)]  # fmt: skip
    assert make_groups(read(tmp_path, rows)).size_K.tolist() == [4]


def test_ms_swift_with_evaluations(tmp_path):
    """Tables stand in one file: a step's, its evaluation's, and each again if logged."""

    def table(step, prompts, drawn):
        one = swift_table(drawn) | {"step": [str(step)] * 4, "prompt": [*prompts]}
        del one["gen_step"]
        return one

    tables = [
        *(table(1, "aabb", "a"), table(2, "ccdd", "b"), table(2, "yyzz", "c")),
        *(table(3, "yyzz", "c"), table(3, "yyzz", "d"), table(4, "aacc", "e")),
        *(table(4, "aacc", "e"), table(4, "aacc", "e"), table(5, "aacc", "e")),
    ]
    log_path = write_lines(tmp_path / "completions.jsonl", tables)
    log = read_log([log_path])
    assert {log.columns.prompts[n] for n in log.columns.prompt_N} == {*"abcd"}
    assert np.unique(log.columns.step_N, return_counts=True)[1].tolist() == [4, 4, 4]
    assert (len(log.source.evaluations), log.source.copies) == (3, 3)
    again = [one for _, one in completions_of(log.source.form, records_of(log_path, []))]
    assert len(again) == len(log.columns.step_N)


def test_trainers_without_rollouts_are_named(tmp_path):
    row = {"input_prompt": "a", "output_response": "b", "score": [0.0], "stop_reason": "x"}
    with pytest.raises(InputError, match=r"SkyRL's evaluations.*prompt=input_prompt"):
        read(tmp_path, [row])
    (tmp_path / "log.jsonl").unlink()
    with pytest.raises(InputError, match="OpenRLHF writes none, SkyRL pickles"):
        read_log([tmp_path])


def test_areal(tmp_path):
    rows = [
        {"task_id": 3, "sample_idx": n, "seqlen": 10 + n, "prompt_len": 6,
         "head_version": 1, "tail_version": 2, "reward": n, "prompt": "a",
         "completion": f"{n}<eos>"}
        for n in range(2)
    ]  # fmt: skip
    log = read(tmp_path, rows, "2/3.jsonl")
    assert log.source.form.name == "AReaL"
    assert log.columns.step_N.tolist() == [2, 2]
    assert log.columns.length_N.tolist() == [4, 5]
    assert log.columns.group_N.tolist() == [0, 0]


def trace(group, score, **more):
    """A prompt of two tokens, a turn, a tool's answer, a turn."""
    nodes = [
        {"parent": None, "token_ids": [8, 9], "mask": [False, False], "logprobs": []},
        {"parent": 0, "token_ids": [3, 5], "mask": [False, True], "logprobs": [-0.5]},
        {"parent": 1, "token_ids": [7], "mask": [False], "logprobs": []},
        {"parent": 2, "token_ids": [6, 0], "mask": [True, True], "logprobs": [-0.25, -1]},
    ]
    return {
        "id": "x", "task": {"type": "T", "data": {"q": "1 + 1"}, "key": "t1"},
        "rewards": {"right": {"score": score, "weight": 2.0}, "off": None},
        "nodes": nodes, "calls": [{"finish_reason": "stop"}], "agent": {"trainable": True},
        "info": {"group_id": group, "env_name": "e"}, "run": {"step": 5},
    } | more  # fmt: skip


def test_prime_rl_traces(tmp_path):
    folder = tmp_path / "rollouts/step_5"
    rows = [trace("g1", 1.0), trace("g1", 0.0), trace("g2", 0.0),
            trace("g2", 0.0, agent={"trainable": False})]  # fmt: skip
    write_lines(folder / "train/all/traces.jsonl", rows)
    write_lines(folder / "train/effective/traces.jsonl", rows[:2])
    write_lines(folder / "eval/all/traces.jsonl", rows)
    log = read_log([tmp_path])
    columns = log.columns
    assert log.source.form.name == "prime-rl"
    assert len(log.source.forms) == 1
    assert columns.group_N.tolist() == [0, 0, 1]
    assert columns.rewards["right"].tolist() == [2.0, 0.0, 0.0]
    # Of 5, 7, 6, 0 the tool's 7 is not the policy's.
    assert columns.length_N.tolist() == [3, 3, 3]
    assert columns.step_N.tolist() == [5, 5, 5]


def test_prime_rl_traces_with_branches_have_no_tokens(tmp_path):
    branched = trace("g", 1.0)
    branched["nodes"][2]["parent"] = 0
    assert read(tmp_path, [branched]).columns.length_N.tolist() == [-1]


def export(reward=None, shift=0.0):
    """A prompt of two tokens, and three that count."""
    drawn = [0.0, 0.0, -1.0, -2.0, -1.0]
    return {
        "schema_version": 1, "step": 5, "export_step": 5, "rank": 0, "run_id": None,
        "token_ids": [8, 9, 5, 6, 0], "loss_mask": [False, False, True, True, True],
        "inference_logprobs": drawn, "trainer_logprobs": [one + shift for one in drawn],
        "advantages": [0.0] * 5, "rewards": [reward] * 5,
    }  # fmt: skip


def test_prime_rl_exports_beside_traces(tmp_path):
    write_lines(tmp_path / "rollouts/step_5/train/all/traces.jsonl", [trace("g", 1.0)] * 2)
    write_lines(tmp_path / "token_exports/step_5/rank_0.jsonl", [export(shift=0.1)] * 3)
    log = read_log([tmp_path])
    assert len(log.columns.step_N) == 2
    mismatch = Summary(log, make_groups(log)).mismatch
    assert mismatch.completions == 3
    # exp(0.1) - 1 - 0.1
    assert mismatch.kl_per_token == pytest.approx(0.00517, abs=1e-5)


def test_prime_rl_exports_with_rewards_are_rollouts(tmp_path):
    columns = read(tmp_path, [export(reward=1.0), export(reward=0.0)]).columns
    assert columns.rewards["reward"].tolist() == [1.0, 0.0]
    assert columns.group_N.tolist() == [0, 0]


def test_prime_rl_exports_alone_have_no_rewards(tmp_path):
    with pytest.raises(InputError, match="no completion has a reward"):
        summarise(tmp_path, [export()])


def test_every_form_is_documented_by_what_it_needs(tmp_path):
    """The line for an unknown folder names what each form needs, by which it is found."""
    write_lines(tmp_path / "mine.jsonl", [{"q": 1}])
    with pytest.raises(InputError) as refused:
        read_log([tmp_path])
    for word in ("mine.jsonl", "TRL", "verl", "prime-rl", "open-instruct", "NeMo-RL",
                 "AReaL", "slime", "prompt_id", "--columns"):  # fmt: skip
        assert word in str(refused.value)
    assert json.loads((tmp_path / "mine.jsonl").read_text()) == {"q": 1}
