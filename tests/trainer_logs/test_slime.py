"""slime's .pt files: weights only, or refused; never a pickle."""

import pickle
import types

import pytest

from mse_lab.errors import InputError
from mse_lab.trainer_logs.read_logs import read_log

torch = pytest.importorskip("torch")


def sample(index, reward, **more):
    return {
        "group_index": index // 2, "index": index, "prompt": "1 + 1",
        "tokens": [8, 9, 5, 6, 0], "response": "2", "response_length": 3, "reward": reward,
        "loss_mask": [1, 0, 1], "rollout_log_probs": [-0.1, 0.0, -0.2],
        "status": "truncated", "metadata": {},
    } | more  # fmt: skip


def test_samples(tmp_path):
    samples = [sample(0, 1.0), sample(1, 0.0), sample(2, {"right": 1, "tidy": 0.5})]
    torch.save({"rollout_id": 7, "samples": samples}, tmp_path / "7.pt")
    columns = read_log([tmp_path]).columns
    assert columns.step_N.tolist() == [7, 7, 7]
    assert columns.group_N.tolist() == [0, 0, 1]
    assert columns.length_N.tolist() == [3, 3, 3]
    assert columns.truncated_N.tolist() == [1, 1, 1]
    assert columns.last_token_N.tolist() == [0, 0, 0]


def test_code_in_a_pickle_is_not_run(tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return exec, (f"open({str(ran)!r}, 'w')",)

    torch.save({"samples": [Evil()]}, tmp_path / "7.pt")
    (tmp_path / "other.pkl").write_bytes(pickle.dumps([Evil()]))
    for name in ("7.pt", "other.pkl"):
        with pytest.raises(InputError, match="never loaded"):
            read_log([tmp_path / name])
    assert not ran.exists()


def test_a_folder_of_pickles_says_so(tmp_path):
    (tmp_path / "1.pkl").write_bytes(pickle.dumps([1]))
    with pytest.raises(InputError, match=r"in a pickle \(.*1\.pkl\) are never loaded"):
        read_log([tmp_path])


@pytest.mark.parametrize("saved", [[1], {"samples": 3}, {"samples": ["a"]}])
def test_other_contents(tmp_path, saved):
    torch.save(saved, tmp_path / "7.pt")
    with pytest.raises(InputError, match="no samples"):
        read_log([tmp_path / "7.pt"])
    with pytest.raises(InputError, match=r"has no .* file"):
        read_log([tmp_path])


def test_checkpoints_and_evaluations_are_passed_over(tmp_path):
    torch.save({"state": {0: torch.ones(3)}}, tmp_path / "optimizer.pt")
    for name in ("7.pt", "eval_7.pt"):
        saved = {"rollout_id": 7, "samples": [sample(n, n % 2) for n in range(2)]}
        torch.save(saved, tmp_path / name)
    log = read_log([tmp_path])
    assert [path.name for path in log.source.forms] == ["7.pt"]
    assert len(log.source.evaluations) == 1
    assert log.source.unknown == []


@pytest.mark.parametrize(
    ("reward", "read"),
    [
        ({"score": 1.0, "acc": True, "pred": "42"}, {"score": 1.0}),
        ({"right": 1, "tidy": 0.5, "pred": "42"}, {"right": 1.0, "tidy": 0.5}),
    ],
)
def test_texts_in_a_reward_are_no_rewards(tmp_path, reward, read):
    samples = [sample(n, reward) for n in range(2)]
    torch.save({"rollout_id": 7, "samples": samples}, tmp_path / "7.pt")
    columns = read_log([tmp_path]).columns
    assert {name: one[0] for name, one in columns.rewards.items()} == read
    named = {
        "prompt": ["prompt"],
        "reward": ["reward.acc" if "acc" in reward else "reward.tidy"],
    }
    assert read_log([tmp_path], named).columns.rewards["reward"][0] in (1.0, 0.5)


def test_a_reward_of_texts_alone(tmp_path):
    """A score may be the text of a number; else the log has none to read."""
    for reward in ({"score": "0.5"}, {"pred": "42"}):
        torch.save({"rollout_id": 7, "samples": [sample(0, reward)] * 2}, tmp_path / "7.pt")
        if "score" in reward:
            columns = read_log([tmp_path]).columns
            assert columns.rewards["score"].tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match=r"sample 0: reward = \{'pred'.*give a number"):
        read_log([tmp_path])


def test_without_torch(tmp_path, monkeypatch):
    torch.save({"rollout_id": 7, "samples": []}, tmp_path / "7.pt")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install '\.\[measure\]' in the clone"):
        read_log([tmp_path / "7.pt"])


def test_a_torn_archive(tmp_path):
    (tmp_path / "7.pt").write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(InputError, match="cannot be read as weights only"):
        read_log([tmp_path / "7.pt"])
    assert isinstance(torch, types.ModuleType)
