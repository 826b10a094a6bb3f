"""Populations of prompts whose constants are known, and runs drawn from them."""

import math
from dataclasses import replace
from functools import cache

import numpy as np

from mse_lab.answers.advice_evidence import ask, evidence_of_samples
from mse_lab.config.probe_files import parse_probe
from mse_lab.config.training import DEFAULT
from mse_lab.mse.constants import Constants, find_constants
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.moments import Moments
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.samples import Samples
from simulated import Design, analysed, make_design

POPULATION, PROMPTS = 4000, 60


def advise_on(pools):
    """Advise from pools that are no run's."""
    return analysed(pools, [4]).advise()


def tilt(design, step_PD):
    """Add to the scores a step along the centred reward: g moves by Var(Z) times it."""
    residual = design.reward_PC - design.mean(design.reward_PC)[:, None]
    return replace(
        design, score_PCD=design.score_PCD + residual[..., None] * step_PD[:, None]
    )


def population(rng, shared=2.0):
    """Prompts whose gradients have a part in common."""
    design = make_design(rng, prompts=POPULATION)
    common = np.zeros((POPULATION, design.score_PCD.shape[-1]))
    common[:, 0] = shared
    return tilt(design, common)


def with_gradient(design, gradient):
    """Give every prompt this gradient, so that c1 = 0."""
    variance = design.moments().variance
    return tilt(design, (gradient - design.gradient_PD) / variance[:, None])


def table_of(measured, size=math.inf):
    """The table of prompts of a run's pools, or of samples."""
    make = PromptTable.of_samples if isinstance(measured, Samples) else PromptTable.of_pools
    return make(measured, size=size)


PROBE = parse_probe({"model": {"path": "none"}, "prompts": {"source": "none"}}, "probe")


def evidence_of(samples, setting=DEFAULT, completions=0, name="few", level=0.95):
    """Few completions of each prompt as evidence on a training."""
    question = ask(setting, level, completions=completions)
    return evidence_of_samples(
        name, PROBE, samples, setting, question, "budget", samples.prompts
    )


def scaled(design, scale_P):
    """Multiply the scores of each prompt."""
    return replace(design, score_PCD=design.score_PCD * np.asarray(scale_P)[:, None, None])


def choose(design, index):
    return Design(*(getattr(design, name)[index] for name in vars(design)))


def sample(design, rng, reference=256, blocks=2, largest=16):
    """Draw the prompts of a run, and its pools."""
    index = rng.integers(0, design.prompts, PROMPTS)
    return choose(design, index).draw(rng, reference, blocks, largest)


@cache
def known_run():
    """A population, the pools of one run on it, and the advice."""
    rng = np.random.default_rng(0)
    design = population(rng)
    pools = sample(design, rng, blocks=4, largest=64)
    return design, pools, advise_on(pools)


@cache
def alike_prompts():
    """Prompts that share the gradient: c1 = 0."""
    design = make_design(np.random.default_rng(2), prompts=POPULATION)
    # Elsewhere the scores that a given gradient needs would be huge.
    design = choose(design, design.moments().variance > 0.1)
    return with_gradient(design, 0.2)


class _OneSample:
    """All prompts alone, as samples of prompts: nothing is left out."""

    def means(self, values_P):
        return np.array([np.mean(values_P)])

    def without_bias(self, ratio):
        return ratio


class ExactTable(PromptTable):
    """The table of prompts that are all there are, from their exact moments."""

    @classmethod
    def of(cls, design):
        gradient_PD, prompts = design.gradient_PD, design.prompts
        return cls(
            moments=design.moments(),
            products_PP=without_diagonal(gradient_PD @ gradient_PD.T),
            gradient_noise_P=np.zeros(prompts),
            binary=set(np.unique(design.reward_PC)) <= {0, 1},
            size=prompts,
        )

    @property
    def prompt_samples(self):
        return _OneSample()

    def mean_products(self, left_P, right_P):
        products_PP = self.products_PP + np.diag(self.gradient2_P)
        return np.array([left_P @ products_PP @ right_P / self.prompts**2])

    @property
    def samples(self):
        ones = np.ones(self.prompts)
        pairs = self.mean_products(ones, ones)
        return find_constants(
            lambda moment: np.array([np.mean(moment(self.moments))]), pairs, math.inf
        )


_ONE = _OneSample()


def _alike(c2, c3, vanilla, gradient2):
    """Moments of prompts that are all alike, with V = 1 and S = 1."""
    weighted = (vanilla - c2 + 1) / 2
    figures = (1.0, weighted, vanilla + gradient2, 1.0, c3 - gradient2, gradient2)
    return Moments(*(np.full(60, figure) for figure in figures))


class KnownTable(PromptTable):
    """A table whose constants are known exactly, whichever prompt is left out."""

    def __init__(self, c1, c2, c3, vanilla=1.0, gradient2=1.0):
        figures = (c1, c2, c3, vanilla, 1.0, 1.0, gradient2)
        samples = Constants(*(np.array([figure]) for figure in figures))
        known = {"effective_prompts": math.inf, "size": math.inf, "bootstrap": None}
        known |= {"products_PP": np.zeros((60, 60)), "halves": (), "binary": True}
        known |= {"moments": _alike(c2, c3, vanilla, gradient2), "prompt_samples": _ONE}
        self.__dict__ |= {"samples": samples, "half_samples": [], **known}

    def statistic(self, figure):
        return Statistic(float(self._evaluate(figure).item()), {}, {})

    contributions = statistic

    def knows_c1(self, level):
        return self.constants.c1.item() > 0
