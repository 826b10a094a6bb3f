"""A run writes over nobody's files, and follows no link of theirs."""

import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import run_mse
from mse_lab.report.drawing import FIGURE_SUFFIXES, save_figure
from mse_lab.results.folder import MARK, READERS

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


def test_a_fresh_start_leaves_what_no_run_wrote(project, tmp_path):
    """A link in a file's place is replaced, not followed."""
    folder = shutil.copytree(project / "results", tmp_path / "out") / "small"
    mine = [folder / name for name in ("notes.txt", "figure4.png", "shards/notes.txt")]
    files = [put(path, "file", tmp_path) for path in mine]
    theirs = put(folder / "mse.csv", "link", tmp_path)
    probe = project / "probes/small.yaml"
    assert run_mse.main(["run", str(probe), "--fresh", "--out", f"{tmp_path}/out"]) == 0
    assert [file.read_text() for file in [*files, theirs]] == [OWN] * 4
    assert not (folder / "mse.csv").is_symlink()


@pytest.mark.parametrize("suffix", FIGURE_SUFFIXES)
def test_a_figure_is_the_same_bytes_again(tmp_path, suffix):
    path = tmp_path / f"mine{suffix}"
    save_figure(Figure, path)
    first = path.read_bytes()
    save_figure(Figure, path)
    assert path.read_bytes() == first
