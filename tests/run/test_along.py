"""Along a training run: the checkpoints in order, each an ordinary run, or none at all."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

import run_mse
from models import write_checkpoint
from mse_lab.errors import InputError
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.trained_checkpoints import Checkpoint, find_checkpoints
from mse_lab.results import shard
from mse_lab.results.files import write_arrays
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.inventory import FROM_POOLS
from mse_lab.run.along import measure_along
from mse_lab.run.prepare import prepare
from mse_lab.run.run_probe import execute


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What a trainer saved after 2 and after 10 steps."""
    folder = tmp_path_factory.mktemp("trained")
    for step in (10, 2):
        write_checkpoint(folder / f"checkpoint-{step}", seed=step)
    return folder


@pytest.fixture(scope="module")
def probe(project):
    return load_probe(project / "probes/small.yaml")


@pytest.fixture(scope="module")
def measured(trained, probe, project, tmp_path_factory):
    """The runs of the start, which was measured before, and of both checkpoints."""
    root = tmp_path_factory.mktemp("measured")
    shutil.copytree(project / "results/small", root / "small")
    checkpoints = find_checkpoints(pattern_of(trained), from_start=True)
    return root, measure_along(prepare("small", probe, root / "small", root), checkpoints)


def pattern_of(trained):
    return [str(trained / "checkpoint-*")]


def test_each_checkpoint_is_an_ordinary_run(measured, trained, probe, tmp_path):
    """Its tables are those of a run of that checkpoint, byte for byte."""
    root, stages = measured
    names = ["small", "small/along/checkpoint-2", "small/along/checkpoint-10"]
    assert [one.step for one in stages] == [0, 2, 10]
    assert [one.folder for one in stages] == [root / name for name in names]
    assert [one.outcome.finished_before for one in stages] == [True, False, False]
    for name in names[1:]:
        path = str(trained / name.rpartition("/")[2])
        model = probe.model.model_copy(update={"path": path})
        alone = probe.model_copy(update={"model": model})
        execute(prepare(name, alone, tmp_path / name, tmp_path))
        for table in (*FROM_POOLS, "config.yaml"):
            assert (root / name / table).read_bytes() == (
                tmp_path / name / table
            ).read_bytes(), table


def test_an_interrupted_one_goes_on(measured, trained, probe, tmp_path, monkeypatch):
    """Stopped in the second checkpoint: the first is left, the second not begun anew."""
    checkpoints, written = find_checkpoints(pattern_of(trained)), []

    def write(path, arrays, **options):
        if len(written) == 3 + 2:
            raise KeyboardInterrupt
        written.append(path)
        write_arrays(path, arrays, **options)

    with monkeypatch.context() as patched:
        patched.setattr(shard, "write_arrays", write)
        with pytest.raises(KeyboardInterrupt):
            measure_along(prepare("small", probe, tmp_path, tmp_path), checkpoints)
    assert ResultsFolder(tmp_path / "along/checkpoint-10").finished_prompts() == 2
    told = []
    measure_along(
        prepare("small", probe, tmp_path, tmp_path), checkpoints, finished=told.append
    )
    assert [one.outcome.finished_before for one in told] == [True, False]
    for one, other in zip(told, measured[1][1:], strict=True):
        mse = (other.folder / "mse.csv").read_bytes()
        assert (one.folder / "mse.csv").read_bytes() == mse


def refuse(probe, checkpoints, tmp_path, words):
    """Nothing may have been measured."""
    with pytest.raises(InputError, match=words):
        measure_along(prepare("small", probe, tmp_path / "out", tmp_path), checkpoints)
    assert not (tmp_path / "out").exists()


def test_one_that_cannot_be_measured_stops_all_before_the_first(
    trained, probe, tmp_path, monkeypatch
):
    empty = tmp_path / "checkpoint-11"
    empty.mkdir()
    [two, _] = find_checkpoints(pattern_of(trained))
    # Nor are gigabytes of the first read for it.
    monkeypatch.setattr("mse_lab.run.along.load", None)
    refuse(probe, [two, Checkpoint(11, empty)], tmp_path, r"checkpoint-11: no config\.json")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("missing", "weights are missing or of another shape"),
        ("NaN", "checkpoint-11: its logits are NaN"),
        ("tokenizer", "checkpoint-11: its tokenizer differs .* in 1, 2;"),
        ("token", "checkpoint-11: its tokenizer reads other tokens"),
        ("norm", r"checkpoint-11: its config.json differs .* in rms_norm_eps;"),
    ],
)
def test_the_last_is_looked_at_before_the_first_is_measured(
    trained, probe, tmp_path, damage, words
):
    [two, ten] = find_checkpoints(pattern_of(trained))
    last = shutil.copytree(ten.path, tmp_path / "checkpoint-11")
    weights = load_file(last / "model.safetensors")
    name = sorted(weights)[0]
    if damage == "missing":
        del weights[name]
    elif damage == "NaN":
        weights[name].flatten()[0] = float("nan")
    else:
        path = last / ("config.json" if damage == "norm" else "tokenizer.json")
        values = json.loads(path.read_text())
        if damage == "norm":
            values["rms_norm_eps"] = 0.5
        elif damage == "token":
            values["model"]["vocab"]["two"] = values["model"]["vocab"].pop("2")
        else:
            vocabulary = values["model"]["vocab"]
            vocabulary["1"], vocabulary["2"] = vocabulary["2"], vocabulary["1"]
        path.write_text(json.dumps(values))
    save_file(weights, last / "model.safetensors", {"format": "pt"})
    refuse(probe, [two, Checkpoint(11, last)], tmp_path, words)


