"""The report: one page from runs' folders, self-contained, escaped, the same every time."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from claimed_runs import wholes
from mse_lab.answers.statements import LEMMA, judge_run
from mse_lab.errors import InputError
from mse_lab.report.page import write_report
from mse_lab.results.finished_run import read_run
from simulated import make_design, with_rewards
from written_runs import EVIL, simulate, write_run

VOID = {"meta", "img", "source"}


class Reader(HTMLParser):
    """Collects heads, links and tags, and sees that every tag is closed in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.heads, self.links, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for key, value in attrs if key in ("href", "src", "srcset")]
        if tag not in VOID:
            self.open.append(tag)

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


def test_the_answers_come_first(page):
    assert read(page).heads == [
        *("some/first", EVIL, "Figure 4: MSE and group size"),
        *("Prompt by prompt", "The paper's statements"),
    ]
    head = page[: page.index("Figure 4")]
    assert len(re.findall("(Keep|Set|Cannot tell whether) num", head)) == 2
    assert page.count("MSE over the oracle") == 2


def test_nothing_comes_from_outside_and_what_comes_from_files_is_escaped(page):
    reader = read(page)
    # A step of each run, Figure 4, and the prompts, on a light ground and on a dark one.
    assert len(reader.links) == 2 * 4
    assert all(link.startswith("data:image/svg+xml;base64,") for link in reader.links)
    assert not reader.tags & {"script", "link", "iframe", "object", "embed", "base"}
    assert not re.search(r"@import|http|url\(", page)
    assert page.count("&lt;script&gt;") >= 5


def test_the_same_runs_give_the_same_bytes(folders, page, tmp_path):
    assert write(folders, tmp_path / "new" / "report.html") == page


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("pools.npz", "tables only; python run_mse.py run probe --out DIR"),
        ("mse.csv", "no finished run"),
    ],
)
def test_an_unfinished_folder_is_refused(tmp_path, missing, words):
    folder = write_run(tmp_path / "run", simulate(prompts=3))
    (folder / missing).unlink()
    with pytest.raises(InputError, match=words):
        write_report([folder], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_failed_check_takes_the_place_of_the_advice(tmp_path):
    folder = write_run(tmp_path / "run", simulate(prompts=3), checks_hold=False)
    page = write([folder], tmp_path / "report.html")
    assert "0.50 (bound 1) FAILED" in page
    assert "No advice: a built-in check of this run FAILED" in page
    assert not re.search("(Keep|Set|Cannot tell whether) num", page)


def of_one_reward(reward):
    """Pools of prompts whose completions are all worth as much."""
    rng = np.random.default_rng(3)
    design = make_design(rng, 3)
    same = replace(design, reward_PC=np.full_like(design.reward_PC, reward))
    return same.draw(rng, 64, 2, 32)


DEGENERATE = {
    "one prompt": lambda: simulate(prompts=1),
    "two prompts": lambda: simulate(prompts=2),
    "never right": lambda: of_one_reward(0.0),
    "always right": lambda: of_one_reward(1.0),
    "graded": lambda: with_rewards(simulate(prompts=4), lambda one: 0.5 * one + 0.2),
    "no gradient": lambda: replace(
        simulate(prompts=3), reference_product_P=-np.ones(3), between_PP=np.zeros((3, 3))
    ),
    "one size": lambda: simulate(sizes=[4]),
}
UNKNOWN = {"undecided", "not tested"}


@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_runs_have_a_page(tmp_path, kind):
    """No traceback, no warning, no NaN on the page; no verdict without an error."""
    sizes = {"sizes": [4]} if kind == "one size" else {}
    folder = write_run(tmp_path / "run", DEGENERATE[kind](), **sizes)
    page = write([folder], tmp_path / "report.html")
    assert len(read(page).heads) == 4
    assert not re.search(r">[^<]*\b(nan|NaN|inf|None)\b", page)
    claims = wholes(judge_run(read_run(folder)))
    assert len(claims) == 13
    assert all(one.sentence for one in claims.values())
    assert claims.pop(LEMMA).verdict == "holds"
    if kind == "never right":
        assert {one.verdict for one in claims.values()} == UNKNOWN
