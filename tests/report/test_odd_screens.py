"""Screens of odd runs: no number that is none, by the rule of `formatting.py`."""

import re

import numpy as np
import pytest

from claimed_runs import draw
from log_makers import groups_of, summarise
from mse_lab.answers.advice import make_advice
from mse_lab.answers.statements import judge_runs
from mse_lab.mse.samples import Samples
from mse_lab.report.advice_report import advice_text
from mse_lab.report.claims_report import claims_screen
from mse_lab.report.rollouts_report import rollouts_text
from simulated import choose, evidence_of, population, scaled

POWER = re.compile(r"\de[+-]?\d")
DIGITS = re.compile(r"[1-9]\d*\.\d{5}|\.0*[1-9]\d{5}")
INTERVAL = re.compile(r"([\d.,]+)(?:%| times)? \(([\d.,]+) to ([\d.,]+)\)")


def forbidden(text):
    """List what a screen may not show."""
    found = [*POWER.findall(text), *DIGITS.findall(text)]
    for match in INTERVAL.finditer(text):
        value, low, high = (
            float(end.replace(",", "").rstrip(".")) for end in match.groups()
        )
        spans = low > 0 and high > 101 * low
        whole = "%" in match[0] and high - low > 95
        found += [match[0]] * (spans or whole or (value * 101 < high and value > 0))
    return found


@pytest.mark.parametrize(
    "groups",
    [
        [(1.0, 0.0, 1.0, 1.0)],
        [(1.0,) * 8],
        [(0.0,) * 8] * 300 + [(1.0,) + (0.0,) * 7],
        [(1e-9, 0.0, 3e-9, 0.0)] * 3,
        [(1e7, 0.0), (0.0, 0.0), (2e7, 1e7)],
        [(0.0, 0.0)],
        [(0.5, 0.5), (2.0, 0.5)],
        [(-3.0, -3.0)],
    ],
)
def test_of_logs(tmp_path, groups):
    """One prompt, of which there may be several groups, has no interval."""
    for more in (1, 3):
        records = [
            record | {"step": step} for step in range(more) for record in groups_of(*groups)
        ]
        text = rollouts_text(summarise(tmp_path, records))
        binary = {reward for group in groups for reward in group} <= {0.0, 1.0}
        assert not (
            forbidden(text)
            if binary
            else POWER.findall("".join(line for line in text.splitlines() if "%" in line))
        ), text
        if len(groups) == 1:
            assert not INTERVAL.search(text), text
        assert not re.search("nan|inf", text.lower()), text


@pytest.mark.parametrize(("prompts", "spread"), [(4, 0.0), (6, 2.5), (12, 2.5), (40, 0.8)])
def test_of_advice(prompts, spread):
    """Few completions of few prompts, whose scores lie far apart."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        design = population(np.random.default_rng(1))
        some = choose(design, rng.integers(0, design.prompts, prompts))
        some = scaled(some, np.exp(spread * rng.standard_normal(prompts)))
        text = advice_text(make_advice(evidence_of(Samples.of(some.sample(rng, 8)))))
        assert not forbidden(text), (forbidden(text), text)


def test_of_claims():
    """Identities hold up to rounding, which is a power of ten; papers have numbers."""
    text = claims_screen(judge_runs([draw("quiet", sizes=(4, 8))]))
    assert not forbidden(re.sub(r"arXiv [\d.]+|\de-1\d", "", text))
