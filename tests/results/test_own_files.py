"""Nothing of somebody's own is written over or removed, by any command that writes."""

import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import run_mse
from mse_lab.errors import InputError
from mse_lab.report.drawing import FIGURE_SUFFIXES, save_figure
from mse_lab.results.files import is_ours
from mse_lab.results.folder import MADE, MARK, READERS

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
