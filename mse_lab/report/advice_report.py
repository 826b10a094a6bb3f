"""The advice in words and tables: a headline, sentences and data frames, and the screen.

The order is a reader's: what to do; what a step makes of the progress possible, and what a
change saves; what other settings cost; what the answer rests on.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from mse_lab.answers.advice import Advice
from mse_lab.config.trainers import TRAINERS
from mse_lab.formatting import NONE, NOT_KNOWN, number, share, with_interval
from mse_lab.mse.bounds import fewest_seen, rarest_seen
from mse_lab.mse.rule import Stopped
from mse_lab.report.ladder_report import (
    ladder_part,
    lines_to_type,
    say_baseline,
    say_what_changes_it,
    steps_table,
    unit_of,
)
from mse_lab.report.rendering import Part, as_text

# A bound of the regret from which on it says nothing.
LARGE = 1.0

# Completions a step at which a headline says what a change saves where N is unknown.
LARGE_STEP = 1024

# Why no more completions were drawn.
STOPPED: Mapping[Stopped, str] = {
    "regret": ": enough for a verdict",
    "budget": ", and the budget is spent; a larger one narrows the answer",
    "exhausted": ", and there are no more; further prompts narrow the answer",
}

OF_GRADED = (
    "Your loss: of graded rewards a run keeps too few products, an advice alone keeps them."
)
GRADIENT_UNKNOWN = (
    "||g||^2 over random prompts is not significantly positive: steps saved lie between "
    "none and those of the completions, and biased losses cannot be priced."
)


def percent_up(bound: float) -> str:
    """Write an upper bound of a share, rounded up to whole percents, at least one.

    >>> percent_up(0.0312), percent_up(0.07), percent_up(0.0)
    ('4%', '7%', '1%')
    """
    return f"{max(math.ceil(round(100 * bound, 6)), 1)}%"


def size_name(advice: Advice) -> str:
    """Name the trainer's setting of the group size, as it is spoken of."""
    return TRAINERS[advice.setting.trainer].size.removeprefix("actor_rollout_ref.")


def _of_whom(advice: Advice) -> str:
    if advice.of_loss:
        return ""
    return " Said of GRPO-type: your loss's error is not known."


def _keep(advice: Advice) -> str:
    unit, most = unit_of(advice), "nothing needs far fewer"
    if math.isfinite(advice.at_most):
        most = f"it needs at most {percent_up(advice.at_most)} more"
        unit += " than the best"
    text = f"Keep {size_name(advice)} = {advice.set_to}"
    if advice.unless_one_in:
        text += f", unless one prompt in {advice.unless_one_in} is unlike these"
    return f"{text}: {most} {unit}.{_of_whom(advice)}"


def _change(advice: Advice) -> str:
    saved, unit = advice.steps_saved or advice.saves, unit_of(advice)
    text = f"Set {size_name(advice)} = {advice.set_to}"
    if fit := advice.baseline:
        text += f" and the baseline {say_baseline(fit.alpha, fit.lam)}"
    if saved is None:
        return f"{text}: it needs fewer {unit}.{_of_whom(advice)}"
    if math.isnan(saved.value):
        text += f": it needs fewer {unit}, how many is {NOT_KNOWN}"
    else:
        text += f": it saves {share(saved.value)} of the {unit}"
    if advice.completions_per_step is None:
        made = {one.completions_per_step: one.steps for one in advice.set_row.progress}
        large = 1 - made[LARGE_STEP].value
        if not math.isnan(large):
            text += f", {share(large)} of the steps at {LARGE_STEP:,} completions each"
    return f"{text}.{_of_whom(advice)}"


def _cannot_tell(advice: Advice) -> str:
    present = f"{size_name(advice)} = {advice.setting.group_size}"
    text = f"Cannot tell whether {present} is all right: "
    if elsewhere := advice.setting.elsewhere:
        return (
            f"{text}{elsewhere} climbs another objective than the mean reward, whose best "
            "group size is not known here."
        )
    if advice.asks_batch:
        text += "what is best for small steps is not for large ones"
        return f"{text}; give --completions-per-step.{_of_whom(advice)}"
    if advice.at_most > LARGE:
        text += f"nothing bounds what a change could save of the {unit_of(advice)}."
    else:
        most = percent_up(1 - 1 / (1 + advice.at_most))
        text += f"a change could save at most {most} of the {unit_of(advice)}."
    if advice.at_least > advice.regret:
        text += f" Some change saves at least {share(1 - 1 / (1 + advice.at_least))}."
    if advice.needed:
        prompts = float(f"{advice.needed:.2g}")
        text += f" To tell takes more than {prompts:,.0f} prompts."
    elif advice.completions is not None and advice.prompts != advice.population:
        text += " The prompts at hand would hardly tell."
    return text + _of_whom(advice)


