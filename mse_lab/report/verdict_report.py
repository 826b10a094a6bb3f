"""The verdict in words: keep, change or cannot tell; what it rests on; what else to set."""

import math
from collections.abc import Iterator, Mapping

from mse_lab.answers.advice import Advice
from mse_lab.answers.alternatives import Price
from mse_lab.answers.trainer_settings import (
    DISPLAY_NAMES,
    base_name,
    settings_for,
)
from mse_lab.formatting import duration, percent, table, times, wrap
from mse_lab.mse.regret import LARGE, TOLERANCE, percent_up
from mse_lab.mse.stopping import Stopped, fewest_seen, rarest_seen
from mse_lab.probe.trainers import TRAINERS

# Why no more completions were drawn.
STOPPED: Mapping[Stopped, str] = {
    "regret": ": enough for a verdict",
    "width": ": G* is known, and there are no more prompts, which could tell",
    "budget": ", and the budget is spent; a larger one narrows the answer",
    "exhausted": ", and there are no more prompts; further ones narrow the answer",
}

NOT_ESTIMATED = (
    "Errors here follow from exact laws; mse-lab run also measures them, and estimators "
    "that use norms or lengths."
)

# In each population of `results/stopping/table.csv` whose kinds are seen.
LEVEL = 0.95
OF_SAMPLES = (
    'In simulations such an "at most" was true in 98% of runs or more, and an interval '
    "in 92% or more on average, in 69% at worst, if no kind of prompts rarer than 1 in "
    "{rarest} made most of the difference between prompts' gradients: of {prompts} "
    "prompts drawn at random none may be of it."
)
OF_RUNS = (
    "It is about all prompts like these, at 95% confidence, where no kind of them rarer "
    "than 1 in {rarest} decides."
)

# Of a set of prompts, by the rows of such sets there.
OF_A_SET = (
    "All this is said of these {size} prompts alone (prompts.population = these), "
    "{measured} measured"
)
OF_THE_OTHERS = (
    ", if no kind of fewer than {fewest} prompts made most of the difference between "
    "prompts' gradients: none of it may have been measured."
)


def say_stopped(advice: Advice) -> str:
    """Say how few completions the advice rests on, and why there are no more."""
    if advice.stopped is None:
        return ""
    drawn = f"{advice.completions:,} completions of {advice.prompts} prompts were drawn"
    why = STOPPED[advice.stopped]
    return (
        f"{drawn}, {advice.differentiated:,} of them differentiated{why}. {NOT_ESTIMATED}"
    )


def _say_of_a_set(measured: int, size: int) -> str:
    words = OF_A_SET.format(size=size, measured="all" if measured == size else measured)
    fewest = fewest_seen(measured, size)
    return words + (OF_THE_OTHERS.format(fewest=fewest) if fewest > 1 else ".")


def say_level(advice: Advice) -> str:
    """Say of which prompts "at most" is true, and of few completions how often."""
    if advice.level < LEVEL:
        return ""
    sampled = advice.stopped is not None
    if advice.population is not None:
        return _say_of_a_set(advice.prompts, advice.population)
    rarest = rarest_seen(advice.prompts, looked=sampled)
    return (OF_SAMPLES if sampled else OF_RUNS).format(
        rarest=rarest, prompts=advice.prompts
    )


# A row of the price list that costs so much as the cheapest before it says nothing new.
NO_CHEAPER = 0.99


def display_name(name: str) -> str:
    """Give the name by which readers know an estimator."""
    return DISPLAY_NAMES.get(base_name(name), name)


def size_name(advice: Advice) -> str:
    """Name the trainer's setting of the group size, as it is spoken of."""
    return TRAINERS[advice.setting.trainer].size.removeprefix("actor_rollout_ref.")


def _whose(advice: Advice) -> str:
    if advice.own_loss:
        return "with your loss"
    return "by GRPO-type's error (your loss is not known at these sizes)"


def _keep(advice: Advice) -> str:
    return (
        f"Keep {size_name(advice)} = {advice.set_to}: {_whose(advice)} it needs at most "
        f"{percent_up(advice.at_most):.0%} more completions than the best size."
    )


