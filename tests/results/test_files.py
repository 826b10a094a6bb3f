"""What is written can be read by people and programs, the same bytes everywhere.

Nothing of somebody's own is written over or removed, by any command that writes.
"""

import errno
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import get_ident

import pandas as pd
import pytest
from matplotlib.figure import Figure

import run_mse
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.report.drawing import FIGURE_SUFFIXES, save_figure
from mse_lab.results.files import as_data, is_ours, write_bytes, write_file
from mse_lab.results.folder import MADE, MARK, READERS


def test_the_same_bytes_everywhere(tmp_path):
    """Letters of any language stand as they are; tables have ten digits."""
    write_file(tmp_path / "one.json", {"name": "Müller √2"})
    assert (tmp_path / "one.json").read_bytes() == '{\n  "name": "Müller √2"\n}\n'.encode()
    write_file(tmp_path / "one.csv", pd.DataFrame({"é": [1 / 3, 2.0], "n": [1, 2]}))
    assert (tmp_path / "one.csv").read_bytes() == "é,n\n0.3333333333,1\n2,2\n".encode()


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space"):
        write_bytes(tmp_path / "mse.csv", b"x")
    assert not list(tmp_path.iterdir())


def test_no_link_is_followed_when_a_file_is_written(tmp_path):
    """Somebody may have put one where the parts of files lie until they are whole."""
    (tmp_path / "theirs").write_text("theirs")
    part = f".mse.csv.{os.getpid()}-{get_ident()}.part"
    for name in (part, "mse.csv"):
        (tmp_path / name).symlink_to(tmp_path / "theirs")
    write_bytes(tmp_path / "mse.csv", b"ours")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "mse.csv").read_bytes() == b"ours"
    assert not (tmp_path / part).is_symlink()


def test_what_several_write_at_once_is_one_of_them_whole(tmp_path):
    """As two commands that draw the same figure."""
    path, contents = tmp_path / "figure4.png", [bytes([at]) * 10**5 for at in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: write_bytes(path, content), contents * 4))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_data_are_plain_all_the_way_down():
    deep = {"rows": [{"cost": Estimate(1 / 3, -math.inf, math.nan)}], "name": "grpo"}
    low = {"value": 0.33333, "low": "-inf", "high": "nan"}
    assert as_data(deep) == {"rows": [{"cost": low}], "name": "grpo"}
    assert as_data(((2 / 3,), 7)) == [[0.66667], 7]


OWN = "mine\n"
WITHOUT_A_RUN = [*READERS, "shards/000000.npz"]


def put(path, kind, tmp_path):
    """Put a file of somebody, or a link to one, at a path; return the file."""
    file = path if kind == "file" else tmp_path / f"elsewhere {path.name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    file.write_text(OWN)
    if kind == "link":
        path.symlink_to(file)
    return file


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_without_a_run(project, tmp_path, refused, kind):
    probe = project / "probes/small.yaml"
    for name in WITHOUT_A_RUN:
        path = tmp_path / f"out-{name.replace('/', '-')}/small" / name
        file = put(path, kind, tmp_path)
        words = ["run"] if name == MARK else ["run", "--fresh"]
        said = refused(*words, probe, "--out", path.parents[len(Path(name).parts)])
        assert "is no run's, and a run would write over it; move it" in said, name
        assert file.read_text() == OWN
        assert path.is_symlink() == (kind == "link")


COMMANDS = {
    "claims.csv": ["claims"],
    "report.html": ["report"],
    "figure4.png": ["figure"],
    "phase.png": ["figure", "--phase"],
}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_the_folder_of_a_run(project, tmp_path, refused, kind):
    """A fresh start leaves them, and the command that makes such a file refuses."""
    folder = shutil.copytree(project / "results", tmp_path / "out") / "small"
    paths = [folder / name for name in (*MADE, "advice.png", "shards/notes.txt")]
    files = [put(path, kind, tmp_path) for path in paths]
    for name, words in COMMANDS.items():
        assert f"{folder / name}: is somebody's own" in refused(*words, folder)
    probe = project / "probes/small.yaml"
    assert run_mse.main(["run", str(probe), "--fresh", "--out", f"{tmp_path}/out"]) == 0
    assert [file.read_text() for file in files] == [OWN] * len(files)
    assert [path.is_symlink() for path in paths] == [kind == "link"] * len(paths)


def test_what_commands_have_made_is_theirs_to_replace(project, tmp_path):
    """Figures are replaced below, by the function that all of them are saved by."""
    folder = shutil.copytree(project / "results/small", tmp_path / "small")
    for words in (*COMMANDS.values(), ["claims"], ["report"]):
        assert run_mse.main([*words, str(folder)]) == 0
    assert all(is_ours(folder / name) for name in COMMANDS)


@pytest.mark.parametrize("suffix", FIGURE_SUFFIXES)
def test_a_figure_replaces_a_figure_and_no_other(tmp_path, suffix):
    path = tmp_path / f"mine{suffix}"
    save_figure(Figure, path)
    save_figure(Figure, path)
    # Somebody's, by the same library.
    Figure().savefig(path)
    own = path.read_bytes()
    with pytest.raises(InputError, match="is somebody's own"):
        save_figure(Figure, path)
    assert path.read_bytes() == own
