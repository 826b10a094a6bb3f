"""The verdict in words: its three forms, what it rests on, and the price list."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from mse_lab.answers.alternatives import Price
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.stopping import Stopped
from mse_lab.mse.verdict import Needed
from mse_lab.project import PROJECT
from mse_lab.report.advice_report import advice_text
from mse_lab.report.verdict_report import (
    NOT_ESTIMATED,
    OF_RUNS,
    OF_SAMPLES,
    STOPPED,
    lines_to_type,
    price_table,
    say_level,
    say_setting,
    say_stopped,
    verdict_sentence,
)
from populations import known_run


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


def few(**changes):
    _, _, advice = known_run()
    counts = {"completions": 1960, "differentiated": 960, "prompts": 60}
    return replace(advice, **counts, **changes)


def test_of_a_finished_run_nothing_is_said():
    assert say_stopped(known_run()[2]) == ""


@pytest.mark.parametrize("stopped", Stopped.__args__)
def test_why_it_ended_and_what_is_not_told(stopped):
    said = say_stopped(few(stopped=stopped))
    drawn = "1,960 completions of 60 prompts were drawn, 960 of them differentiated"
    assert said == f"{drawn}{STOPPED[stopped]}. {NOT_ESTIMATED}"


def test_of_a_set_of_prompts_it_speaks_of_these_alone():
    """Where all are measured no kind of prompts may be missed."""
    for stopped in ("regret", None):
        advice = few(stopped=stopped, population=60)
        assert say_level(advice).endswith("(prompts.population = these), all measured.")
        said = say_level(replace(advice, population=90))
        assert "these 90 prompts alone" in said
        assert "60 measured, if no kind of fewer than 3 prompts" in said
    assert say_level(few(stopped="regret", population=60, level=0.9)) == ""


def test_which_kinds_of_prompts_it_speaks_of():
    """A finished run needs twice as many of a kind; at another level nothing is known."""
    sampled, finished = few(stopped="width"), replace(known_run()[2], prompts=60)
    assert say_level(sampled) == OF_SAMPLES.format(rarest=20, prompts=60)
    assert say_level(finished) == OF_RUNS.format(rarest=10)
    assert say_level(replace(finished, level=0.9)) == ""
    for advice in (sampled, finished):
        assert say_level(advice) in advice_text(advice, 999)


def test_the_sentence_says_no_more_than_the_tables():
    """Of the kinds of prompts that a run knows; of cells that 80 runs or more have."""
    at_most, mean, worst = (int(percent) / 100 for percent in
                            re.findall(r"(\d+)%", OF_SAMPLES))  # fmt: skip
    table, coverage = (
        pd.read_csv(PROJECT / "results/stopping" / name)
        for name in ("table.csv", "coverage.csv")
    )
    seen = table.runs * table.kind_seen * table.bound_said_seen / 1e4
    assert (table.bound_false_seen[seen >= 80] <= 100 * (1 - at_most)).all()
    told = coverage[coverage.number != "best_constant"]
    told = told[~told.design.str.match("1 in |one of ")]
    kinds = told.groupby("kind")[["ended", "ended_held"]].sum()
    assert (kinds.ended_held / kinds.ended).min() >= mean
    cells = told[told.ended >= 80]
    assert worst <= (cells.ended_held / cells.ended).min() < worst + 0.01
