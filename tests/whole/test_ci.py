"""The scripts of CI: which numbers `make figure4` keeps, and what of the pages is typed."""

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = "estimator,mse,bias2\ngrpo,1.0,0\nvanilla,4.0,0\n"


@pytest.fixture
def compared(tmp_path, capsys):
    """Return a function that compares a measured table with the committed one."""
    folders = [tmp_path / name for name in ("results/tiny", "measured/tiny")]
    figures = [tmp_path / name for name in ("figures", "measured/figures")]
    for folder in (*folders, *figures, tmp_path / ".ci"):
        folder.mkdir(parents=True)
    for name in ("mse.csv", "laws.csv", "prompts.csv"):
        for folder in folders:
            (folder / name).write_text(COMMITTED)
    for figure, drawn in zip(figures, ("old", "new"), strict=True):
        (figure / "figure4.png").write_text(drawn)
    shutil.copy(ROOT / ".ci/compare.py", tmp_path / ".ci")

    def compare(table):
        (folders[1] / "mse.csv").write_text(table)
        runpy.run_path(str(tmp_path / ".ci/compare.py"), run_name="__main__")
        kept = (folders[0] / "mse.csv").read_text() == COMMITTED
        kept_figure = (figures[0] / "figure4.png").read_text() == "old"
        assert kept == kept_figure
        return capsys.readouterr().out.splitlines()[:-1], kept

    return compare


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (COMMITTED, "1 runs: the committed numbers, but for rounding"),
        (
            COMMITTED.replace("1.0", "1.0000002"),
            "1 runs: the committed numbers, but for rounding",
        ),
        (
            COMMITTED.replace("1.0", "0.92"),
            "results/tiny/mse.csv differs by 0.02 of the largest in mse",
        ),
        (
            COMMITTED.replace("mse", "error"),
            "results/tiny/mse.csv differs by inf of the largest in rows or columns",
        ),
        (
            COMMITTED + "oracle,1.0,0\n",
            "results/tiny/mse.csv differs by inf of the largest in rows or columns",
        ),
    ],
    ids=["equal", "rounding", "number", "column", "row"],
)
def test_only_what_differs_is_kept(table, says, compared):
    assert compared(table) == ([says], "rounding" in says)


README = runpy.run_path(str(ROOT / ".ci/readme.py"))

PAGE = """\
A page.

    make test       # all of it
    mse-lab run smollm2/base

    $ pip install '.[measure]'    # torch
    $ mse-lab demo
    Set num_generations = 4
    mse-labels are no command

```python
mse-lab is not typed
```
"""


def test_what_is_typed_of_a_page():
    (_, shell), (language, _) = README["blocks"](PAGE)
    assert language == "python"
    assert README["commands"](shell) == ["pip install '.[measure]'", "mse-lab demo"]


def test_the_first_page_and_the_pretrained_model_s_lines_are_found():
    page = (ROOT / "README.md").read_text()
    typed = [
        line for _, code in README["blocks"](page) for line in README["commands"](code)
    ]
    pinned = "pip install '.[measure]' -c requirements.lock"
    assert {"pip install .", "mse-lab demo", pinned} <= {*typed}
    assert "python" in [language for language, _ in README["blocks"](page)]
    [lines] = README["of_pretrained"](ROOT / README["PRETRAINED"])
    assert lines[-1].startswith("mse-lab plan smollm2/icl --out ")


@pytest.fixture
def bench(tmp_path):
    """A bench whose pip finds nothing."""
    made = object.__new__(README["Bench"])
    (tmp_path / "pip").write_text("#!/bin/sh\necho ERROR: no match >&2; exit 1\n")
    (tmp_path / "pip").chmod(0o755)
    made.here, made.variables = tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    return made


def test_a_command_that_fails_ends_it(bench, capsys):
    bench.type_all(["true"])
    with pytest.raises(SystemExit, match="failed"):
        bench.type_all(["echo so it says; false", "true"])
    assert "    so it says" in capsys.readouterr().out


def test_what_cannot_be_had_is_skipped_with_a_reason(bench, monkeypatch, capsys):
    monkeypatch.setenv("PATH", bench.variables["PATH"])
    bench.type_all([f"pip install {README['PACKAGE']}", "false"])
    assert "no match" in capsys.readouterr().out
