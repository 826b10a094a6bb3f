"""The summary of a trainer's log in words: the parts of its report, the answer first."""

from collections.abc import Iterator

import numpy as np

from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import one_line, shorten
from mse_lab.formatting import LEAST_TIMES, NOT_KNOWN, number, percent, share, with_interval
from mse_lab.logs.parts import RewardParts
from mse_lab.logs.summary import Summary
from mse_lab.logs.values import is_significant
from mse_lab.logs.verdicts import verdict_lines
from mse_lab.mse.rule import FIRST_COMPLETIONS, FIRST_PROMPTS
from mse_lab.report.rendering import Part, as_markdown, as_text
from mse_lab.report.run_screen import say_mismatch

# What stands for never and always right where rewards are graded.
EXTREMES = ("always at the least reward", "always at the largest reward")

CANNOT_TELL = (
    "Which group size has the least gradient error, and whether a baseline helps: both "
    "depend on the scores, which no trainer logs. A larger G has fewer zero-variance "
    "groups, and fewer prompts for the same completions."
)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def rollouts_headline(summary: Summary) -> str:
    """Say how much of the log has a signal."""
    numbers, size = summary.numbers, summary.groups.size_in_use
    if not summary.grouped:
        mean = with_interval(numbers["mean_reward_interval"])
        return f"Mean reward {mean}; there are no groups."
    best, worst = ("right", "wrong") if summary.groups.binary else ("largest", "least")
    if not (wasted := numbers["zero_variance_completions"]):
        return f"Every group of {size} has rewards that vary."
    silent, all_right, all_wrong = (
        numbers[name] for name in ("zero_variance", "all_right", "all_wrong")
    )
    # Of these groups it is a count, also where nothing is known of others.
    known = percent(silent)
    return (
        f"{share(silent.value) if known == NOT_KNOWN else known} of the groups have zero "
        f"variance: {share(all_wrong.value)} all {worst}, {share(all_right.value)} all "
        f"{best}. They took {wasted:,} of {numbers['completions']:,} completions, and give "
        "no gradient."
    )


def _answer(summary: Summary) -> Iterator[str]:
    """Say how much of the log has a signal, and how large it is."""
    yield rollouts_headline(summary)
    groups, prompts = summary.groups, summary.numbers["groups_per_step"]
    size, steps = groups.size_in_use, summary.steps
    if prompts is not None and summary.grouped:
        used = prompts * (1 - summary.numbers["zero_variance"].value)
        of_step = f"Of the {prompts:,} prompts of a step {used:.1f}"
        yield f"{of_step} have a gradient, on average."
    count = (
        f"{len(groups.completions):,} completions of "
        f"{_many(len(summary.prompts), 'prompt')} in {_many(len(groups.groups), 'group')}"
        f"{f', commonly of {size}' if summary.grouped else ''}"
    )
    if prompts is None:  # There are no steps.
        yield f"{count}."
        return
    first, last = steps["step"].iloc[[0, -1]]
    yield f"{count}; {_many(len(steps), 'step')}, {first} to {last}."
    yield f"A step has {prompts:,} prompts x {size} = {prompts * size:,} completions."


def _values(summary: Summary) -> Part:
    numbers, prompts, binary = summary.numbers, len(summary.prompts), summary.groups.binary
    said, (least, most) = [], summary.groups.range
    if binary and least < most and (least, most) != (0, 1):
        said = [
            f"Right is a reward of {number(most)}, wrong one of {number(least)}; V is the "
            "share of right completions."
        ]
    never, always = ("never right", "always right") if binary else EXTREMES
    band = "right {} of the time" if binary else "in the range's {}"
    rows = [
        ["mean reward", with_interval(numbers["mean_reward_interval"])],
        [f"prompts {never}", percent(numbers["never_right"])],
        *(
            [f"prompts {band.format(name)}", share(count / prompts)]
            for name, count in numbers["values"].items()
            if name[0].isdigit()
        ),
        [f"prompts {always}", percent(numbers["always_right"])],
    ]
    spread, drift = numbers["value_sd"], numbers["drift"]
    if np.isfinite(spread.value):
        small = f"under {LEAST_TIMES:g}" if spread.high < LEAST_TIMES else ""
        where = ", in a step" if is_significant(drift) else ""
        rows.append([f"spread of values (sd){where}", small or with_interval(spread)])
    if np.isfinite(drift.value):
        rows.append(["mean reward, last third minus first", with_interval(drift)])
    said.append(f"Intervals: {summary.level:.0%}, for prompts drawn at random like these.")
    return Part("Values of prompts", said, rows)


