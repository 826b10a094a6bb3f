"""Results in Python: what `measure`, `analyse` and `advise` return."""

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Literal

import pandas as pd

from mse_lab.answers import advice
from mse_lab.answers.advice_evidence import Evidence, evidence_of_run
from mse_lab.errors import InputError, nearest
from mse_lab.formatting import wrap
from mse_lab.results.analysis import Analysis

if TYPE_CHECKING:
    from mse_lab.report.drawing import Figure


class Advice(advice.Advice):
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
        return Advice(**vars(advice.make_advice(self.evidence())))

    def advise(self, completions_per_step: int | None = None) -> Advice:
        """Give the `advice`, or that for a training of so many completions a step.

        Raises:
            InputError: As for `advice`.
        """
        if completions_per_step is None:
            return self.advice
        return Advice(**vars(advice.make_advice(self.evidence(completions_per_step))))

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
