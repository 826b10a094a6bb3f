"""The advice in words: every verdict, with every unknown, on one screen of 80 columns."""

import json
import math
import re
from dataclasses import replace

import pytest

from mse_lab.answers.advice import SetBaseline, advise_run
from mse_lab.config.training import read_training
from mse_lab.errors import InputError, NoAnswer
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.regime import Regime
from mse_lab.report.advice_report import (
    advice_headline,
    advice_lines,
    advice_list,
    advice_text,
    say_advice,
)
from mse_lab.results.folder import ResultsFolder
from simulated import make_pools
from written_runs import write_run

SAVES, STEPS = Estimate(0.28, 0.25, 0.31), Estimate(0.023, 0.016, 0.031)

AT_2048 = read_training({"completions_per_step": 2048})


def plain(text):
    """Undo the breaks between lines."""
    return " ".join(text.split())


@pytest.fixture
def advice(known):
    rows = [
        row._replace(
            progress=tuple(one._replace(steps=Estimate(s, s, s)) for one in row[7])
        )
        for row, s in zip(known[2].ladder, (1.0, 0.95, 0.91, 0.9), strict=True)
    ]
    return replace(
        known[2],
        ladder=tuple(rows),
        baseline=None,
        unless_one_in=None,
        asks_batch=False,
        verdict="change",
        set_to=4,
        saves=SAVES,
        steps_saved=None,
        completions_per_step=None,
        at_most=0.5,
        at_least=0.2,
        of_loss=True,
    )


KEEP = {"verdict": "keep", "set_to": 8, "at_most": 0.041}
OPEN = {"verdict": "cannot tell", "set_to": 8, "at_most": 0.25, "at_least": 0.0}
CANNOT_TELL = "Cannot tell whether num_generations = 8 is all right: "
AT_MOST = (
    f"{CANNOT_TELL}a change could save at most 20% of the completions for the same error."
)
AT_1024 = {"completions_per_step": 1024, "steps_saved": STEPS}
HEADLINES = [
    ({}, "Set num_generations = 4: it saves 28% of the completions for the same error, 5% "
         "of the steps at 1,024 completions each."),
    (AT_1024, "Set num_generations = 4: it saves 2.3% of the steps at your 1,024 "
              "completions each."),
    (AT_1024 | {"steps_saved": STEPS._replace(value=math.nan)},
     "Set num_generations = 4: it needs fewer steps at your 1,024 completions each, how "
     "many is not known."),
    ({"saves": None, "at_most": math.inf},
     "Set num_generations = 4: it needs fewer completions for the same error."),
    (KEEP | {"unless_one_in": 16},
     "Keep num_generations = 8, unless one prompt in 16 is unlike these: it needs at most "
     "5% more completions for the same error than the best."),
    (KEEP | {"of_loss": False},
     "Keep num_generations = 8: it needs at most 5% more completions for the same error "
     "than the best. Said of GRPO-type: your loss's error is not known."),
    (KEEP | {"at_most": math.inf},
     "Keep num_generations = 8: nothing needs far fewer completions for the same error."),
    (OPEN, AT_MOST),
    (OPEN | {"completions": 960, "prompts": 60, "population": 60}, AT_MOST),
    (OPEN | {"needed": 1843}, f"{AT_MOST} To tell takes more than 1,800 prompts."),
    (OPEN | {"at_most": math.inf, "at_least": 0.2, "completions": 768},
     f"{CANNOT_TELL}nothing bounds what a change could save of the completions for the "
     "same error. Some change saves at least 17%. The prompts at hand would hardly tell."),
    (OPEN | {"asks_batch": True},
     f"{CANNOT_TELL}what is best for small steps is not for large ones; give "
     "--completions-per-step."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), HEADLINES)
def test_the_headline(advice, changes, words):
    assert advice_headline(replace(advice, **changes)) == words


def test_the_screen(advice):
    """At most 36 lines of 80 columns, the verdict first and warnings last, and whole."""
    text = advice_text(advice)
    free = [row._replace(needs=None, typed=None) for row in advice.ladder]
    bare = advice_text(replace(advice, ladder=tuple(free)))
    assert "\n\n\n" not in bare
    assert "needs" not in bare
    assert len(text.splitlines()) <= 36
    assert plain(text).startswith(f"{advice_headline(advice)} Judged: TRL's defaults")
    given = replace(advice, setting=advice.setting._replace(given=True))
    assert " Judged: TRL 1.16: num_generations" in plain(advice_text(given))
    found = replace(advice, warnings=(f"94.7% were cut: {'raise it ' * 30}".strip(),))
    assert plain(advice_text(found)).endswith(f"warning: {found.warnings[0]}")
    assert max(map(len, advice_text(found).splitlines())) <= 80


