"""One prompt: out of memory nothing is lost; a pool's lines say what was drawn."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from enumerated import as_completions
from mse_lab.measurement import prompt as stages
from mse_lab.mse.pools import Pools
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.prompts import Prompt
from mse_lab.run.prepare import prepare
from mse_lab.run.run_probe import execute


def small_run(checkpoint, folder):
    """A run of two prompts, its aggregates by estimator and group size."""
    prompts = folder / "prompts.jsonl"
    prompts.write_text(
        '{"id": 1, "problem": "1 2", "answer": 2}\n{"id": 2, "problem": "3", "answer": 1}\n'
    )
    values = {
        "model": {"path": str(checkpoint), "device": "cpu"},
        "prompts": {"source": str(prompts), "template": "none"},
        "pool": {"reference": 16, "replicate": 16},
        "group_sizes": [2, 8],
        "interval": {"resamples": 100},
    }
    execute(prepare("probe", parse_probe(values, "probe"), folder / "out", folder))
    environment = json.loads((folder / "out" / "environment.json").read_text())
    return pd.read_csv(folder / "out" / "mse.csv"), environment["memory"]


def test_a_run_that_runs_out_of_memory_loses_nothing(monkeypatch, tmp_path, checkpoint):
    """Scoring, drawing and reference each fail once: the numbers are a plain run's."""
    plain, memory_of_plain = small_run(checkpoint, tmp_path)
    failed = set()

    def failing(whole, name):
        def action(*args, **options):
            if name not in failed:
                failed.add(name)
                raise torch.OutOfMemoryError("CUDA out of memory")
            return whole(*args, **options)

        return action

    for name in ("score_block", "draw", "measure_reference"):
        monkeypatch.setattr(stages, name, failing(getattr(stages, name), name))
    other = tmp_path / "retreat"
    other.mkdir()
    retreated, memory_of_retreat = small_run(checkpoint, other)
    assert failed == {"score_block", "draw", "measure_reference"}
    np.testing.assert_allclose(plain.mse, retreated.mse, rtol=1e-4)
    assert memory_of_retreat["retreated"]
    pools = Pools.from_arrays(np.load(tmp_path / "out" / "pools.npz"))
    for kinds, whole in (
        (pools.kind_norms2_PNM, pools.norms2_PN),
        (pools.kind_products_PM, pools.reference_product_P),
    ):
        np.testing.assert_allclose(kinds.sum(-1), whole, rtol=1e-4, atol=1e-6)
    assert not memory_of_plain["retreated"]


def test_lines_of_a_pool():
    """A log-probability that is not known is null: NaN is no JSON."""
    drawn = replace(
        as_completions([[3, 1], [3, 4, 5]]),
        log_probs_N=np.array([-0.12345678, np.nan]),
        ended_N=np.array([True, False]),
    )
    pool = stages.CompletionPool("replicate", drawn, ["ü", "b"], np.array([1.0, 0.5]))
    first, second = map(json.loads, pool.lines(Prompt("p", "1", "", {})))
    assert first == {"prompt": "p", "pool": "replicate", "text": "ü", "reward": 1.0,
                     "length": 2, "truncated": False, "log_prob": -0.123457}  # fmt: skip
    assert (second["truncated"], second["log_prob"]) == (True, None)
