"""Runs, end to end, against a policy whose every completion is enumerated."""

import numpy as np
import pandas as pd
import pytest

from enumerated import aggregate
from known_truth import NAMES, SIZES, enumerate_prompts, measure
from mse_lab.config.probe_files import load_probe
from mse_lab.errors import InputError
from mse_lab.results.files import write_file
from mse_lab.results.folder import MARK, ResultsFolder
from mse_lab.results.measurement import PromptMeasurement
from mse_lab.run.context import load
from mse_lab.run.loop import measuring
from mse_lab.run.run_probe import execute_run
from mse_lab.run.subject import prepare


@pytest.fixture(scope="module")
def finished(tmp_path_factory, checkpoint):
    """A finished run, with its probe and the folder that both lie in."""
    folder = tmp_path_factory.mktemp("run")
    return *measure(checkpoint, folder), folder


@pytest.fixture(scope="module")
def exact(finished):
    """The run's prompts, enumerated."""
    _, probe, root = finished
    return enumerate_prompts(probe, root)


def within(found, low, high, truth, errors=4, level_width=3.92):
    """Whether the truth lies within four of the number's own standard errors."""
    return abs(found - truth) <= errors * (high - low) / level_width


# Which completion at the median gets no weight depends on the order in the group; all
# ordered groups are too many at G = 8.
POINTS = [
    (name, size) for name in NAMES for size in SIZES[:4] if (name, size) != ("median", 8)
]
NO_AGGREGATE = ["opo"]


@pytest.mark.parametrize(("name", "size"), POINTS)
def test_measured_mse_is_the_enumerated_one(finished, exact, name, size):
    """Replicates and law; a false alarm of 6e-5 each, once for the fixed seed."""
    table = pd.read_csv(finished[0] / "mse.csv").set_index(["estimator", "group_size"])
    row = table.loc[(name, size)]
    if name in NO_AGGREGATE:
        assert np.isnan(row.mse)
        return
    truth = aggregate(exact, name, size)["mse"]
    assert within(row.mse, row.mse_low, row.mse_high, truth)
    if np.isfinite(row.law):
        assert within(row.law, row.law_low, row.law_high, truth)


def test_files_of_a_result(finished):
    folder, probe, _ = finished
    results = ResultsFolder(folder)
    assert results.is_complete()
    assert load_probe(folder / "config.yaml") == probe
    errors = dict(np.load(folder / "errors.npz"))
    assert errors["grpo/4"].shape == (3, 1200 // 4)
    table = pd.read_csv(folder / "mse.csv").set_index(["estimator", "group_size"])
    np.testing.assert_allclose(
        errors["oracle/8"].mean(1).sum() / 9, table.loc[("oracle", 8)].mse, rtol=1e-9
    )
    text = (folder / "completions.jsonl").read_text(encoding="utf-8")
    assert text.count("\n") == 3 * (2048 + 1200)


def test_what_another_start_has_finished_meanwhile_is_refused(finished):
    """As this one would find it that had begun to load the model before."""
    folder, probe, root = finished
    subject = load(prepare("probe", probe, folder, root))
    start = measuring(subject, PromptMeasurement, fresh=False)
    with pytest.raises(InputError, match="another start has finished it meanwhile"):
        start.__enter__()


def test_committed_tables_keep_their_identity(write_probe, tmp_path):
    """It may have been written on another processor, and before there were answers."""
    spec = prepare("small", load_probe(write_probe()), tmp_path / "out", tmp_path)
    execute_run(spec)
    mark, results = spec.folder.file(MARK), spec.folder
    written = results.read(MARK)
    write_file(mark, {"model": written["model"]})
    before = mark.read_bytes()
    for name in ("pools.npz", "errors.npz"):
        results.file(name).unlink()
    assert not execute_run(spec).finished_before
    assert mark.read_bytes() == before
    assert len(written) > 1