def test_a_failed_check_leaves_no_advice(advice):
    found = replace(advice, held=False, warnings=("raise pool.replicate",))
    assert advice_text(found).splitlines() == [
        "No advice: a built-in check of this run FAILED; checks.json says which.",
        "warning: raise pool.replicate",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"best": Estimate(math.inf, 20.0, math.inf)},
         "G* = at least 20.0 (more than these 60 prompts would bound it)."),
        ({"best": Estimate(3.0, 1.0, math.inf)}, "G* is not known (more than these 60 "),
        ({"best": Estimate(3.0, 1.0, 9e6)}, "G* is not known."),
        ({"gradient2": Estimate(1.0, -1.0, 3.0)}, "is not significantly positive"),
        ({"noise_scale": Estimate(math.inf, 40.0, math.inf)},
         "takes at least 40 completions a step"),
        ({"population": 60},
         "said of these 60 prompts alone (prompts.population = these), all measured."),
        ({"population": 400}, "if no kind of fewer than"),
        ({"completions": 768, "differentiated": 700, "stopped": "budget"},
         "768 completions of 60 prompts were drawn, 700 differentiated, and the budget is "
         "spent"),
    ],
)  # fmt: skip
def test_what_else_is_said(advice, changes, words):
    text = plain(advice_text(replace(advice, **changes)))
    assert words in text
    assert not re.search(r"\b(inf|nan)\b", text)


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("above", "above (1-V)/(2-V) = 0.400: a baseline near V reduces the error."),
        ("below", "below (1-V)/(2-V) = 0.400: a baseline near V increases the error."),
        ("undecided", "0.30 (0.20 to 0.50), not significantly different from (1-V)/(2-V)"),
    ],
)
def test_the_regime(advice, side, words):
    rho, best = Estimate(0.3, 0.2, 0.5), Estimate(0.4, 0.35, 0.45)
    one = Regime(side, True, 1.0, best, rho, 0.4)
    assert words in plain(advice_text(replace(advice, regime=one)))
    graded = one._replace(binary=False, rho=UNKNOWN, line=math.nan)
    text = plain(advice_text(replace(advice, regime=graded)))
    assert "The best constant baseline is 0.40 (0.35 to 0.45), " in text
    assert "rho" not in text
    nowhere = graded._replace(best_baseline=UNKNOWN)
    assert "V/2" not in advice_text(replace(advice, regime=nowhere))


@pytest.fixture
def results(tmp_path, known):
    """A finished run of known prompts."""
    return ResultsFolder(write_run(tmp_path / "run", known[1], sizes=[64]))


def test_numbers_for_programs(results):
    said = json.loads(say_advice(advise_run(results.path, AT_2048), as_json=True))
    assert said["headline"].startswith(("Set", "Keep", "Cannot tell"))
    assert said["best"]["low"] < said["best"]["value"] < said["best"]["high"]
    assert said["completions_per_step"] == 2048
    scale, rate = (said[one]["value"] for one in ("noise_scale", "learning_rate_factor"))
    assert rate == pytest.approx(((2048 + scale) / (2048 + 2 * scale)) ** 0.5, rel=0.01)
    assert {row["completions_per_step"] for row in said["progress"]} == {
        *(64, 256, 1024, 4096, 2048)
    }
    assert said["num_generations"] == said["set_to"]
    assert not list(results.path.glob("advice.*"))


def test_an_answer_without_pools_is_the_one_that_was_kept(results):
    advice = advise_run(results.path)
    results.write("advice.json", advice.as_dict())
    results.file("pools.npz").unlink()
    assert advise_run(results.path).as_dict() == advice.as_dict()
    with pytest.raises(InputError, match="completions_per_step = unknown, "):
        advise_run(results.path, AT_2048)


def test_a_refusal_names_the_folder(tmp_path):
    folder = write_run(tmp_path / "one", make_pools(1, 32, 2, 4, seed=8), sizes=[4])
    with pytest.raises(InputError, match=r"one: 1 prompts: advice needs three or more"):
        advise_run(folder)
    assert issubclass(NoAnswer, InputError)


@pytest.mark.parametrize("completions", [None, 64])
def test_a_line_each_and_why_there_is_none(known, completions):
    advice = replace(known[2], completions_per_step=completions, verdict="change")
    advices = {
        "2": advice,
        "10": "rewards do not differ",
        "20": replace(advice, held=False),
    }
    heads, first, none, failed, why = advice_lines("step", advices).splitlines()
    assert heads.split()[:3] == ["step", "reward", "G*"]
    assert ("progress at N = 64" in heads) == (completions == 64)
    assert first.endswith(f"  set {advice.set_to}, baseline")
    assert none.split() == ["10", *["\u2013"] * (2 + (completions == 64)), "no", "advice"]
    assert failed.endswith("a built-in check FAILED")
    assert why == "10: rewards do not differ"
    said = json.loads(advice_list("step", advices))
    assert [one["step"] for one in said] == ["2", "10", "20"]
    assert said[1]["refused"] == "rewards do not differ"
    assert said[0]["c1"]["value"] == pytest.approx(advice.c1.value, rel=1e-4)


def test_a_run_says_why_it_does_not_know_the_own_loss(advice):
    """Only where a sample would: not of a loss that nobody names."""
    why = "Your loss: of graded rewards a run keeps too few products"
    unnamed = advice.setting._replace(estimator="unknown")
    for changes, said in (
        ({"stopped": None}, True),
        ({"stopped": "regret", "completions": 768, "differentiated": 700}, False),
        ({"stopped": None, "setting": unnamed}, False),
    ):
        for binary in (False, True):
            regime = advice.regime._replace(binary=binary)
            one = replace(advice, of_loss=False, regime=regime, **changes)
            assert (why in plain(advice_text(one))) == (said and not binary)


def test_what_else_is_typed_is_said_once(advice):
    """With a baseline by the ladder; of a size alone after the verdict."""
    batch = "per_device_train_batch_size=64"
    typed = f"A step keeps its 64 completions with {batch}."
    sized = replace(advice, completions_per_step=64, batches={4: batch})
    assert typed in plain(advice_text(sized))
    with_baseline = replace(sized, baseline=SetBaseline(0.1, 0.2))
    assert batch not in plain(advice_text(with_baseline)).partition("Steps at")[0]