def advice_headline(advice: Advice) -> str:
    """Say in a sentence or two what to do, and with which confidence."""
    if not advice.held:
        return "No advice: a built-in check of this run FAILED; checks.json says which."
    forms = {"keep": _keep, "change": _change, "cannot tell": _cannot_tell}
    return forms[advice.verdict](advice)


def _answer(advice: Advice) -> Iterator[str]:
    """Say what to do, what else is typed with it, and what the verdict is about."""
    yield advice_headline(advice)
    batch = advice.batches.get(advice.set_to)
    if batch and not advice.baseline:  # With a baseline the ladder says it.
        yield f"A step keeps its {advice.completions_per_step:,} completions with {batch}."
    setting = advice.setting
    trainer = TRAINERS[setting.trainer]
    given = "'s defaults (others: --config, --training)"
    if setting.given:
        given = f" {trainer.version}" if trainer.version else ""
    named = setting.named.replace("actor_rollout_ref.", "")
    yield f"Judged: {trainer.title}{given}: {named}."


def _drawn(advice: Advice) -> Iterator[str]:
    """Say what no number here allows for, and on how few completions the advice rests."""
    if uncounted := advice.setting.uncounted:
        yield f"Not counted in: {', '.join(uncounted)}."
    if advice.stopped is not None:
        yield (
            f"{advice.completions:,} completions of {advice.prompts} prompts were drawn, "
            f"{advice.differentiated:,} differentiated{STOPPED[advice.stopped]}."
        )


def say_level(advice: Advice) -> str:
    """Say of which prompts the verdict is true.

    So it is in each population of `tests/benchmarks/levels.py` whose kinds are seen.
    """
    prompts, size, level = advice.prompts, advice.population, f"{advice.level:.0%}"
    if size is not None:
        measured, fewest = "all" if prompts == size else prompts, fewest_seen(prompts, size)
        unless = (
            f", if no kind of fewer than {fewest} prompts made most of the difference "
            "between prompts' gradients: none of it may have been measured"
        )
        return (
            f"All this is said of these {size} prompts alone (prompts.population = these), "
            f"{measured} measured{unless if fewest > 1 else ''}."
        )
    if advice.stopped is None:
        return (
            f"It is about all prompts like these, at {level} confidence, where no kind of "
            f"them rarer than 1 in {rarest_seen(prompts, looked=False)} decides."
        )
    return (
        f"Holds at {level} confidence if no kind of prompts rarer than 1 in "
        f"{rarest_seen(prompts)} makes most of the difference between prompts' gradients: "
        f"of {prompts} prompts drawn at random none may be of it."
    )


def say_noise(advice: Advice) -> str:
    """Say at which batch half of the progress is made, and how the step size follows."""
    size = advice.setting.group_size
    scale = with_interval(advice.noise_scale)
    adam, sgd = (number(advice.learning_rate_factor.value**power, 2) for power in (1, 2))
    at = advice.completions_per_step
    batch = f"your {at:,} completions" if at else "a small batch"
    return (
        f"Half of the progress possible takes {scale} completions a step "
        f"(G = {size}). If you halve {batch}, multiply Adam's learning rate by {adam}, "
        f"SGD's by {sgd}."
    )


# A lower bound of G* below which it says nothing.
LEAST_SIZE = 1.05


def best_size(advice: Advice) -> str:
    """Write G*."""
    best = advice.best
    text = f"at least {best.low:.1f}" if advice.unbounded else with_interval(best)
    # No size of a group is below one.
    return NOT_KNOWN if text.startswith("at least") and best.low < LEAST_SIZE else text


# What a side of the line means for a baseline near the value V.
_SIDES = {
    "above": "above {line}: a baseline near V reduces the error",
    "below": "below {line}: a baseline near V increases the error",
    "undecided": (
        "not significantly different from {line}, where a baseline near V changes nothing"
    ),
}


def say_regime(advice: Advice) -> str:
    """Say on which side of vanilla the run is, and why."""
    regime = advice.regime
    name, estimate = "The best constant baseline", regime.best_baseline
    line = f"V/2 = {number(regime.value / 2)}"
    if regime.binary:
        name = "rho, the squared score norm of right over wrong completions,"
        estimate, line = regime.rho, f"(1-V)/(2-V) = {number(regime.line)}"
    if math.isnan(estimate.value):
        return ""
    side = _SIDES[regime.side].format(line=line)
    return f"{name} is {with_interval(estimate)}, {side}."


