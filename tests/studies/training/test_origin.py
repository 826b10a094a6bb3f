"""A study's runs are of one probe: what changes below it is told by its part."""

import json
import shutil

import pytest

from mse_lab.errors import InputError
from mse_lab.studies.training.files import StudyFiles
from mse_lab.studies.training.origin import origin_of, origins_of
from mse_lab.studies.training.settings import Arm, Evaluation, Training


@pytest.fixture
def origin(write_probe, tmp_path, checkpoint):
    """Return a function that describes a probe, with changes to it."""
    shutil.copytree(checkpoint, tmp_path / "model")

    def describe(**changes):
        model = {"path": str(tmp_path / "model"), "device": "cpu"}
        path = write_probe(**{"model": model} | changes)
        source = tmp_path / "prompts.jsonl"
        return origin_of(str(path), str(source), tmp_path)

    return describe


def changed(before, after):
    return {part for part in before if before[part] != after[part]}


def test_what_a_training_depends_on(origin, tmp_path):
    before = origin()
    assert origin() == before
    assert changed(before, origin(seed=1)) == {"seed"}
    sampling = origin(sampling={"max_new_tokens": 3})
    assert changed(before, sampling) == {"sampling.max_new_tokens"}
    # Neither pools nor sizes nor estimators: a study has its own.
    assert origin(group_sizes=[2], pool={"reference": 128}, estimators=["opo"]) == before
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace('"p0"', '"p9"'))
    assert changed(before, origin()) == {"prompts", "held_out"}
    config = tmp_path / "model/config.json"
    config.write_text(config.read_text() + "\n")
    assert changed(before, origin()) == {"prompts", "held_out", "checkpoint.model"}


def test_a_study_is_of_its_own_code(write_probe, checkpoint, tmp_path, monkeypatch):
    """The reward, and the estimators that are trained with."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("scored", "weighted"):
        (tmp_path / f"{name}.py").write_text("def own(one, two=None): return 1")
    path = str(write_probe(reward="scored:own"))
    training = Training(probe=path, estimator="weighted:own", steps=1)
    arms = [Arm("main", training, Evaluation(steps=[1]))]
    before = origins_of(arms, tmp_path)[path]
    for name, part in (("scored", "reward.code"), ("weighted", "estimator weighted:own")):
        (tmp_path / f"{name}.py").write_text("def own(one, two=None): return 2")
        after = origins_of(arms, tmp_path)[path]
        assert changed(before, after) == {part}
        before = after


def test_a_folder_is_of_the_probes_that_it_began_with(tmp_path):
    files = StudyFiles(tmp_path)
    files.claim({"a": {"seed": 0}})
    # What was not known before is known now; another arm's probe joins.
    files.claim({"a": {"seed": 0, "checkpoint.model": "x"}, "b": {"seed": 1}})
    files.claim({"a": {"seed": 0}})
    with pytest.raises(InputError, match=r"checkpoint\.model of a is not what it was"):
        files.claim({"a": {"seed": 0, "checkpoint.model": "y"}})
    there = json.loads((tmp_path / "probes.json").read_text())
    assert there == {"a": {"seed": 0, "checkpoint.model": "x"}, "b": {"seed": 1}}
    files.clear()
    files.claim({"a": {"seed": 5}})
    (tmp_path / "probes.json").write_text("[]")
    with pytest.raises(InputError, match=r"probes\.json: damaged"):
        files.claim({})
