"""The verdict in words: keep, change or cannot tell, and what else could be set."""

import math
from collections.abc import Iterator

from mse_lab.answers.advice import Advice
from mse_lab.answers.alternatives import Price
from mse_lab.answers.trainer_settings import (
    DISPLAY_NAMES,
    base_name,
    settings_for,
)
from mse_lab.formatting import duration, percent, table, times, wrap
from mse_lab.mse.regret import LARGE, TOLERANCE, percent_up
from mse_lab.probe.training import TRAINERS

# A row of the price list that costs so much as the cheapest before it says nothing new.
NO_CHEAPER = 0.99


def display_name(name: str) -> str:
    """Give the name by which readers know an estimator."""
    return DISPLAY_NAMES.get(base_name(name), name)


def size_name(advice: Advice) -> str:
    """Name the trainer's setting of the group size, as it is spoken of."""
    return TRAINERS[advice.setting.trainer].size.removeprefix("actor_rollout_ref.")


def _whose(advice: Advice) -> str:
    """Say of which loss the costs are."""
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
    """Bound what a change could save, and say what would tell."""
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