def _about(advice: Advice) -> Iterator[str]:
    """Say what the answer rests on, and of which prompts it is true."""
    if any((row.typed or "").startswith("with_baseline") for row in advice.ladder):
        yield "with_baseline is imported from mse_lab.trl."
    yield from _drawn(advice)
    named = advice.setting.estimator != "unknown"
    if named and not (advice.of_loss or advice.stopped or advice.regime.binary):
        yield OF_GRADED
    yield say_noise(advice)
    yield say_regime(advice)
    size = best_size(advice)
    more = f" (more than these {advice.prompts} prompts would bound it)"
    begin = "G* is" if size == NOT_KNOWN else "GRPO-type errs least at G* ="
    yield f"{begin} {size}{more if advice.unbounded else ''}."
    yield say_level(advice)


def what_to_do(advice: Advice) -> list[Part]:
    """List the parts that an advice begins with: the verdict, the ladder, what to type."""
    return [
        Part(sentences=[*_answer(advice)]),
        ladder_part(advice),
        Part(sentences=[*lines_to_type(advice)]),
    ]


def advice_parts(advice: Advice) -> list[Part]:
    """List the parts of an advice; where a built-in check failed only that."""
    texts = [*[GRADIENT_UNKNOWN] * (advice.gradient2.low <= 0), *advice.warnings]
    warnings = Part(sentences=[f"warning: {text}" for text in texts])
    if not advice.held:
        return [Part(sentences=[advice_headline(advice)]), warnings]
    if advice.setting.elsewhere:  # Prices are those of the mean reward.
        return [Part(sentences=[*_answer(advice), *_drawn(advice)]), warnings]
    changed = say_what_changes_it(advice)
    return [
        *what_to_do(advice),
        Part(sentences=["", *filter(None, [changed])]),
        steps_table(advice),
        Part(sentences=[*filter(None, _about(advice))]),
        warnings,
    ]


def advice_text(advice: Advice) -> str:
    """Say the advice on one screen."""
    return f"{as_text(advice_parts(advice))}\n"


def json_values(advice: Advice) -> dict[str, Any]:
    """Give what programs read: the headline, then the content of `advice.json`."""
    return {"headline": advice_headline(advice), **advice.as_dict()}


def say_advice(advice: Advice, *, as_json: bool) -> str:
    """Write what a command prints: JSON, or the screen."""
    if as_json:
        return json.dumps(json_values(advice), indent=2)
    return advice_text(advice).rstrip()


# An advice, or why there is none, by the step or the folder that it is of.
Advices = Mapping[str, Advice | str]


def _verdict(advice: Advice) -> str:
    if not advice.held:
        return "a built-in check FAILED"
    if advice.baseline:
        return f"set {advice.set_to}, baseline"
    sizes = {"keep": f" {advice.set_to}", "change": f" to {advice.set_to}"}
    return advice.verdict + sizes.get(advice.verdict, "")


def _row(label: str, advice: Advice | str, completions: int | None) -> list[str]:
    if isinstance(advice, str):
        return [label, NONE, NONE, *[NONE] * (completions is not None), "no advice"]
    made = []
    if completions is not None:
        made = [share(advice.progress_at(completions).value)]
    reward, best = number(advice.mean_reward), best_size(advice)
    return [label, reward, best, *made, _verdict(advice)]


def advice_lines(what: str, advices: Advices) -> str:
    """Lay out a line for each advice, headed by `what`; then why others are none."""
    steps = {
        one.completions_per_step for one in advices.values() if not isinstance(one, str)
    }
    completions = steps.pop() if len(steps) == 1 else None
    made = [] if completions is None else [f"progress at N = {completions:,}"]
    heads = [what, "reward", "G*", *made, "verdict"]
    rows = [_row(*item, completions) for item in advices.items()]
    align = (">" if what == "step" else "<") + ">" * (len(heads) - 2) + "<"
    refused = [f"{at}: {one}" for at, one in advices.items() if isinstance(one, str)]
    return as_text([Part(rows=rows, heads=heads, align=align), Part("", refused)])


def advice_list(what: str, advices: Advices) -> str:
    """Write all advices as one JSON document, a list."""

    def values(advice: Advice | str) -> dict[str, Any]:
        return {"refused": advice} if isinstance(advice, str) else json_values(advice)

    return json.dumps([{what: at} | values(one) for at, one in advices.items()], indent=2)
