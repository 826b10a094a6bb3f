"""Both regimes in one picture: which run stands in which row, and the command."""

import re

import numpy as np
import pytest
from matplotlib.image import imread

import run_mse
from mse_lab.commands.command_line import ROOT
from mse_lab.commands.figure import FIGURE_4, LENIENT
from mse_lab.mse.regime import aggregate_place
from mse_lab.report.phase_diagram import read_dots
from mse_lab.report.regimes_figure import SIDES, compose_regimes
from mse_lab.results.finished_run import read_tables


def committed(names):
    return [ROOT / "results" / name for name in names]


def compose(names):
    folders = committed(names)
    return compose_regimes([read_tables(one) for one in folders], read_dots(folders))


def crosses(axes):
    """Colour and place of each run's cross."""
    return {
        line.get_color(): tuple(line.get_xydata()[0])
        for line in axes.lines
        if line.get_marker() == "P"
    }


def law_ratio(folder):
    """Vanilla's MSE over the oracle's at G = 4, by the tables alone."""
    law = read_tables(folder).mse.set_index(["estimator", "group_size"])["law"]
    return float(law["vanilla", 4] / law["oracle", 4])


@pytest.fixture(scope="module")
def figure():
    return compose((*FIGURE_4, *LENIENT))


def test_runs_stand_on_their_side(figure):
    """Sides as the tables have them; a panel's cross is the diagram's, on that side."""
    rows, _ = figure.subfigs
    *panels, diagram = figure.axes
    folders, places = committed((*FIGURE_4, *LENIENT)), crosses(diagram)
    above = [law_ratio(folder) > 1 for folder in folders]
    assert above == [False] * 3 + [True] * 3
    expected = dict(zip(places, zip(above, read_dots(folders), strict=True), strict=True))
    titles = [part.get_suptitle() for part in rows.subfigs]
    assert titles == [f"lenient: {SIDES[True]}", f"tiny: {SIDES[False]}"]
    for index, axes in enumerate(panels):
        [colour] = crosses(axes)
        side, dots = expected[colour]
        assert side is (index < 3)
        assert places[colour] == aggregate_place(dots.moments)
        assert f"{dots.moments.value.mean():.2f}" in axes.get_title()


def test_a_side_without_runs_has_no_row():
    rows, _ = compose(FIGURE_4[:2]).subfigs
    assert len(rows.subfigs) == 1
    assert len(rows.subfigs[0].axes) == 2


def test_a_shorter_row_leaves_its_places_empty():
    rows, _ = compose((*FIGURE_4, LENIENT[0])).subfigs
    shown = [[axes.axison for axes in part.axes] for part in rows.subfigs]
    assert shown == [[True, False, False], [True, True, True]]


def test_runs_of_one_title_are_told_apart():
    labels = [dots.label for dots in read_dots(committed((*FIGURE_4, *LENIENT)))]
    assert labels == [f"{title}, {family}" for family in ("tiny", "lenient")
                      for title in ("Base", "Instruct", "ICL")]  # fmt: skip
    assert [dots.label for dots in read_dots(committed(FIGURE_4))] == [
        "Base",
        "Instruct",
        "ICL",
    ]


def test_the_committed_picture_is_that_of_the_committed_tables(tmp_path):
    output = tmp_path / "f.png"
    assert run_mse.main(["figure", "--regimes", "--out", str(output)]) == 0
    both = (tmp_path / "f.png", ROOT / "figures/regimes.png")
    drawn, kept = (imread(path) for path in both)
    np.testing.assert_allclose(drawn, kept, atol=0.01)


def test_the_command_draws_the_runs_that_are_named(tmp_path, capsys):
    output = tmp_path / "both.svg"
    words = ["figure", "--regimes", "tiny/base", "lenient/icl", "--out", str(output)]
    assert run_mse.main(words) == 0
    assert capsys.readouterr().out == f"{output} written\n"
    drawn = re.findall(r"<!-- (.*?) -->", output.read_text())
    assert sum("accuracy" in one for one in drawn) == 2
    assert list(tmp_path.iterdir()) == [output]


def test_two_kinds_at_once_are_refused(refused):
    told = refused("figure", "--phase", "--regimes")
    assert "not allowed with argument" in told