def _change(advice: Advice) -> str:
    assert advice.saves is not None
    loss = "; your loss stays" if advice.own_loss else f", {_whose(advice)}"
    most = 1 - 1 / (1 + advice.at_most)
    if advice.at_most <= LARGE and most > advice.saves.high + TOLERANCE / 2:
        loss += f". The best size saves at most {percent_up(most):.0%}"
    return (
        f"Set {size_name(advice)} = {advice.set_to}: it saves {percent(advice.saves)} of "
        f"the completions for the same gradient error{loss}."
    )


def _cannot_tell(advice: Advice) -> str:
    present = f"{size_name(advice)} = {advice.setting.group_size}"
    most = "nothing bounds what a change could save"
    if advice.at_most <= LARGE:
        share = percent_up(1 - 1 / (1 + advice.at_most))
        most = f"a change could save at most {share:.0%} of the completions"
    text = f"Cannot tell whether {present} is all right: {_whose(advice)} {most}"
    if advice.at_least > TOLERANCE:
        text += f", and some change at least {1 - 1 / (1 + advice.at_least):.0%}"
    if advice.needed is None:
        return f"{text}. More prompts like these would hardly tell."
    prompts, completions, seconds = advice.needed
    much = f" ({completions:,} completions" if advice.completions else ""
    time = f", {duration(seconds)}" if seconds else ""
    much = f"{much}{time})" if much else ""
    more = f"more than {prompts:,} prompts{much}"
    return f"{text}. To tell takes {more}, if they go on like these."


def verdict_sentence(advice: Advice) -> str:
    """Say the verdict in a sentence or two."""
    forms = {"keep": _keep, "change": _change, "cannot tell": _cannot_tell}
    return forms[advice.verdict](advice)


def say_setting(advice: Advice) -> str:
    """Say what the verdict is about, and what it leaves out."""
    setting = advice.setting
    title = TRAINERS[setting.trainer].title
    given = "" if setting.given else "'s defaults (others: --trainer, --G, --config)"
    named = setting.named.replace("actor_rollout_ref.", "")
    text = f"Judged: {title}{given}: {named}."
    if setting.completions_per_step:
        text += f" A step has {setting.completions_per_step:,} completions."
    if setting.uncounted:
        text += f" Not allowed for: {', '.join(setting.uncounted)}."
    return text


def _label(advice: Advice, price: Price) -> str:
    title = TRAINERS[advice.setting.trainer].title
    name = f"{display_name(price.estimator)}, G = {price.group_size}"
    return {
        "yours": f"yours: {name}",
        "same loss": f"the same loss, G = {price.group_size}",
        "same trainer": f"best of {title}: {name}",
        "any": f"best of all: {name}",
    }[price.whose]


def shown_prices(advice: Advice) -> Iterator[Price]:
    """Give the rows that say something new: a better one of the trainer, or of all."""
    least = math.inf
    for price in advice.prices:
        if math.isnan(price.cost.value):
            continue
        if price.whose in ("same trainer", "any") and not (
            price.cost.value < NO_CHEAPER * least
        ):
            continue
        least = min(least, price.cost.value)
        yield price


def price_table(advice: Advice) -> list[str]:
    """Price what could be set over what is set, which is 1."""
    rows, in_time = [], any(price.time for price in advice.prices)
    heads = ["Completions for the same error", f"over yours ({advice.level:.0%} interval)"]
    for price in shown_prices(advice):
        yours = price.whose == "yours"
        cells = [f"  {_label(advice, price)}", "1" if yours else times(price.cost)]
        if in_time and price.time:
            cells.append("1" if yours else times(price.time))
        rows.append(cells)
    heads += ["in time"] if in_time else []
    return table(rows, heads, "<" * len(heads)).splitlines()


def lines_to_type(advice: Advice, width: int) -> Iterator[str]:
    """Give the settings of each row that is not the user's own loss."""
    for price in shown_prices(advice):
        if price.whose in ("same trainer", "any"):
            line = settings_for(advice.setting.trainer, price.estimator, price.group_size)
            yield wrap(f"  {display_name(price.estimator)}: {line}", width, 4)
