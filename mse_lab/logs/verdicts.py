"""Verdicts on a log: a finding for each check, and an action where it needs a look.

The limits of the checks are also those of `mse-lab rollouts --fail-on`. They are rules of
thumb for where to look first; none is derived.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import one_line
from mse_lab.formatting import number, percent, share, with_interval
from mse_lab.logs.summary import Summary

# The value of a check, its finding, and the action; None where the log lacks the numbers.
_Finding = tuple[float, str, str] | None


class LogVerdict(NamedTuple):
    """What a check of a log found."""

    check: str  # Its key in `LIMITS`.
    value: float
    limit: float
    finding: str
    action: str  # What to do if it needs a look.

    @property
    def look(self) -> bool:
        """Whether it needs a look."""
        return self.value > self.limit

    def line(self) -> str:
        """Say the finding, and the action where it needs a look."""
        limit = f"{number(self.limit, 2)}, {self.check}"
        if self.look:
            return f"LOOK  {self.finding} (above {limit}). {self.action}"
        return f"OK    {self.finding} (limit {limit})."


def _silent(summary: Summary) -> _Finding:
    silent, right, wrong = (
        summary.numbers[name] for name in ("zero_variance", "all_right", "all_wrong")
    )
    if silent is None:
        return None
    kind = "Most got the largest reward: take harder prompts."
    if wrong.value >= right.value:
        kind = "Most got the least reward: take easier prompts, or a graded reward."
    ask = f"Ask {COMMAND_PREFIX} advise PROBE what a larger G costs before you raise it."
    return silent.value, f"zero-variance groups {percent(silent)}", f"{kind} {ask}"


def _truncated(summary: Summary) -> _Finding:
    truncated, cut_N = summary.numbers.get("truncated_interval"), summary.groups.cut_N
    if truncated is None or cut_N is None:
        return None
    finding = f"cut completions {percent(truncated)}"
    cut, ended = (summary.mean_where(flags_N).value for flags_N in (cut_N, ~cut_N))
    if np.isfinite(cut) and np.isfinite(ended):
        finding += f", mean reward {number(cut, 2)} where others have {number(ended, 2)}"
    action = "Raise the limit on the length, or the reward teaches length before the task."
    return truncated.value, finding, action


def _copies(summary: Summary) -> _Finding:
    copies = summary.numbers.get("duplicates")
    return copies and (
        copies.value,
        f"copies within groups {percent(copies)}",
        "A group of copies has no gradient: raise the temperature, and check that the "
        "completions of a group are drawn with seeds of their own.",
    )


def _drift(summary: Summary) -> _Finding:
    drift, (least, most) = summary.numbers["drift"], summary.groups.range
    if not np.isfinite(drift.value):
        return None
    fell = drift.high < 0 and most > least
    return (
        -drift.value / (most - least) if fell else 0.0,
        f"mean reward of the last third of steps minus the first's {with_interval(drift)}",
        "Lower the learning rate, or look for a change of prompts.",
    )


def _parts(summary: Summary) -> _Finding:
    if summary.parts is None:
        return None
    outcome, alone = one_line(summary.parts.outcome), summary.parts.alone
    of = f"groups that have {outcome}" if summary.parts.without else "groups"
    return (
        alone.varies,
        f"in {share(alone.varies)} of the {of} only {one_line(alone.name)} differs, not "
        f"{outcome}: {share(alone.share_std)} of the squared advantages if divided by the "
        f"group's standard deviation, {share(alone.share_plain)} if not",
        f"Give the rest only where {outcome} is met, or do not divide "
        "(scale_rewards=none).",
    )


def _mismatch(summary: Summary) -> _Finding:
    mismatch = summary.numbers.get("mismatch")
    return mismatch and (
        1 - mismatch.effective,
        f"engine and trainer: effective sample size {share(mismatch.effective)}",
        "Compare the engine's precision and kernels with the trainer's.",
    )


# Each check, and the value above which it needs a look.
_CHECKS: Mapping[str, tuple[Callable[[Summary], _Finding], float]] = {
    "silent": (_silent, 0.5),  # The share of zero-variance groups.
    "truncated": (_truncated, 0.1),  # Of completions that the length limit cut.
    "copies": (_copies, 0.5),  # Of completions equal to an earlier one of their group.
    # The fall of the mean reward, over the range of rewards, where it is significant.
    "drift": (_drift, 0.05),
    "parts": (_parts, 0.2),  # Of groups in which only other parts than the outcome differ.
    "mismatch": (_mismatch, 0.2),  # One minus the effective sample size of the weights.
}
LIMITS = {key: limit for key, (_, limit) in _CHECKS.items()}


def verdicts_of(summary: Summary) -> dict[str, LogVerdict]:
    """Judge a log by its limits, by the checks for which it has the numbers."""
    limits = {**LIMITS, **summary.limits}
    found = {key: check(summary) for key, (check, _) in _CHECKS.items()}
    return {
        key: LogVerdict(key, got[0], limits[key], *got[1:])
        for key, got in found.items()
        if got is not None
    }


def verdict_lines(summary: Summary) -> list[str]:
    """Say all verdicts, and which checks lack the numbers."""
    verdicts = verdicts_of(summary)
    # A log without parts of a reward lacks nothing.
    unknown = [key for key in LIMITS if key not in {*verdicts, "parts"}]
    lines = [one.line() for one in verdicts.values()]
    return lines + [f"These logs do not tell: {', '.join(unknown)}."] * bool(unknown)


def verdicts_as_dicts(summary: Summary) -> list[dict[str, Any]]:
    """Give the verdicts for programs."""
    return [
        one._asdict() | {"verdict": "LOOK" if one.look else "OK"}
        for one in verdicts_of(summary).values()
    ]
