"""Resume: what is measured is not measured again, unless it is spoilt."""

import json

import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.results import shard
from mse_lab.results.files import write_arrays
from mse_lab.results.integrity import read_arrays
from mse_lab.run import resume
from mse_lab.run.prepare import prepare


def older(path):
    arrays = read_arrays(path)
    write_arrays(path, {name: arrays[name] for name in arrays if name != "version"})


def flip(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"gram_KGG") + 200] ^= 1
    path.write_bytes(content)


SPOILT = {
    "older version": older,
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "empty": lambda path: path.write_bytes(b""),
    "one byte": flip,
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_shards_are_measured_again(case, write_probe, tmp_path, monkeypatch, capsys):
    path, out, whole = write_probe(), tmp_path / "out", tmp_path / "whole"
    assert run_mse.main(["run", str(path), "--out", str(whole)]) == 0
    expected = (whole / "small/mse.csv").read_bytes()

    with monkeypatch.context() as patched:
        patched.setattr(shard, "write_arrays", interrupted_after(2))
        assert run_mse.main(["run", str(path), "--out", str(out)]) == 130
    shards = sorted((out / "small/shards").glob("*.npz"))
    assert len(shards) == 2
    SPOILT[case](shards[0])
    capsys.readouterr()
    assert run_mse.main(["run", str(path), "--out", str(out)]) == 0
    assert "1 prompts are measured again" in capsys.readouterr().err
    assert (out / "small/mse.csv").read_bytes() == expected


def interrupted_after(count):
    """A `write_arrays` that a Ctrl-C ends."""
    written = []

    def write(path, arrays, **options):
        if len(written) == count:
            raise KeyboardInterrupt
        written.append(path)
        write_arrays(path, arrays, **options)

    return write


def test_a_shard_that_another_machine_wrote_and_nobody_sees(probe, tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "PATIENCE", 0.0)
    run = prepare("small", probe, tmp_path / "out", tmp_path)
    with pytest.raises(InputError, match=r"0+\.npz: is gone, or cannot be seen from here"):
        resume.read_shards(run)


def test_what_followed_from_an_earlier_measurement_goes_with_it(write_probe, tmp_path):
    """As where committed tables are measured again: the advice of then is not told."""
    path, out = write_probe(), tmp_path / "out"
    words = ["run", str(path), "--out", str(out)]
    assert run_mse.main(words) == 0
    (out / "small/pools.npz").unlink()
    for name in ("advice.json", "claims.md"):
        (out / "small" / name).write_text("{}")
    assert run_mse.main(words) == 0
    told = json.loads((out / "small/advice.json").read_text())
    assert told["regime"]["prompts"] > 0
    assert not (out / "small/claims.md").exists()
