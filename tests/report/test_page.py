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
from mse_lab.report.page import compose_page, draw_prompts, write_report
from simulated import analysed, make_design, with_rewards
from written_runs import EVIL, simulate, write_run

SECTIONS = ["advice", "overview", "figure4", "estimators", "prompts", "claims",
            "environment", "notation"]  # fmt: skip
EACH_RUN = ["ranking", "advice"]
VOID = {"meta", "img"}


class Reader(HTMLParser):
    """Collects ids, links and texts, and sees that every tag is closed in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.links += [value for key, value in attrs if key in ("href", "src")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs, the second with a name that is markup."""
    root = tmp_path_factory.mktemp("runs")
    first = write_run(root / "first", simulate(1), "some/first")
    return [first, write_run(root / "second", simulate(2), EVIL)]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run of three prompts."""
    return write_run(tmp_path_factory.mktemp("small") / "run", simulate(prompts=3))


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory):
    output = tmp_path_factory.mktemp("page") / "report.html"
    write_report(folders, output)
    return output.read_text(encoding="utf-8")


def test_every_section_for_every_run(page):
    ids = read(page).ids
    assert [one for one in ids if one in SECTIONS] == SECTIONS
    assert {f"{part}-run{run}" for part in EACH_RUN for run in (1, 2)} <= set(ids)
    # The advice, Figure 4, and the prompts.
    assert page.count('<img src="data:image/svg+xml;base64,') == 2 * 3


def test_the_answer_stands_before_everything_else(page):
    """A sentence for each run above the contents; what few look for is folded."""
    head = page[: page.index("<nav")]
    assert head.count('<p class="headline">') == 2
    assert len(re.findall("(Keep|Set|Cannot tell whether) num", head)) == 2
    folded = re.findall(r'<section id="(\w+)">\s*<details>', page)
    assert folded == ["claims", "environment", "notation"]
    # On paper, too: unfolded they are 19 sheets, folded 5.
    assert "beforeprint" not in page
    assert "details-content" not in page


def test_ids_are_unique_and_links_lead_somewhere(page):
    reader = read(page)
    assert len(set(reader.ids)) == len(reader.ids)
    links = {link for link in reader.links if link.startswith("#")}
    assert {link.removeprefix("#") for link in links} <= set(reader.ids)


def test_the_phase_diagram_counts_by_the_nearer_baseline(folders):
    source = read_run(folders[0])
    caption, _ = draw_prompts(source)
    best, value = source.moments.best_baseline, source.moments.value
    nearer = (abs(best - value) < best).sum()
    assert caption.endswith(f"nearer to V than to 0 at {nearer} of {len(value)} prompts.")


def test_nothing_comes_from_outside(page):
    reader = read(page)
    assert all(
        link.startswith(("#", "data:image/svg+xml;base64,")) for link in reader.links
    )
    assert not reader.tags & {"link", "iframe", "object", "embed", "base"}
    assert "@import" not in page
    assert "http" not in page
    assert "url(" not in page


def test_what_comes_from_files_is_escaped(page):
    assert page.count("<script") == 1
    # The run's name, its model, its warning, its check and its environment.
    assert page.count("&lt;script&gt;") >= 5
    assert "alert(&#39;&amp;&#39;)" in page


def test_verdicts_stand_in_words(page):
    assert "✓ holds" in page
    assert "✗ fails" in page


def test_small_enough_for_a_phone(page):
    assert len(page.encode()) < 2_000_000


def test_the_same_runs_give_the_same_bytes(folders, page, tmp_path):
    output = tmp_path / "new" / "report.html"
    write_report(folders, output)
    assert output.read_bytes() == page.encode()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("pools.npz", "tables only; measure it: mse-lab run probe"),
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


def test_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="name one"):
        write_report([], tmp_path / "report.html")


def test_a_failed_check_stands_at_the_top(tmp_path):
    folder = write_run(tmp_path / "run", simulate(prompts=3), checks_hold=False)
    write_report([folder], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "FAILED: do not rely" in page[: page.index("<main")]
    assert "✗ FAILED" in page[page.index('id="overview"') :]
    # A run alone is compared with none.
    assert "falls from run to run" not in page


DEGENERATE = {
    "one prompt": lambda: simulate(prompts=1),
    "two prompts": lambda: simulate(prompts=2),
    "never right": lambda: with_rewards(simulate(prompts=3), np.zeros_like),
    "always right": lambda: with_rewards(simulate(prompts=3), np.ones_like),
    "graded": lambda: with_rewards(simulate(prompts=4), lambda one: 0.5 * one + 0.2),
    "no gradient": lambda: replace(
        simulate(prompts=3), reference_product_P=-np.ones(3), between_PP=np.zeros((3, 3))
    ),
}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_runs_have_a_page(tmp_path, kind):
    """No traceback, no warning, no NaN on the page."""
    folder = write_run(tmp_path / "run", DEGENERATE[kind]())
    write_report([folder], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [one for one in read(page).ids if one in SECTIONS] == SECTIONS
    assert not re.search(r">[^<]*\b(nan|NaN|inf|None)\b", page)


def test_one_group_size(tmp_path):
    folder = write_run(tmp_path / "run", simulate(sizes=[4]), sizes=[4])
    write_report([folder], tmp_path / "report.html")
    assert read((tmp_path / "report.html").read_text(encoding="utf-8")).ids


def test_a_run_of_single_completions_is_refused():
    rng = np.random.default_rng(0)
    pools, entries = make_design(rng).draw(rng, 64, 8, 16), ["vanilla", "oracle"]
    with pytest.raises(InputError, match=r"group_sizes = \[1\]: claims need one of 2"):
        compose_page([analysed(pools, [1], estimators=entries)])


def test_an_estimator_that_is_gone_is_named(small, tmp_path):
    """A user's own module is not needed for the page, with parameters or without."""
    folder = shutil.copytree(small, tmp_path / "run")
    path = folder / "config.yaml"
    gone = "- gone.module:weights\n- {name: gone.module:weights, k: {by: [1]}}"
    text = path.read_text().replace(
        "- oracle", f"- oracle\n- {{name: grpo-std, eps: 1}}\n{gone}"
    )
    path.write_text(text)
    write_report([folder], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "gone.module:weights: " in page
    assert "grpo-std(eps=1.0)" in page


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
