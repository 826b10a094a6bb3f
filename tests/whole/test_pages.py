"""What the pages show works as it stands."""

import re
import runpy
import shlex
from textwrap import dedent

import numpy as np
import pytest
import yaml
from pydantic import BaseModel
from toy import make_groups

import mse_lab
from mse_lab.answers.advice import restore_advice
from mse_lab.commands.cli import parse
from mse_lab.config.probe_files import parse_probe
from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.project import PROJECT as ROOT
from mse_lab.report.advice_report import json_values
from simulated import make_pools

GLOBS = ("*.md", "mse_lab/**/*.md", "probes/**/*.md", "results/**/*.md", "tests/**/*.md")
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for pattern in GLOBS
    for path in ROOT.glob(pattern)
}
# Commands are typed of these; SKILL.md and CHANGELOG.md have their own tests or none.
PAGES = {
    name: text for name, text in TEXTS.items() if name not in ("SKILL.md", "CHANGELOG.md")
}
HOMES = ("", "probes/", "mse_lab/", "mse_lab/results/")
README, PROBES, METHOD, REFERENCE = (TEXTS[f"{home}README.md"] for home in HOMES)

# A command as it is typed, at the beginning of an indented or fenced line.
COMMAND = r"^(?:    )?(?:\$ )?(?:torchrun .* run_mse\.py|python run_mse\.py|mse-lab) (.*)"

# What has no default.
MUST = (("model", "path"), ("prompts", "source"))


def block(language, text=README):
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]


def test_an_estimator_of_ones_own(tmp_path, monkeypatch):
    """Rewards 1, 0, 0, 0: leave-one-out 1, -1/3, -1/3, -1/3, clipped at 1/2."""
    (tmp_path / "clipped.py").write_text(block("python", METHOD))
    monkeypatch.syspath_prepend(tmp_path)
    entry = yaml.safe_load(re.search(r"'estimators=(.*)'", METHOD)[1])[-1]
    weights = find_estimator(entry).weights(make_groups([1.0, 0, 0, 0]))
    np.testing.assert_allclose(weights, [[[1 / 2, -1 / 3, -1 / 3, -1 / 3]]])


def test_every_key_of_a_probe_is_listed_with_its_default():
    """Also the keys that a dump leaves out at their defaults."""
    parse_probe(yaml.safe_load(block("yaml")), "README.md")
    written = yaml.safe_load(block("yaml", PROBES))
    model, prompts = ({key: written[name][key]} for name, key in MUST)
    default = parse_probe({"model": model, "prompts": prompts}, "probes/README.md")
    assert parse_probe(written, "probes/README.md") == default
    for name, section in default:
        if isinstance(section, BaseModel) and isinstance(written[name], dict):
            assert list(written[name]) == list(type(section).model_fields)
    assert list(written) == list(type(default).model_fields)


def test_every_estimator_and_every_field_of_the_advice_has_its_place():
    assert {*ESTIMATORS} <= set(re.findall(r"`([a-z0-9+-]+)`", METHOD))
    section = REFERENCE.partition("## advice.json")[2].partition("\n## ")[0]
    assert {*json_values(restore_advice(ADVICE))} <= set(re.findall(r"`(\w+)`", section))


COMMANDS = {
    tuple(words)
    for text in PAGES.values()
    for line in re.findall(COMMAND, text.replace("\\\n", ""), re.MULTILINE)
    if (words := shlex.split(line.partition(" && ")[0], comments=True)) and "$" not in line
}

ADVICE = ROOT / "mse_lab/examples/demo/advice.json"
LOG = "probes/notebooks/rollouts.jsonl"


def test_every_command_is_understood():
    """Those of the first page are carried out by `.ci/readme.py`."""
    assert len(COMMANDS) > 20
    for words in COMMANDS:
        assert parse(words).command == words[0]


@pytest.mark.parametrize(("command", "whole"), [("demo", True), ("rollouts", False)])
def test_a_screen_on_the_first_page_is_the_one_that_is_kept(command, whole):
    """Which `test_screens.py` holds to what is printed."""
    shown = re.search(rf"\$ mse-lab {command}.*\n((?:(?:    .*)?\n)+)", README)[1]
    lines = [line[4:] for line in shown.rstrip().splitlines()]
    kept = (ROOT / f"tests/screens/{command}.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 3
    assert [line for line in kept if whole or line in lines] == lines


@pytest.mark.parametrize("command", ["rollouts", "advise"])
def test_what_a_program_should_read_is_there(command):
    """The keys that SKILL.md names for a command's JSON."""
    row = re.search(
        rf"^\|.*mse-lab {command} \S+ --json`\|(.*)\|$", TEXTS["SKILL.md"], re.MULTILINE
    )
    named = set(re.findall(r"`(\w+)`", row[1]))
    there = {
        "rollouts": {*mse_lab.rollouts(ROOT / LOG).summary},
        "advise": {*json_values(restore_advice(ADVICE))},
    }
    assert named
    assert named <= there[command]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mse_lab.__version__


def test_the_tables_are_those_of_their_files():
    tables = runpy.run_path(str(ROOT / ".ci/tables.py"))
    assert not tables["differing"](write=False)


def test_a_number_that_differs_is_seen():
    tables = runpy.run_path(str(ROOT / ".ci/tables.py"))
    page = TEXTS["results/STUDIES.md"]
    wrong = page.replace("0.89 (0.81", "0.88 (0.81")
    assert wrong != page
    assert tables["fill"](wrong) == page


def test_the_first_page_is_short():
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 900


def anchors(text):
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [
        re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in headings
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    text, folder = TEXTS[name], (ROOT / name).parent
    for link in re.findall(r"\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\"", text):
        target, _, part = "".join(link).partition("#")
        if target.startswith("https:"):
            continue
        assert not target or (folder / target).exists(), target
        if part:
            assert part in anchors((folder / target).read_text() if target else text), link


def test_the_public_door_as_it_is_shown(tmp_path, monkeypatch):
    """Its lines, on pools of somebody's in the working folder."""
    lines = re.search(
        r"    import mse_lab, numpy as np\n(?:    .*\n|\n(?=    ))+",
        TEXTS["mse_lab/api/README.md"],
    )[0]
    np.savez(tmp_path / "pools.npz", **vars(make_pools(6, 64, 2, 16)))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(dedent(lines), names)
    assert set(names["result"].mse["group_size"]) == {4, 8, 16}