def _count(groups: float) -> str:
    """Write a number of groups, on average: no power of ten, at most one decimal."""
    return f"{groups:,.0f}" if groups >= 9.95 or groups % 1 == 0 else f"{groups:.1f}"


def _forecast(summary: Summary) -> Part:
    size, prompts = summary.groups.size_in_use, summary.numbers["groups_per_step"]
    budget = (prompts or 128) * size
    rows = []
    for other, silent in summary.numbers["forecast"].items():
        name = f"G = {other}{' (in use)' * (other == size)}"
        groups = budget / other
        counts = f"{_count(groups * (1 - silent.value))} of {_count(groups)}"
        rows.append([name, percent(silent), counts])
    heads = ["", "zero-variance groups", "groups with a gradient"]
    step = "as a step has" if prompts else "for example"
    said = [
        f"Up to {summary.groups.commonest_size}, the rewards of a group, which do not tell "
        "of larger ones.",
        f"With {budget:,} completions, {step}, in groups of G:",
    ]
    return Part("At other group sizes", said, rows, heads)


def _parts(parts: RewardParts) -> Part:
    why = "" if parts.told else ", which has the fewest values"
    said = [
        f"The outcome is {one_line(parts.outcome)}{why}; --outcome names another.",
        "Of the squared advantages: of groups in which a part varies and the outcome does "
        "not (of the outcome: in which it varies), divided by the group's standard "
        "deviation and not.",
    ]
    if parts.without:
        said.append(f"Groups left out for want of the outcome: {parts.without}.")
    rows = [
        [
            shorten(one_line(part.name), 30),
            number(part.mean, 2),
            *map(share, (part.varies, part.share_std, part.share_plain)),
        ]
        for part in parts.parts
    ]
    heads = ["", "mean", "varies in", "of A^2, divided", "not divided"]
    return Part("Parts of the reward", said, rows, heads)


def _completions(summary: Summary) -> Part:
    rows, groups, numbers = [], summary.groups, summary.numbers
    if groups.lengths is not None:
        unit, lengths_N = groups.lengths
        rows.append([f"mean length, {unit}", number(numbers["mean_length"])])
        names = ("right", "wrong") if groups.binary else ("largest", "least")
        for name, column in zip(names, ("right", "wrong"), strict=True):
            mean = summary.mean_where(groups.completions[column].to_numpy(), lengths_N)
            if np.isfinite(mean.value):
                what = f"{name} completions" if groups.binary else f"the {name} reward"
                rows.append([f"  of {what}", with_interval(mean)])
    if (cut_N := groups.cut_N) is not None:
        rows.append(["cut at the limit", percent(numbers["truncated_interval"])])
        for name, flags_N in (("cut", cut_N), ("ended", ~cut_N)):
            mean = summary.mean_where(flags_N)
            if np.isfinite(mean.value):
                rows.append([f"  mean reward where {name}", with_interval(mean)])
    if "duplicates" in numbers:
        copies = percent(numbers["duplicates"])
        rows.append(["copies of an earlier one of the group", copies])
    unsaid = "These logs do not say which completions the length limit cut (truncated)."
    return Part("Completions", [unsaid] if cut_N is None else [], rows)


def _beyond(summary: Summary) -> Part:
    drawn = FIRST_PROMPTS * FIRST_COMPLETIONS
    said = [
        CANNOT_TELL,
        f"{COMMAND_PREFIX} advise PROBE measures it: its first look draws {FIRST_PROMPTS} "
        f"prompts x {FIRST_COMPLETIONS} = {drawn} completions, where these logs hold "
        f"{len(summary.groups.completions):,}. {COMMAND_PREFIX} init MODEL PROMPTS writes "
        "the probe.",
    ]
    return Part("What these logs cannot tell", said)


def rollouts_parts(summary: Summary) -> Iterator[Part]:
    """Give the parts of the report, the answer first."""
    log, numbers = summary.groups.log, summary.numbers
    yield Part(f"{one_line(log.name)} ({log.form.name})", [*_answer(summary)])
    yield _values(summary)
    if summary.parts is not None:
        yield _parts(summary.parts)
    if numbers["forecast"]:
        yield _forecast(summary)
    yield _completions(summary)
    if "mismatch" in numbers:
        said = [say_mismatch(numbers["mismatch"])]
        yield Part("The model's probabilities and the engine's", said)
    if summary.notes:
        yield Part("Notes", summary.notes)
    yield _beyond(summary)
    yield Part("Verdicts", verdict_lines(summary))


def rollouts_text(summary: Summary) -> str:
    """Say the summary on a screen."""
    return as_text([*rollouts_parts(summary)])


def rollouts_markdown(summary: Summary) -> str:
    """Write the summary as Markdown."""
    return as_markdown([*rollouts_parts(summary)])
