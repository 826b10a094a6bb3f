"""The verdict in words: its three forms, what it is about, and the price list."""

import math
from dataclasses import replace

import pytest

from mse_lab.answers.alternatives import Price
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.verdict import Needed
from mse_lab.report.advice_report import advice_text
from mse_lab.report.verdict_report import (
    lines_to_type,
    price_table,
    say_setting,
    verdict_sentence,
)


def plain(text):
    """Undo the breaks between lines."""
    return " ".join(text.split())


KEEP = {"verdict": "keep", "set_to": 8, "saves": Estimate(0, 0, 0), "at_most": 0.0312,
        "own_loss": True}  # fmt: skip
CHANGE = {"verdict": "change", "set_to": 4, "saves": Estimate(0.463, 0.412, 0.508),
          "own_loss": True}  # fmt: skip
OPEN = {"verdict": "cannot tell", "set_to": 8, "saves": None, "at_most": 0.25,
        "at_least": 0.0, "own_loss": True, "needed": None}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            KEEP,
            "Keep num_generations = 8: with your loss it needs at most 4% more completions "
            "than the best size.",
        ),
        (
            KEEP | {"own_loss": False},
            "Keep num_generations = 8: by GRPO-type's error (your loss is not known at "
            "these sizes) it needs at most 4% more completions than the best size.",
        ),
        (
            CHANGE,
            "Set num_generations = 4: it saves 46% (41 to 51) of the completions for the "
            "same gradient error; your loss stays.",
        ),
        (
            CHANGE | {"own_loss": False},
            "Set num_generations = 4: it saves 46% (41 to 51) of the completions for the "
            "same gradient error, by GRPO-type's error (your loss is not known at these "
            "sizes).",
        ),
        (
            CHANGE | {"at_most": 1.0, "saves": Estimate(0.27, 0.23, 0.31)},  # 1 - 1 / 2
            "the same gradient error; your loss stays. The best size saves at most 50%.",
        ),
        (
            OPEN,  # 1 - 1 / 1.25
            "Cannot tell whether num_generations = 8 is all right: with your loss a change "
            "could save at most 20% of the completions. More prompts like these would "
            "hardly tell.",
        ),
        (
            OPEN | {"needed": Needed(200, 3200, 90.0), "completions": 960},
            "of the completions. To tell takes more than 200 prompts (3,200 completions, 1 "
            "min 30 s), if they go on like these.",
        ),
        (
            OPEN | {"needed": Needed(200, 3200, 0.0)},
            "To tell takes more than 200 prompts, if they go on like these.",
        ),
        (
            OPEN | {"at_most": math.inf},
            "with your loss nothing bounds what a change could save. More",
        ),
        (
            OPEN | {"at_least": 0.25},  # Which size is best is not known.
            "at most 20% of the completions, and some change at least 20%. More",
        ),
    ],
)
def test_the_three_forms(known, changes, words):
    found = replace(known[2], **changes)
    assert words in verdict_sentence(found)
    assert plain(advice_text(found)).startswith(plain(verdict_sentence(found)))


@pytest.mark.parametrize(
    ("trainer", "name"),
    [("verl", "rollout.n"), ("openrlhf", "rollout.n_samples_per_prompt")],
)
def test_the_size_goes_by_the_trainers_name(known, trainer, name):
    setting = known[2].setting._replace(trainer=trainer, given=True)
    found = replace(known[2], setting=setting, **KEEP)
    assert verdict_sentence(found).startswith(f"Keep {name} = 8: ")


def test_what_is_judged(known):
    said = say_setting(known[2])
    assert said == (
        "Judged: TRL's defaults (others: --trainer, --G, --config): num_generations = 8, "
        "scale_rewards = group, loss_type = dapo."
    )
    setting = known[2].setting._replace(
        trainer="verl", given=True, named="actor_rollout_ref.rollout.n = 4",
        uncounted=("actor_rollout_ref.actor.use_kl_loss = True",),
    )  # fmt: skip
    assert say_setting(replace(known[2], setting=setting)) == (
        "Judged: verl: rollout.n = 4. Not allowed for: "
        "actor_rollout_ref.actor.use_kl_loss = True."
    )


STD = "grpo-std(eps=0.0001, length=token-batch)"
PRICES = (
    Price("yours", STD, 8, Estimate(1, 1, 1)),
    Price("same loss", STD, 4, Estimate(0.92, 0.9, 0.94)),
    Price("same trainer", "grpo", 4, Estimate(0.85, 0.8, 0.9)),
    Price("any", "vanilla", 1, Estimate(0.34, 0.29, 0.39)),
)


def test_the_price_list_and_what_to_type(known):
    found = replace(known[2], prices=PRICES)
    assert "\n".join(price_table(found)) == (
        "Completions for the same error               over yours (95% interval)\n"
        "  yours: GRPO with std, G = 8                1\n"
        "  the same loss, G = 4                       0.920 times (0.900 to 0.940)\n"
        "  best of TRL: GRPO-type (RLOO), G = 4       0.850 times (0.800 to 0.900)\n"
        "  best of all: vanilla (no baseline), G = 1  0.34 times (0.29 to 0.39)"
    )
    grpo, vanilla = lines_to_type(found, 200)
    assert grpo.startswith("  GRPO-type (RLOO): GRPOConfig(num_generations=4, ")
    assert vanilla.startswith(
        "  vanilla (no baseline): verl: actor_rollout_ref.rollout.n=1"
    )


def test_what_is_no_cheaper_is_left_out(known):
    no_cheaper = PRICES[2]._replace(cost=Estimate(0.915, 0.9, 0.93))
    found = replace(known[2], prices=(*PRICES[:2], no_cheaper))
    assert len(price_table(found)) == 3
    assert not [*lines_to_type(found, 80)]


def test_prices_in_time(known):
    timed = tuple(one._replace(time=one.cost) for one in PRICES)
    head, yours, four, *_ = price_table(replace(known[2], prices=timed))
    assert head.endswith("in time")
    assert yours.split()[-2:] == ["1", "1"]
    assert four.count("0.920 times (0.900 to 0.940)") == 2
