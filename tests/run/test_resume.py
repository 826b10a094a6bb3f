"""Resume: what is measured is not measured again, unless it is spoilt."""

import shutil
import sys

import pytest

import run_mse
from mse_lab.results.folder import ResultsFolder
from mse_lab.run import loop, run_probe


def test_what_was_made_of_a_run_stays_where_that_is_measured_again(write_probe, tmp_path):
    """As of committed tables; of what lies there without any, it is another run's."""
    path, folder = write_probe(), tmp_path / "out/small"
    words = ["run", str(path), "--out", str(tmp_path / "out")]
    folder.mkdir(parents=True)
    made = {"advice.json": '{"name": "small", "prompts": 5}', "claims.md": "mine"}
    for name, text in made.items():
        (folder / name).write_text(text)
    assert run_mse.main(words) == 0
    assert not (folder / "advice.json").exists()
    assert (folder / "claims.md").exists()  # No command writes it: it is the user's.
    assert run_mse.main(["advise", str(folder)]) == 0
    advice = (folder / "advice.json").read_text()
    (folder / "pools.npz").unlink()
    assert run_mse.main(words) == 0
    assert (folder / "advice.json").read_text() == advice
    # The pools answer anew, but another question does not replace what is kept.
    (folder / "advice.json").write_text(advice.replace('"prompts": ', '"prompts": 1'))
    assert run_mse.main(["advise", str(folder), "--regret", "0.2"]) == 0
    assert (folder / "advice.json").read_text() != advice
    assert run_mse.main(["advise", str(folder)]) == 0
    assert (folder / "advice.json").read_text() == advice


@pytest.mark.parametrize("at", ["write_end", "drop_shards"])
def test_a_kill_while_the_result_is_written(at, write_probe, tmp_path, monkeypatch):
    """Before the pools, which are written last, and after them."""
    path, out = write_probe(), tmp_path / "out"
    words = ["run", str(path), "--out", str(out)]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ResultsFolder, at, stop)
        assert run_mse.main(words) == 130
    results = ResultsFolder(out / "small")
    assert results.is_complete() == (at == "drop_shards")
    monkeypatch.setattr(run_probe, "measure_prompt", None)
    assert run_mse.main(words) == 0
    assert results.is_complete()
    assert not results.finished_prompts()


@pytest.mark.parametrize("command", ["run", "advise"])
def test_a_folder_that_vanishes_under_way(
    command, write_probe, tmp_path, monkeypatch, refused
):
    """One line, and nothing of it that the same command would refuse."""
    own = "len(text) % 2"
    (tmp_path / "theirs.py").write_text(f"def reward(text, row):\n    return {own}\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("theirs", None)
    path = write_probe(reward="theirs:reward")
    words = [command, path, "--out", tmp_path / "out"]
    save = loop.save_shard

    def vanish(*given):
        save(*given)
        shutil.rmtree(tmp_path / "out")

    with monkeypatch.context() as patched:
        patched.setattr(loop, "save_shard", vanish)
        said = refused(*words)
    assert "has vanished under way; the same command begins anew" in said
    assert not (tmp_path / "out").exists()
    assert run_mse.main([*map(str, words)]) == 0
