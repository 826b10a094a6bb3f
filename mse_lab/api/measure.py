"""The Python interface: from a model in memory, or from arrays, to every answer.

    import mse_lab
    tokens = {"max_new_tokens": 32}
    result = mse_lab.measure(model, tokenizer, prompts, reward, sampling=tokens)
    print(result.advice)  # the screen of `mse-lab advise`
    result.mse, result.prompts, result.advice.set_to
    result.plot("advice").savefig("advice.png")
    advice = mse_lab.advise(model, tokenizer, prompts, reward, sampling=tokens)
    advice.verdict, advice.set_to, advice.steps_saved, advice.completions, advice.stopped

`analyse` needs arrays alone, no model and no torch. So scores that were computed elsewhere
can be analysed, intervals and estimators can be changed afterwards, and the statistics can
be tested on arrays whose truth is known.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from mse_lab.answers import advice as answer
from mse_lab.answers.advice import make_advice
from mse_lab.answers.advice_evidence import (
    Evidence,
    ask,
    evidence_of_run,
    evidence_of_samples,
)
from mse_lab.config.probe_files import parse_probe
from mse_lab.config.schema import EstimatorEntry, IntervalMethod, PromptPopulation
from mse_lab.config.training import Setting, read_training
from mse_lab.data.foreign_code import load_extra
from mse_lab.errors import InputError, is_count, is_share, nearest, shown
from mse_lab.formatting import wrap
from mse_lab.mse.pools import Pools
from mse_lab.mse.rule import TOLERANCE, Question
from mse_lab.mse.samples import Samples
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import none_failed
from mse_lab.results.folder import ADVICE

if TYPE_CHECKING:
    from mse_lab.report.drawing import Figure
    from mse_lab.run.advise import Sampled

# Keys of a probe that both functions take; of its prompts these alone, without a section.
OF_PROMPTS = ("template", "chat", "chat_template_kwargs", "population")
KEYS = ("sampling", "training", "interval", "parameters", "seed", *OF_PROMPTS)
OF_A_RUN = ("group_sizes", "estimators", "pool")
OF_ALL = ("name", "out", "progress")
OF_ADVICE = ("regret", "budget", "completions_per_step")


class Advice(answer.Advice):
    """The advice; `print` shows the screen of `mse-lab advise`.

    Estimates have `value`, `low` and `high`, over prompts, at the confidence `level`.

    Attributes:
        verdict: Whether to `keep` the group size in use, to `change` it, or `cannot tell`.
        setting: What that is about: `trainer`, `group_size`, `estimator`.
        completions_per_step: N of that training; None where it is unknown.
        set_to: The group size to type; the one in use unless the verdict is `change`.
        steps_saved: The share of steps that it saves at N; None where unknown.
        saves: The share of completions for the same error, the limit of small N.
        progress: At some N, the share of the progress possible that a step makes.
        noise_scale: The N at which half of it is made, with the present size.
        learning_rate_factor: By what to multiply Adam's if the batch is halved.
        ladder: What could be set, what it costs over what is set, and what is typed.
        best: G*, the size of least gradient error; infinite above where c1 is not
            significantly positive.
        c1, c2, c3: N MSE = c1 G + c2 + c3/(G-1).
        regime: V, rho, b* and the line above which vanilla is worse than the oracle.
        completions, stopped: How many completions were drawn, and why no more; None for a
            finished run.
        held, warnings: Whether the built-in checks hold, and the run's warnings.
    """

    def __repr__(self) -> str:
        from mse_lab.report.advice_report import advice_headline

        about = f"Advice for {self.name}, from {self.prompts} prompts; print shows it all"
        return f"{about}\n{wrap(advice_headline(self))}"

    def __str__(self) -> str:
        from mse_lab.report.advice_report import advice_text

        return advice_text(self).rstrip()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, eq=False, repr=False)
class Result(Analysis):
    """A measurement, or given arrays, and all that follows from it.

    A result equals only itself. A pickled one has what was measured; all else is computed
    again.

    Attributes:
        noted: The built-in checks and warnings of the measurement; None for arrays.
        setting: The training that the advice judges.
    """

    def __repr__(self) -> str:
        pools, sizes = self.pools, ", ".join(map(str, self.group_sizes))
        names = ", ".join(estimator.name for estimator in self.estimators)
        return (
            f"Result {self.name}: {pools.prompts} prompts, "
            f"{pools.reference_rewards_PN.shape[1]} + {pools.rewards_PN.shape[1]} "
            f"completions each\n{names} at G = {sizes}\n"
            "data frames: mse, laws, prompts, claims(); advice, warnings, plot()"
        )

    def _repr_html_(self) -> str:
        table = self.mse[["estimator", "group_size", "mse", "mse_low", "mse_high", "law"]]
        page = table.to_html(index=False, float_format="{:.4g}".format)
        return f"<pre>{escape(repr(self))}</pre>{page}"

    def claims(self) -> pd.DataFrame:
        """Judge the paper's statements by the pools.

        Returns:
            The rows of `claims.csv`, one for each statement and `group_size`, if any:
            `statement`, `kind` (evidence, or an identity), `run`, `group_size`, `says`,
            `number` (what it is), `value` with its interval `low` to `high`, `p_value`,
            `verdict` (holds, fails, does not carry over, outside, undecided or not
            tested), `sentence`.

        Raises:
            InputError: There is no group size of two or more.
        """
        from mse_lab.answers.claims import claims_table
        from mse_lab.answers.statements import judge_run

        return claims_table(judge_run(self))

    def evidence(self, completions_per_step: int = 0) -> Evidence:
        """Take the prompts as evidence on the training `setting`."""
        return evidence_of_run(self, self.setting, completions=completions_per_step)

    @cached_property
    def advice(self) -> Advice:
        """Which group size and baseline suit the model and prompts.

        Raises:
            InputError: There are fewer than three prompts, or no rewards differ.
        """
        return self.advise()

    def advise(self, completions_per_step: int | None = None) -> Advice:
        """Give the `advice`, or that for a training of so many completions a step.

        Raises:
            InputError: As for `advice`.
        """
        count, size = completions_per_step, self.setting.group_size
        if not (count is None or (is_count(count) and count % size == 0)):
            raise InputError(
                f"completions_per_step = {shown(count)}: give a multiple of the group size "
                f"{size}, or None"
            )
        return Advice(**vars(make_advice(self.evidence(count or 0))))

    def plot(self, kind: Literal["figure4", "advice", "phase"] = "figure4") -> "Figure":
        """Draw a figure of matplotlib: a notebook shows it, `savefig` writes it.

        Args:
            kind: `figure4`, the MSE against the group size, and its ratio to the oracle's;
                `advice`, what each row of the ladder takes of the steps of yours, over N;
                `phase`, on which prompts a baseline near the value lowers the error.

        Raises:
            InputError: There is no such figure, or nothing to advise on.
        """
        from mse_lab.answers.ladder import Ladder
        from mse_lab.report.drawing import show_figure
        from mse_lab.report.figure_4 import compose
        from mse_lab.report.ladder_figure import compose_ladder
        from mse_lab.report.phase_diagram import compose_phase

        composers = {
            "figure4": lambda: compose([self]),
            "advice": lambda: compose_ladder(Ladder(self.evidence())),
            "phase": lambda: compose_phase([self]),
        }
        if kind not in composers:
            known = nearest(kind, [*composers])
            raise InputError(f"plot({kind!r}): no such figure; {known}")
        return show_figure(composers[kind])


def measure(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    reward: str | Callable[..., Any],
    *,
    name: str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    **keys: Any,
) -> Result:
    """Measure the estimators' MSE for a model that is in memory already.

    This is the pipeline of `mse-lab run`, with its checks. The model is measured in
    evaluation mode and returned as it was: its modes, `requires_grad` and gradients, its
    precision and device.

    Args:
        model: A causal language model of transformers. Parameters that do not require
            gradients do not count, as where it has an adapter of PEFT.
        tokenizer: Its tokenizer.
        prompts: Texts, mappings, or a data frame, with `problem` (or TRL's `prompt`), a
            text or with `chat` also messages, and `answer` where the reward is one of
            ours; `id` and `category` may be missing.
        reward: A name as in a probe; or a function `(text, row) -> float` of a completion's
            text and its prompt's mapping; or one as for TRL, `(completions, **columns) ->
            list`, which is called for some completions of one prompt; or verl's
            `compute_score`, called by its names.
        name: The name in the rows of the tables; by default the model's.
        out: A folder for all files of a run, from which an interrupted call resumes; by
            default nothing is written.
        progress: Whether a progress bar is shown.
        keys: Keys of a probe, with its meanings and defaults: `group_sizes`, `estimators`,
            `sampling`, `pool`, `training`, `interval`, `parameters`,
            `seed`; and of its prompts `template` (here by default `none`), `chat`,
            `chat_template_kwargs` and `population`.

    Raises:
        InputError: An argument is not usable; the message names it.
    """
    taken = (*KEYS, *OF_A_RUN, *OF_ALL)
    settings, folder = _read_keys("measure", keys, taken), _read_folder(name, out)
    read_training(settings.get("training"))  # What is wrong is refused at once.
    from mse_lab.run.context import borrow_subject
    from mse_lab.run.run_probe import measure_model

    given = model, tokenizer, _rows(prompts), reward, settings
    with borrow_subject(*given, name, folder) as subject:
        analysis = measure_model(subject, shown=progress)
    return Result(**analysis.__getstate__())


def advise(
    model: Any,
    tokenizer: Any,
    prompts: Iterable[Any],
    reward: str | Callable[..., Any],
    *,
    regret: float = TOLERANCE,
    budget: int | None = None,
    completions_per_step: int | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    **keys: Any,
) -> Advice:
    """Measure a model that is in memory until it is known which group size suits it.

    This is the pipeline of `mse-lab advise`. All arguments are as in `measure` unless said
    otherwise here.

    Args:
        model: A causal language model of transformers; it is returned as it was.
        tokenizer: Its tokenizer.
        prompts: As in `measure`, in any order: they are chosen at random.
        reward: As in `measure`.
        regret: How much more than the best size is all right.
        budget: The most completions that are drawn in all; None for 8,192.
        completions_per_step: N of the training, where `training` does not say it.
        name: The name of what is advised on; by default the model's.
        out: A folder for the samples, from which a later call resumes; by default nothing
            is written.
        progress: Whether the interval of the best size is shown as it narrows.
        keys: As in `measure`, but for `group_sizes`, `estimators` and `pool`.

    Raises:
        InputError: An argument is not usable, or no reward varied; the message says which.
    """
    if not is_share(regret):
        raise InputError(f"regret = {shown(regret)}: give a share such as 0.05")
    counts = {"budget": budget, "completions_per_step": completions_per_step}
    for key, count in counts.items():
        if not (count is None or is_count(count)):
            raise InputError(f"{key} = {shown(count)}: give a whole number, or None")
    settings = _read_keys("advise", keys, (*KEYS, *OF_ALL, *OF_ADVICE))
    training = settings.get("training")
    if completions_per_step is not None and isinstance(training, Mapping | None):
        training = {"completions_per_step": completions_per_step, **(training or {})}
    setting, folder = read_training(training), _read_folder(name, out)
    if completions_per_step not in (None, setting.completions_per_step):
        other = f"training says {setting.completions_per_step}; leave one out"
        raise InputError(f"completions_per_step = {completions_per_step}: {other}")
    from mse_lab.run.advise import LARGEST_BLOCK, sample_probe
    from mse_lab.run.context import borrow_subject

    given = model, tokenizer, _rows(prompts), reward, settings
    kept = None if folder is None else folder / ADVICE
    with borrow_subject(*given, name, kept, block=LARGEST_BLOCK) as subject:
        level = subject.probe.interval.level
        question = ask(setting, level, regret)
        ended = sample_probe(subject, question, budget=budget, shown=progress)
    return Advice(**vars(make_advice(evidence_of(ended, setting, question))))


def evidence_of(ended: "Sampled", setting: Setting, question: Question) -> Evidence:
    """Take what a measurement until the answer is known has ended with."""
    return evidence_of_samples(
        ended.subject.name,
        ended.subject.probe,
        Samples.of(ended.prompts),
        setting,
        question,
        ended.stopped,
        len(ended.order),
        held=none_failed(ended.checks),
        warnings=ended.warnings,
    )


def _read_keys(
    function: str, keys: Mapping[str, Any], taken: Sequence[str]
) -> dict[str, Any]:
    """Make a probe's keys of what a function was given; None is a section's default."""
    for key in keys:
        if key not in taken:
            raise InputError(f"{function}: unknown key {key}; {nearest(key, taken)}")
    for library in ("torch", "transformers"):
        load_extra(library, "measure", function)
    given = {
        key: _plain(value)
        for key, value in keys.items()
        if value is not None or key in ("parameters", "seed", *OF_PROMPTS)
    }
    prompts = {key: given.pop(key) for key in OF_PROMPTS if key in given}
    return given | {"prompts": {"source": "memory", "template": "none", **prompts}}


def _rows(prompts: Any) -> Any:
    return prompts.to_dict("records") if isinstance(prompts, pd.DataFrame) else prompts


def _read_folder(name: Any, out: Any) -> Path | None:
    if not (out is None or isinstance(out, str | PathLike)):
        raise InputError(f"out = {shown(out)}: give a folder, or None")
    if not (name is None or isinstance(name, str)):
        raise InputError(f"name = {shown(name)}: give a text, or None")
    return None if out is None else Path(out)


def analyse(
    arrays: Mapping[str, Any],
    *,
    group_sizes: Sequence[int],
    estimators: Sequence[EstimatorEntry] = ("vanilla", "grpo", "oracle"),
    level: float = 0.95,
    resamples: int = 2000,
    method: IntervalMethod = "closed-form",
    seed: int = 0,
    name: str = "pools",
    population: PromptPopulation = "like-these",
) -> Result:
    """Analyse pools: errors, exact laws, intervals, the paper's statements, advice.

    Args:
        arrays: By the names of `Pools`, as in `pools.npz`; the two `kind_*` and
            `logit_norms2_PN` may be absent.
        group_sizes: Group sizes G; each divides the largest, and that the G of the blocks
            in `gram_PKGG`, of which there are two or more.
        estimators: As in a probe: names, or mappings of a name and parameters.
        level: Coverage of intervals, between 0 and 1.
        resamples: Draws of the reference's noise, and of the bootstrap.
        method: How intervals are computed: `closed-form`, or `bootstrap`, which draws
            groups within prompts, and prompts for the advice.
        seed: The seed of all draws.
        name: The name in the rows of the tables.
        population: As in `measure`.

    Raises:
        InputError: An argument is not usable; the message names it.
    """
    pools = Pools.from_arrays(arrays)
    asked: dict[str, Any] = _plain(
        {
            "group_sizes": group_sizes,
            "estimators": estimators,
            "interval": {"level": level, "resamples": resamples, "method": method},
            "seed": seed,
        }
    )
    sizes, largest = asked["group_sizes"], pools.largest_group
    for size in sizes if isinstance(sizes, list) else ():
        if isinstance(size, int) and size > 0 and largest % size:
            raise InputError(
                f"group_sizes: {size} does not divide the {largest} completions of a block"
            )
    reference, replicate = pools.reference_rewards_PN.shape[1], pools.rewards_PN.shape[1]
    known = {
        "model": {"path": "arrays"},
        "prompts": {"source": "arrays", "population": population},
        "pool": {"reference": reference, "replicate": replicate},
    }
    probe = parse_probe(known | asked, "analyse")
    described = pd.DataFrame(
        {
            "prompt": [str(index) for index in range(pools.prompts)],
            "category": "",
            "mean_length": pools.lengths_PN.mean(-1),
            "truncated": math.nan,
        }
    )
    result = Result(name, probe, pools, described)
    assert result.estimators  # This refuses those that do not exist, by name.
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [*map(_plain, value)]
    return value
