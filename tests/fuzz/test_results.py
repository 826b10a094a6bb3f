"""One file of a finished run is damaged at random: whoever reads it says so in a line."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from fuzzing import CASES, SCALARS, heard, nested
from hypothesis import example, given
from hypothesis import strategies as st

from mse_lab.arrays import LARGEST
from mse_lab.results.files import write_file
from mse_lab.results.folder import READERS
from written_runs import put

FILES = sorted(READERS)
COMMANDS = ["run", "figure", "figure --phase", "claims", "advise", "report"]

# What an array is turned into: other numbers, other shapes, other types.
ARRAYS = {
    "wide": lambda array: array * 1e300,
    "as wide as may be": lambda array: np.sign(array) * LARGEST,
    "tiny": lambda array: array * 1e-300,
    "zero": lambda array: array * 0,
    "negative": lambda array: -array,
    "shuffled": lambda array: np.flip(array),
    "NaN": lambda array: array * np.nan,
    "infinite": lambda array: array + np.inf,
    "text": lambda array: array.astype(str),
    "whole": lambda array: array.astype(np.int32),
    "narrow": lambda array: array.astype(np.float16),
    "an axis more": lambda array: array[None],
    "nothing": lambda array: array[..., :0],
    "half": lambda array: array[: len(array) // 2],
    "a number": lambda array: np.array(1.0),
}

places = st.floats(0, 1)
values = nested(SCALARS | st.text("ab\n\0é\x1b"))
cells = st.sampled_from(
    ["", "nan", "inf", "-1", "1e400", "1e-320", "0", "x", '"', ",", "\n"]
)
# What is put in the place of no byte, of one, or of all that follow.
new_bytes = st.tuples(places, st.sampled_from([0, 1, 10**9]), st.binary(max_size=40))
damages = st.one_of(
    st.sampled_from([("gone",), ("folder",)]),
    new_bytes.map(lambda how: ("bytes", *how)),
    st.tuples(st.just("swap"), st.sampled_from(FILES)),
    st.tuples(st.just("json"), values),
    st.tuples(st.just("cell"), places, cells),
    st.tuples(st.just("array"), places, st.sampled_from(sorted(ARRAYS))),
)


def spoil(path, kind, *how):
    """Damage a file."""
    content = path.read_bytes()
    match kind:
        case "gone" | "folder":
            path.unlink()
            if kind == "folder":
                path.mkdir()
        case "bytes":
            at = int(how[0] * (len(content) - 1))
            path.write_bytes(content[:at] + how[2] + content[at + how[1] :])
        case "swap":
            path.write_bytes(path.with_name(how[0]).read_bytes())
        case "json":
            path.write_text(json.dumps(how[0]) + "\n")
        case "cell" if path.suffix == ".csv":
            parts = content.decode().split(",")
            parts[int(how[0] * (len(parts) - 1))] = how[1]
            path.write_text(",".join(parts))
        case "array" if path.suffix == ".npz":
            arrays = dict(np.load(path))
            name = sorted(arrays)[int(how[0] * (len(arrays) - 1))]
            with np.errstate(all="ignore"):
                write_file(path, {**arrays, name: ARRAYS[how[1]](arrays[name])})


@CASES
@given(st.sampled_from(FILES), damages, st.sampled_from(COMMANDS))
@example("mse.csv", ("bytes", 0.0, 10**9, b""), "run")
@example("pools.npz", ("array", 0.9, "NaN"), "claims")
@example("pools.npz", ("array", 1.0, "wide"), "advise")
@example("checks.json", ("json", [1]), "report")
def test_a_damaged_result(project, name, damage, command):
    """Every command ends with 0, 1 or 2 and a line."""
    with TemporaryDirectory() as root:
        folder = Path(shutil.copytree(project / "results/small", Path(root) / "small"))
        spoil(folder / name, *damage)
        status, said = heard(put, command, project, folder)
    lines = said.splitlines()
    if status == 2:
        assert len(lines) == 1
        assert lines[0].startswith("run_mse.py: ")
    else:
        assert status in (0, 1)
        # Beside an answer stands at most what was not compared, or has changed, since.
        assert command == "run" or all(" was measured " in one for one in lines)
