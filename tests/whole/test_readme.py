"""The README's examples work as they stand."""

import re
from pathlib import Path
from textwrap import dedent

import numpy as np
import yaml

from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.probe.probe_files import parse_probe
from simulated import make_design

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROBES = (ROOT / "probes/README.md").read_text(encoding="utf-8")

# What has no default.
MUST = (("model", "path"), ("prompts", "source"))


def block(language, page=README):
    return re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)[1]


def test_an_estimator_of_ones_own(tmp_path, monkeypatch):
    """Rewards 1, 0, 0, 0: leave-one-out 1, -1/3, -1/3, -1/3, clipped at 1/2."""
    (tmp_path / "clipped.py").write_text(block("python"))
    monkeypatch.syspath_prepend(tmp_path)
    entry = yaml.safe_load(re.search(r"'estimators=(.*)'", README)[1])[-1]
    rewards = np.array([[[1.0, 0, 0, 0]]])
    groups = Groups(rewards, rewards, rewards, np.zeros(1), np.zeros((1, 1)))
    weights = find_estimator(entry).weights(groups)
    np.testing.assert_allclose(weights, [[[1 / 2, -1 / 3, -1 / 3, -1 / 3]]])


def test_the_probe_is_a_probe():
    parse_probe(yaml.safe_load(block("yaml")), "README.md")


def test_every_key_of_a_probe_is_listed_with_its_default():
    written = yaml.safe_load(block("yaml", PROBES))
    model, prompts = ({key: written[name][key]} for name, key in MUST)
    default = parse_probe({"model": model, "prompts": prompts}, "probes/README.md")
    assert written == default.model_dump()


def test_every_estimator_is_named():
    named = set(re.findall(r"`([a-z0-9+-]+)`", README))
    assert set(ESTIMATORS) <= named


def test_commands_exist():
    from mse_lab.cli import parse

    lines = re.findall(r"^    python run_mse\.py (.*)", README, re.MULTILINE)
    for words in (line.partition("#")[0].split() for line in lines):
        if "--set" not in words:
            parse(words)


def test_the_public_door_as_it_is_shown(tmp_path, monkeypatch):
    """Its lines, on pools of somebody's in the working folder."""
    lines = re.search(r"    import mse_lab, numpy as np\n(?:    .*\n)+", README)[0]
    pools = make_design(np.random.default_rng(0), prompts=6).draw(
        np.random.default_rng(1), 64, 2, 16
    )
    np.savez(tmp_path / "pools.npz", **vars(pools))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(dedent(lines), names)
    assert set(names["result"].mse["group_size"]) == {4, 8, 16}
