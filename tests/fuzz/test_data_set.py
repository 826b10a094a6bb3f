"""Tables of prompts: their rows, or one line."""

from pathlib import Path
from tempfile import TemporaryDirectory

import datasets
import pytest
from fuzzing import CASES, answer_or_one_line
from hypothesis import given
from hypothesis import strategies as st

from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.schema import Prompts

ROWS = [{"problem": f"{row} + 1", "answer": row + 1, "category": "a"} for row in range(3)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One set in each of the formats, as bytes."""
    folder = tmp_path_factory.mktemp("sets")
    rows = datasets.Dataset.from_list(ROWS)
    rows.to_parquet(folder / "set.parquet")
    rows.to_csv(folder / "set.csv")
    return {path.suffix: path.read_bytes() for path in folder.glob("set.*")}


@given(st.sampled_from([".parquet", ".csv"]), st.data())
@CASES
def test_a_damaged_data_set(files, suffix, data):
    """Cut, or with some bytes overwritten."""
    content = files[suffix]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    new = data.draw(st.binary(max_size=20))
    # A cache for each, else the library gives what it has prepared before.
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", Path(folder) / "cache")
        path = Path(folder) / f"set{suffix}"
        path.write_bytes(content[:start] + new + content[end:])
        config = Prompts(source=str(path), template="none")
        answer_or_one_line(load_prompts, config, Path(folder))
