"""The report: one page from runs' folders, self-contained, escaped, the same every time."""

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from mse_lab.answers.measured_run import read_run
from mse_lab.errors import InputError
from mse_lab.mse.replicates import Key
from mse_lab.report.page import compose_page, side_by_side, write_report
from mse_lab.report.rendering import as_page
from simulated import analysed, make_design, with_rewards
from written_runs import EVIL, simulate, write_run

VOID = {"meta", "img", "source"}


class Reader(HTMLParser):
    """Collects heads, links and texts, and sees that every tag is closed in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.heads, self.links, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for key, value in attrs if key in ("href", "src", "srcset")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.heads.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def write(folders, output):
    write_report(folders, output)
    return output.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs, the second with a name that is markup."""
    root = tmp_path_factory.mktemp("runs")
    first = write_run(root / "first", simulate(1), "some/first")
    return [first, write_run(root / "second", simulate(2), EVIL)]


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory):
    return write(folders, tmp_path_factory.mktemp("page") / "report.html")


def test_the_answers_come_first_and_once(page):
    head = page[: page.index("<h2")]
    assert head.count('<p class="headline">') == page.count('<p class="headline">') == 2
    assert len(re.findall("(Keep|Set|Cannot tell whether) num", head)) == 2
    assert read(page).heads == [
        *("The runs", "Figure 4: MSE and group size", "Which group size", "Estimators"),
        *("Prompt by prompt", "The paper's statements", "Where and how they were made"),
    ]
    # Figure 4, a step of each run, and the prompts.
    assert page.count('<img src="data:image/svg+xml;base64,') == 4
    assert "--" not in re.sub(r"<style>.*?</style>|<img[^>]*>", "", page, flags=re.DOTALL)


def test_nothing_comes_from_outside(page):
    reader = read(page)
    assert all(link.startswith("data:image/svg+xml;base64,") for link in reader.links)
    assert not reader.tags & {"script", "link", "iframe", "object", "embed", "base"}
    assert not re.search(r"@import|http|url\(", page)
    assert len(page.encode()) < 2_000_000


def test_what_comes_from_files_is_escaped(page):
    # The run's name, its model, its warning, its check and its environment.
    assert page.count("&lt;script&gt;") >= 5
    assert "<script" not in page
    table = as_page("t", [], [side_by_side("s", {"<a>": {"<b>": "<c>"}, "d": {"e": "f"}})])
    assert "<b>" not in table
    assert "&lt;c&gt;" in table
    assert table.count("<td>–</td>") == 2


def test_a_setting_stands_once_and_figures_have_both_grounds(page):
    rows = re.findall(r"<tr><th>([^<]+)</th>", page)
    assert len(rows) == len({*rows})
    assert page.count('<source media="(prefers-color-scheme: dark)"') == 4


def test_the_same_runs_give_the_same_bytes(folders, page, tmp_path):
    assert write(folders, tmp_path / "new" / "report.html") == page


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run of three prompts."""
    return write_run(tmp_path_factory.mktemp("small") / "run", simulate(prompts=3))


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("pools.npz", "tables only; measure it: python run_mse.py run probe"),
        ("mse.csv", "no finished run"),
        ("environment.json", "environment.json: missing"),
    ],
)
def test_an_unfinished_folder_is_refused(small, tmp_path, missing, words):
    folder = shutil.copytree(small, tmp_path / "run")
    (folder / missing).unlink()
    with pytest.raises(InputError, match=words) as caught:
        write_report([folder], tmp_path / "report.html")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_no_run_and_runs_of_single_completions_are_refused(tmp_path):
    with pytest.raises(InputError, match="name one"):
        write_report([], tmp_path / "report.html")
    rng = np.random.default_rng(0)
    pools, entries = make_design(rng).draw(rng, 64, 8, 16), ["vanilla", "oracle"]
    with pytest.raises(InputError, match=r"group_sizes = \[1\]: claims need one of 2"):
        compose_page([analysed(pools, [1], estimators=entries)])


def test_a_failed_check_stands_at_the_top(tmp_path):
    folder = write_run(tmp_path / "run", simulate(prompts=3), checks_hold=False)
    page = write([folder], tmp_path / "report.html")
    assert "FAILED: do not rely" in page[: page.index("<h2")]
    assert "<td>FAILED: 0.500 &gt; 1</td>" in page
    # A run alone is compared with none.
    assert "the runs in the order given" not in page


DEGENERATE = {
    "one prompt": lambda: simulate(prompts=1),
    "two prompts": lambda: simulate(prompts=2),
    "never right": lambda: with_rewards(simulate(prompts=3), np.zeros_like),
    "always right": lambda: with_rewards(simulate(prompts=3), np.ones_like),
    "graded": lambda: with_rewards(simulate(prompts=4), lambda one: 0.5 * one + 0.2),
    "no gradient": lambda: replace(
        simulate(prompts=3), reference_product_P=-np.ones(3), between_PP=np.zeros((3, 3))
    ),
    "one size": lambda: simulate(sizes=[4]),
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_runs_have_a_page(tmp_path, kind):
    """No traceback, no warning, no NaN on the page."""
    sizes = {"sizes": [4]} if kind == "one size" else {}
    folder = write_run(tmp_path / "run", DEGENERATE[kind](), **sizes)
    page = write([folder], tmp_path / "report.html")
    assert len(read(page).heads) == 7
    assert not re.search(r">[^<]*\b(nan|NaN|inf|None)\b", page)


def test_a_users_own_module_is_not_needed(small, tmp_path):
    folder = shutil.copytree(small, tmp_path / "run")
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("- oracle", "- oracle\n- gone.module:weights"))
    assert "gone.module:weights" in write([folder], tmp_path / "report.html")


def test_intervals_are_those_of_the_run(folders):
    """The page's draws are the run's, so its intervals are those of mse.csv."""
    source = read_run(folders[0])
    table = pd.read_csv(folders[0] / "mse.csv").set_index(["estimator", "group_size"])
    curve = source.compared[Key("grpo", 16)][0]
    np.testing.assert_allclose(
        curve.interval("mse", 0.95),
        table.loc[("grpo", 16), ["mse", "mse_low", "mse_high"]].to_numpy(float),
        rtol=1e-8,
    )
