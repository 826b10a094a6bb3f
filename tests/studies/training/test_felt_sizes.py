"""What optimisers feel before training: each in its metric, alike arms once."""

import pytest

pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")

from mse_lab.probe.schema import Metric
from mse_lab.studies.training import felt_sizes
from mse_lab.studies.training.felt_sizes import felt_by_arm
from mse_lab.studies.training.settings import Study, arms_of


def test_each_optimiser_feels_by_its_own_metric(write_probe, tmp_path, monkeypatch):
    honest, metrics = felt_sizes.measure_metric, []

    def counted(subject, **given):
        metrics.append(subject.probe.metric)
        return honest(subject, **given)

    monkeypatch.setattr(felt_sizes, "measure_metric", counted)
    changes = {"adamw": {"optimiser": "adamw"}, "slow": {"eta": 0.001}}
    study = Study(probe=str(write_probe()), prediction={"felt": 4}, arms=changes)
    felt = felt_by_arm(arms_of(study), study.prediction.felt, 0.95, tmp_path)
    assert metrics == [Metric(kind=kind, prompts=4) for kind in ("curvature", "adam")]
    assert {name: one.metric for name, one in felt.items()} == {
        "main": "curvature", "adamw": "adam", "slow": "curvature"
    }  # fmt: skip
    assert felt["slow"] is felt["main"]
    assert {one.prompts for one in felt.values()} == {4}
