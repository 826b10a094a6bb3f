"""The ranking of all estimators: complete, in order, blind to factors."""

import pytest

from mse_lab.answers.measured_run import read_run
from mse_lab.answers.ranking import middle_size, rank_estimators
from mse_lab.estimators import ESTIMATORS
from written_runs import simulate, write_run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return [write_run(tmp_path_factory.mktemp("runs") / "first", simulate(1))]


@pytest.fixture(scope="module")
def ranking(folders):
    return rank_estimators(read_run(folders[0], "run1"))


def test_every_built_in_estimator_is_accounted_for(ranking):
    named = [row.estimator.name for row in (*ranking.ranked, *ranking.unranked)]
    assert ranking.group_size == 16
    assert sorted(named) == sorted(ESTIMATORS)
    assert not ranking.left_out


def test_ranked_by_scale_free_mse(ranking):
    values = [float(row.curve.point.scale_free_mse) for row in ranking.ranked]
    assert values == sorted(values)
    for row in ranking.ranked:
        assert row.ratio.low <= row.ratio.value <= row.ratio.high or row.ratio.low > 0
        assert 1 <= row.rank.low <= row.rank.high <= len(values)
    [oracle] = [row for row in ranking.ranked if row.estimator.name == "oracle"]
    assert oracle.ratio == (1, 1, 1)


def test_a_factor_changes_no_rank(ranking, folders):
    """Centred is GRPO-type times (G-1)/G: one scale-free MSE, up to noise."""
    rows = {row.estimator.name: row for row in ranking.ranked}
    raw = [float(rows[name].curve.point.mse) for name in ("centred", "grpo")]
    assert raw[0] < raw[1]
    assert rows["centred"].ratio.value == pytest.approx(rows["grpo"].ratio.value, rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([4, 8, 16, 32, 64], 16), ([4, 16], 4), ([16], 16), ([32, 128], 32), ([1, 2], 2)],
)
def test_middle_size(tmp_path, sizes, expected):
    pools = simulate(prompts=2, sizes=sizes)
    names = ["vanilla", "oracle"]
    folder = write_run(tmp_path / "run", pools, sizes=sizes, estimators=names)
    assert middle_size(read_run(folder, "run1")) == expected
