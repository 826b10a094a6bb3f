"""Screens as a reader sees them at 80 columns, kept in tests/screens.

`UPDATE_SCREENS=1 pytest tests/whole/test_screens.py` writes them anew: read the difference
before it is committed. What depends on the processor or the hour is masked.
"""

import os
import re
import shlex

import pytest

import run_mse
from mse_lab.commands.cli import EXAMPLES, parse
from mse_lab.project import PROJECT as ROOT

SCREENS = ROOT / "tests/screens"

TYPED = {
    "demo": "demo",
    "advise-tiny": "advise tiny/base",
    "advise-smollm2": "advise smollm2/icl",
    "advise-runs": "advise smollm2/icl smollm2/base --completions-per-step 64",
    "claims": "claims smollm2/icl",
    "rollouts": f"rollouts '{ROOT}/probes/notebooks/rollouts.jsonl'",
}

MASKS = (
    (re.escape(str(ROOT)), "PROJECT"),
    (r"(?:python )?run_mse\.py", "mse-lab"),
    (r"\d\.\d+e-1\d", "1e-16"),  # what rounding leaves
)


def masked(text):
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return text


@pytest.mark.parametrize("name", TYPED)
def test_a_screen_is_the_one_that_is_kept(name, tmp_path, monkeypatch, carry_out):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    printed = masked(carry_out(*shlex.split(TYPED[name])))
    kept = SCREENS / f"{name}.txt"
    assert max(map(len, printed.splitlines())) <= 80
    if "UPDATE_SCREENS" in os.environ:
        kept.write_text(printed, encoding="utf-8")
    assert printed == kept.read_text(encoding="utf-8")


def test_a_run_shows_its_first_prompt_and_the_time_to_come(tmp_path, capsys, monkeypatch):
    """Without a terminal a line a minute, here with every count."""
    monkeypatch.setattr("mse_lab.run.progress.MINUTE", 0.0)
    short = ["prompts.limit=4", "pool.reference=8", "pool.replicate=128"]
    settings = [word for one in short for word in ("--set", one)]
    assert run_mse.main(["run", "tiny/base", *settings, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert re.search(r"^first prompt, \S+, as the model gets it: '.+'$", said, re.MULTILINE)
    assert re.search(
        r"^tiny/base: \d+%, [1-3]/4 prompts \[\d+:\d\d<\d+:\d\d", said, re.MULTILINE
    )


@pytest.mark.parametrize("name", ["demo", "help"])
def test_what_a_screen_proposes_is_understood(name):
    shown = EXAMPLES if name == "help" else (SCREENS / f"{name}.txt").read_text("utf-8")
    for line in re.findall(r"^ +mse-lab (.*?)(?:  |$)", shown, re.MULTILINE):
        assert parse(shlex.split(line)).command in line
