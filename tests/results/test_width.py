"""Which pools a wanted width takes: as said, so measured."""

import re

import numpy as np
import pytest

from mse_lab.config.probe_files import parse_probe
from mse_lab.mse.intervals import Statistic
from mse_lab.results.width import growth_of_pools, relative_width, say_pools_for
from simulated import analysed, make_design

DESIGN, LARGEST = make_design(np.random.default_rng(0), 40), 32


@pytest.mark.parametrize(
    ("noise", "share", "growth"),
    [
        (0.0, 1 / 2, (4, 1)),
        # 1 + 1/4 is to be 1/2 of it: 1/r + 1/4 = 5/8. And 1 + 1 is to be 1/4 of it.
        (0.5, 2**-0.5, (1 / (5 / 8 - 1 / 4), 1)),
        (1.0, 1 / 2, (4, 4)),
    ],
    ids=["replicates alone", "reference below half of it", "reference above it"],
)
def test_growth_by_hand(noise, share, growth):
    """The replicates' variance is one; the reference's shifts have variance noise^2."""
    shifts = {"run": noise * np.array([1.0, -1.0]) * 2**-0.5}
    found = Statistic(9.0, {"run": np.array([[1.0, -1.0]])}, shifts)
    assert growth_of_pools(found, share) == pytest.approx(growth)


def probe_of(width, **pool):
    values = {"model": {"path": "x"}, "prompts": {"source": "x"}, "pool": pool}
    values |= {"group_sizes": [8, LARGEST], "interval": {"width": width}}
    return parse_probe(values, "probe")


def run_of(rng, replicate, reference):
    pools = DESIGN.draw(rng, reference, replicate // LARGEST, LARGEST)
    run = analysed(pools, [8, LARGEST], estimators=("grpo", "vanilla"))
    found = (point.measured.statistic() for point in run.points.values())
    return run, max(relative_width(one, 0.95) for one in found)


@pytest.mark.parametrize(
    ("pool", "least"),
    [
        ({"replicate": 256, "reference": 2048}, 0.9),
        ({"replicate": 1024, "reference": 256}, 0.7),
    ],
    ids=["by replicates alone", "by both"],
)
def test_what_is_said_is_measured(pool, least):
    """Within a tenth on average; both pools together give rather more than is wanted."""
    rng, widths = np.random.default_rng(1), []
    for _ in range(4):
        run, width = run_of(rng, **pool)
        text = say_pools_for(run, probe_of(0.6 * width, **pool))
        said = {name: int(size) for name, size in re.findall(r"pool\.(\w+)=(\d+)", text)}
        assert [*said] == ["replicate", "reference"][: 1 + (least < 0.9)]
        widths.append(run_of(rng, **pool | said)[1] / (0.6 * width))
        assert say_pools_for(run, probe_of(2 * width, **pool)) == ""
    assert least < np.mean(widths) < 1.1


def test_where_no_pool_would_do():
    pool = {"replicate": 256, "reference": 256}
    run, _ = run_of(np.random.default_rng(2), **pool)
    assert say_pools_for(run, probe_of(1e-4, **pool)).endswith("it takes more prompts")