def test_checkpoints_whose_differences_mean_nothing_are_refused(trained, probe, tmp_path):
    [two, _] = find_checkpoints(pattern_of(trained))
    adapter, twin = tmp_path / "adapter-3", tmp_path / "checkpoint-2"
    for folder in (adapter, twin):
        folder.mkdir()
    (adapter / "adapter_config.json").touch()
    refuse(probe, [two, Checkpoint(3, adapter)], tmp_path, "some are adapters")
    refuse(probe, [two, Checkpoint(3, twin)], tmp_path, "two are named checkpoint-2")


def test_a_finished_one_may_be_gone(measured, probe, tmp_path):
    """A trainer keeps the last few only: what is measured is not asked for again."""
    root, stages = measured
    config = stages[1].folder / "config.yaml"
    there = Path(load_probe(config).model.path)
    spec = prepare(
        "small", probe, shutil.copytree(root / "small", tmp_path / "small"), root
    )
    moved = there.rename(there.with_name("moved"))
    new = write_checkpoint(there.with_name("new-11"), seed=11)
    first, second = measure_along(spec, [Checkpoint(2, there), Checkpoint(11, new)])
    moved.rename(there)
    shutil.rmtree(new)
    assert first.outcome.finished_before
    assert not second.outcome.finished_before


def test_finished_ones_are_compared_too(probe, tmp_path):
    """Each was measured alone: what differs is found from their small files."""
    checkpoints = []
    for step in (2, 10):
        path = tmp_path / f"checkpoint-{step}"
        write_checkpoint(path, seed=step)
        if step == 10:
            values = json.loads((path / "config.json").read_text())
            (path / "config.json").write_text(json.dumps(values | {"rms_norm_eps": 0.5}))
        checkpoints.append(Checkpoint(step, path))
        measure_along(prepare("small", probe, tmp_path / "out", tmp_path), checkpoints[-1:])
    with pytest.raises(InputError, match=r"checkpoint-10: .* differs .* in rms_norm_eps;"):
        measure_along(prepare("small", probe, tmp_path / "out", tmp_path), checkpoints)


def typed(project, measured, trained, *words):
    pattern, out = pattern_of(trained)[0], measured[0]
    probe = project / "probes/small.yaml"
    return ["along", probe, "--checkpoints", pattern, "--out", out, *words]


def test_the_command_says_and_keeps_the_answers(measured, trained, project, capsys):
    words = typed(project, measured, trained, "--from-start", "--group-size", "4")
    assert run_mse.main([*map(str, words)]) == 0
    said = capsys.readouterr().out
    assert said.count("finished before; checks: all 3 hold") == 3
    assert (measured[0] / "small/along/along.png").stat().st_size > 5000
    table = pd.read_csv(measured[0] / "small/along/along.csv")
    assert table["step"].tolist() == [0, 2, 10]
    assert table["probe"].tolist()[1] == "small/along/checkpoint-2"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--group-size", "16"], "--group-size 16: more completions than pool.replicate"),
        (["--group-size", "4,8"], "'4,8' is no group size from 2 to 4096, such as 8"),
        (["--checkpoints", "nowhere-*"], "--checkpoints nowhere-*: no such folder"),
        (["--set", "prompts.limit=2"], "2 prompts: differences between checkpoints need"),
    ],
)
def test_wrong_words_are_refused(words, complaint, measured, trained, project, refused):
    assert complaint in refused(*typed(project, measured, trained, *words))


def test_a_single_checkpoint_is_refused(measured, trained, project, refused):
    words = ["--checkpoints", trained / "checkpoint-2"]
    assert "a single one; give two, or add --from-start" in refused(
        *typed(project, measured, trained, *words)
    )
