"""What the pages show works as it stands."""

import json
import re
import shlex
import shutil
from pathlib import Path
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
import yaml
from pydantic import BaseModel
from scipy import stats
from transformers import AutoModelForCausalLM, AutoTokenizer

import mse_lab
import run_mse
from mse_lab.answers.advice_files import restore_advice
from mse_lab.commands.cli import parse
from mse_lab.config.probe_files import parse_probe
from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.report.advice_report import advice_text, json_values
from simulated import make_design

ROOT = Path(__file__).resolve().parents[2]
GLOBS = ("*.md", "mse_lab/**/*.md", "probes/**/*.md", "results/**/*.md", "tests/**/*.md")
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for pattern in GLOBS
    for path in ROOT.glob(pattern)
}
# SKILL.md is for programs, CHANGELOG.md for the curious: the others are the ten pages.
PAGES = {
    name: text for name, text in TEXTS.items() if name not in ("SKILL.md", "CHANGELOG.md")
}
HOMES = ("", "probes/", "mse_lab/", "mse_lab/results/", "tests/")
README, PROBES, METHOD, REFERENCE, TRUST = (TEXTS[f"{home}README.md"] for home in HOMES)
TRAINING = TEXTS["results/TRAINING.md"]

# A command as it is typed, at the beginning of an indented or fenced line.
COMMAND = r"^(?:    )?(?:\$ )?(?:torchrun .* run_mse\.py|python run_mse\.py|mse-lab) (.*)"

# What has no default.
MUST = (("model", "path"), ("prompts", "source"))


def block(language, text=README):
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1]


def test_an_estimator_of_ones_own(tmp_path, monkeypatch):
    """Rewards 1, 0, 0, 0: leave-one-out 1, -1/3, -1/3, -1/3, clipped at 1/2."""
    (tmp_path / "clipped.py").write_text(block("python", METHOD))
    monkeypatch.syspath_prepend(tmp_path)
    entry = yaml.safe_load(re.search(r"'estimators=(.*)'", METHOD)[1])[-1]
    rewards = np.array([[[1.0, 0, 0, 0]]])
    groups = Groups(rewards, rewards, rewards, np.zeros(1), np.zeros((1, 1)))
    weights = find_estimator(entry).weights(groups)
    np.testing.assert_allclose(weights, [[[1 / 2, -1 / 3, -1 / 3, -1 / 3]]])


def test_every_key_of_a_probe_is_listed_with_its_default():
    """Also the keys that a dump leaves out at their defaults."""
    parse_probe(yaml.safe_load(block("yaml")), "README.md")
    written = yaml.safe_load(block("yaml", PROBES))
    model, prompts = ({key: written[name][key]} for name, key in MUST)
    default = parse_probe({"model": model, "prompts": prompts}, "probes/README.md")
    assert parse_probe(written, "probes/README.md") == default
    for name, section in default:
        if isinstance(section, BaseModel) and isinstance(written[name], dict):
            assert list(written[name]) == list(type(section).model_fields)
    assert list(written) == list(type(default).model_fields)


def test_every_estimator_and_every_field_of_the_advice_has_its_place():
    assert {*ESTIMATORS} <= set(re.findall(r"`([a-z0-9+-]+)`", METHOD))
    section = REFERENCE.partition("## advice.json")[2].partition("\n## ")[0]
    assert {*json_values(restore_advice(ADVICE))} <= set(re.findall(r"`(\w+)`", section))


COMMANDS = {
    tuple(words)
    for text in PAGES.values()
    for line in re.findall(COMMAND, text.replace("\\\n", ""), re.MULTILINE)
    if (words := shlex.split(line.partition(" && ")[0], comments=True)) and "$" not in line
}

# Beginnings of words: a model that is fetched, somebody's logs, whatever probe.
ONLY_READ = ("qwen/", "gsm8k/", "smollm2/", "runs/", "PROBE")

ADVICE = ROOT / "results/tiny/base/advice.json"
LOG = "probes/notebooks/rollouts.jsonl"

# What makes them short.
SETTINGS = [
    f"--set={setting}"
    for setting in (
        "prompts.limit=3",
        "pool.reference=64",
        "pool.replicate=128",
        "sampling.max_new_tokens=2",
        "interval.resamples=100",
    )
]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory, checkpoint):
    """A folder with a model and prompts of somebody's, and the estimator of the page."""
    folder = tmp_path_factory.mktemp("workplace")
    shutil.copytree(checkpoint, folder / "my-org/my-model")
    rows = [f'{{"id": "{n}", "problem": "1 {n}", "answer": {n}}}\n' for n in (1, 2, 3)]
    (folder / "my-prompts.jsonl").write_text("".join(rows))
    (folder / "clipped.py").write_text(block("python", METHOD))
    (folder / LOG).parent.mkdir(parents=True)
    shutil.copy(ROOT / LOG, folder / LOG)
    # As `make figure4` leaves it.
    words = ["run", "tiny/base", "--out", str(folder / "results")]
    assert run_mse.main(words + SETTINGS) == 0
    return folder


def order(words):
    """First a probe, then what draws for an answer, then its run, then what reads that."""
    first = ("init", "plan", "--budget", "run")
    places = [place for place, word in enumerate(first) if word in words]
    return min(places, default=len(first)), words


def test_every_command_does_what_is_said(workplace, monkeypatch, capsys):
    """In the order in which one would type them, on few prompts."""
    assert len(COMMANDS) > 20
    monkeypatch.chdir(workplace)
    monkeypatch.syspath_prepend(workplace)
    for words in sorted(COMMANDS, key=order):
        if any(word.startswith(ONLY_READ) for word in words):
            assert parse(words)
            continue
        short = SETTINGS if words[0] in ("plan", "run") else []
        assert run_mse.main([*words, *short]) == 0, words
        assert capsys.readouterr().out, words


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (
            "demo",
            lambda: advice_text(restore_advice(ROOT / "mse_lab/examples/demo/advice.json")),
        ),
        (f"rollouts {LOG}", lambda: str(mse_lab.rollouts(ROOT / LOG))),
    ],
    ids=["demo", "rollouts"],
)
def test_a_screen_on_the_first_page_is_what_is_printed(command, printed):
    shown = re.search(rf"\$ mse-lab {command}\n((?:    .*\n)+)", README)[1]
    lines = [line[4:] for line in shown.splitlines() if line.strip() != "..."]
    assert len(lines) > 3
    assert [line for line in printed().splitlines() if line in lines] == lines


@pytest.mark.parametrize("command", ["rollouts", "advise"])
def test_what_a_program_should_read_is_there(command):
    """The keys that SKILL.md names for a command's JSON."""
    row = re.search(
        rf"^\|.*mse-lab {command} \S+ --json` \|(.*)\|$", TEXTS["SKILL.md"], re.MULTILINE
    )
    named = set(re.findall(r"`(\w+)`", row[1]))
    there = {
        "rollouts": {*mse_lab.rollouts(ROOT / LOG).summary},
        "advise": {*json_values(restore_advice(ADVICE))},
    }
    assert named
    assert named <= there[command]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mse_lab.__version__


@pytest.mark.parametrize("form", ["base", "instruct", "icl"])
@pytest.mark.parametrize("family", ["", "words-"])
def test_the_ratios_of_the_pretrained_model_are_those_of_its_runs(family, form):
    run = f"{family}{form}"
    table = pd.read_csv(ROOT / f"results/smollm2/{run}/mse.csv", index_col=[1, 2])
    of = [("vanilla", 4), ("grpo", 8), ("grpo", 64)]
    ratios = table.loc[of, "ratio":"ratio_high"].to_numpy()
    cells = " | ".join("{:.2f} ({:.2f} to {:.2f})".format(*row) for row in ratios)
    shown = TEXTS["results/smollm2/README.md"]
    assert re.search(rf"\n\| `{run}`: [^|]*\| [.\d]* \| {re.escape(cells)} \|", shown)


def test_where_the_first_figure_leaves_the_law():
    """The law in intervals of 45 errors, and of 30 ratios to the oracle but one."""
    missed = []
    for form in ("base", "instruct", "icl"):
        table = pd.read_csv(ROOT / f"results/smollm2/{form}/mse.csv")
        assert table["law"].between(table["mse_low"], table["mse_high"]).all()
        oracle = table[table["estimator"] == "oracle"].set_index("group_size")["law"]
        law = table["law"] / table["group_size"].map(oracle)
        others = table["estimator"] != "oracle"
        missed.append(table[others & ~law.between(table["ratio_low"], table["ratio_high"])])
    (one,) = pd.concat(missed).itertuples()
    assert (one.probe, one.estimator) == ("smollm2/base", "vanilla")
    assert f"(left, G = {one.group_size}: two groups" in README
    assert one.replicates == 2


# Five rows of each committed table are on the page of trust, as they are formatted here.
SUMMARIES = {
    "stopping/verdicts.csv": "{regret:.1f} | {keep:.0f} / {change:.0f} / {cannot_tell:.0f}"
    " | {completions:,.0f}",
    "stopping/table.csv": "{completions:,.0f} | {bound_said} | {true} | {best_covered}",
    "coverage/advice-808d59b.csv": "{best G} | {said} | {at most x%} | {G}",
    "coverage/logs-808d59b.csv": "{mean reward} | {zero variance} | {G = 4} | {model, 16}"
    " | {model, 32} | {sd of values}",
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_of_its_table(name):
    table = pd.read_csv(ROOT / "results" / name).rename(columns={"32": "model, 32"})
    if "completions_per_step" in table:
        table = table[table.completions_per_step == 64]
    if "bound_false" in table:
        table["true"] = 100 - table.bound_false
    rows = (
        f"| {row.iloc[0]} | {SUMMARIES[name].format_map(row)} |".replace("| nan", "|")
        for _, row in table.iterrows()
    )
    assert sum(row in TRUST for row in rows) == 5


def test_the_false_verdicts_are_those_of_their_table():
    """Each share is of a row's runs, so their sum is off by less than half a run a row."""
    table = pd.read_csv(ROOT / "results/stopping/verdicts.csv")
    given = f"{(table.runs * (table.keep + table.change) / 100).sum():,.0f}"
    keeps, changes = (
        round((table.runs * table[name] / 100).round().sum())
        for name in ("false_keep", "false_change")
    )
    assert f"Of {given} verdicts {changes} changes and {keeps} keeps were false" in TRUST
    assert f"| {keeps + changes} of {given}; at most" in TRUST
    said = f"Of {given} simulated verdicts {keeps + changes} were false"
    assert said in TEXTS["README.md"]


def test_the_noticed_changes_are_those_of_their_table():
    tests = pd.read_csv(ROOT / "results/mutations.csv").groupby("commit", sort=False).tests
    noticed, drawn = tests.agg(lambda one: (one == "noticed").sum()), tests.size()
    said = [f"{noticed[one]} of {drawn[one]} at {one}" for one in drawn.index]
    low, high = (
        round(100 * end)
        for end in stats.binomtest(noticed.iloc[-1], drawn.iloc[-1]).proportion_ci(
            method="wilson"
        )
    )
    assert f"{', '.join(said[:-1])} and {said[-1]}, {low} to {high}%" in TRUST
    *before, now = (f"{share:.0f}%" for share in 100 * noticed / drawn)
    assert f"| {', '.join(before)}, then {now} |" in TRUST


def test_the_pages_are_ten_and_short():
    assert len(PAGES) == 10
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 900
    assert sum(len(text.split()) for text in PAGES.values()) <= 16_000


def anchors(text):
    """The anchors that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [
        re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in headings
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    text, folder = TEXTS[name], (ROOT / name).parent
    for link in re.findall(r"\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\"", text):
        target, _, part = "".join(link).partition("#")
        if target.startswith("https:"):
            continue
        assert not target or (folder / target).exists(), target
        if part:
            assert part in anchors((folder / target).read_text() if target else text), link


def row_of_sizes(label):
    """A row of numbers on the page of trainings, as they are printed."""
    return re.search(rf"^\| {label} \| (.*) \|$", TRAINING, re.MULTILINE)[1].split(" | ")


def test_the_predicted_gains_are_those_of_the_measured_constants():
    """(1 + E(4)) / (1 + E(G)), where N ||g||^2 E = c1 G + c2 + c3/(G-1), at N = 128."""
    advice = restore_advice(ADVICE)
    c1, c2, c3 = advice.c1.value, advice.c2.value, advice.c3.value
    errors = {
        size: (c1 * size + c2 + c3 / (size - 1)) / (128 * advice.gradient2.value)
        for size in (2, 4, 8, 16, 32, 64)
    }
    gains = [float(cell) for cell in row_of_sizes("predicted before training")]
    assert gains == [round((1 + errors[4]) / (1 + each), 2) for each in errors.values()]


def test_the_measured_gains_are_those_of_the_trainings():
    """Of the best of four step sizes at each G, over that at G = 4."""
    folder = ROOT / "results/group-size"
    start = json.loads((folder / "prediction.json").read_text())["start"]["training"]
    runs = pd.read_csv(folder / "runs.csv")
    runs = runs[runs.arm.isin(["small-step", "eta-0.015", "main", "eta-0.06"])]
    means = runs[runs.step == 100].groupby(["group_size", "arm"]).value.mean()
    gains = means.unstack().max(axis=1) - start
    cells = [float(cell) for cell in row_of_sizes("measured, step 100")]
    assert cells == list((gains / gains[4]).round(2))


def in_brackets(row, *names):
    return "{:.2f} ({:.2f} to {:.2f})".format(*row[[*names]])


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_the_power_of_the_law_is_that_of_its_study(optimiser):
    law = pd.read_csv(ROOT / "results/training-law/law.csv")
    rows = law[law["optimiser"] == optimiser]
    powers = [
        in_brackets(row, "power", "power_low", "power_high") for _, row in rows.iterrows()
    ]
    assert all(power in TRAINING for power in powers)
    assert powers[-1] in README


def test_the_gains_of_the_advised_size_are_those_of_their_study():
    table = pd.read_csv(ROOT / "results/advised-size/comparison.csv")
    rows = table[table["group_size"] == 8]
    ratios = "gain_ratio", "gain_ratio_low", "gain_ratio_high"
    for count, (early, late) in rows.groupby("completions_per_step").indices.items():
        predicted = rows.iloc[early]["predicted_gain_ratio"]
        cells = [in_brackets(rows.iloc[at], *ratios) for at in (early, late)]
        assert f"| {count} | {predicted:.2f} | {' | '.join(cells)} |" in TRAINING
        assert cells[1] in re.sub(r"\s+", " ", README)
    last = rows[rows["step"] == 12]
    assert sorted(last["gain_ratio_high"] < 1) == [False, True, True]


def test_the_trainings_of_the_pretrained_model_are_those_of_their_study():
    table = pd.read_csv(ROOT / "results/training-law-smollm2/comparison.csv")
    rows = table[(table["step"] == 8) & (table["group_size"] != 4)]
    assert len(rows) == 3
    for _, row in rows.iterrows():
        low, high = row["gain_ratio_low"], row["gain_ratio_high"]
        ends = f"({low:.2f} to {high:{'.1f' if high > 2 else '.2f'}})"
        line = (
            f"| {row['group_size']} | {row['predicted_gain_ratio']:.2f} | "
            f"{row['gain_ratio']:.2f} {ends} |"
        )
        assert line in PAGES["results/smollm2/README.md"]


@pytest.mark.parametrize(
    "arm", [(256, 4), (128, 2), (128, 16), (128, 64), (64, 4), (64, 64)]
)
def test_the_arms_of_adamw_are_those_of_their_study(arm):
    table = pd.read_csv(ROOT / "results/training-law/comparison.csv")
    table = table[table["optimiser"] == "adamw"]
    rows = table[
        (table["completions_per_step"] == arm[0]) & (table["group_size"] == arm[1])
    ]
    last = rows.iloc[-1]
    gain = in_brackets(last, "gain_ratio", "gain_ratio_low", "gain_ratio_high")
    kinds = [
        f"{way}{kind}_ratio"
        for kind in ("steps", "step_size")
        for way in ("predicted_", "")
    ]
    cells = [
        f"{last['predicted_gain_ratio']:.2f}",
        gain,
        *(f"{last[kind]:.2f}" for kind in kinds),
    ]
    assert " | ".join([f"| {arm[0]}, {arm[1]}", *cells]) + " |" in TRAINING


def test_a_model_in_memory_as_it_is_shown(checkpoint, tmp_path, monkeypatch):
    """Its lines; the prompts have a chat template only where the page's model has one."""
    lines = block("python").replace("chat=True", "progress=False, budget=48", 1)
    lines = lines.replace("chat=True", "progress=False, pool=POOL")
    monkeypatch.chdir(tmp_path)
    names = {
        "model": AutoModelForCausalLM.from_pretrained(checkpoint),
        "tokenizer": AutoTokenizer.from_pretrained(checkpoint),
        "prompts": [{"problem": f"1 {n}", "answer": n} for n in (1, 2, 3)],
        "reward": "integer",
        "POOL": {"reference": 64, "replicate": 128},
    }
    exec(lines.replace("64", "2", 1), names)
    assert (tmp_path / "figure4.png").stat().st_size > 10_000


def test_the_public_door_as_it_is_shown(tmp_path, monkeypatch):
    """Its lines, on pools of somebody's in the working folder."""
    lines = re.search(r"    import mse_lab, numpy as np\n(?:    .*\n)+", REFERENCE)[0]
    pools = make_design(np.random.default_rng(0), prompts=6).draw(
        np.random.default_rng(1), 64, 2, 16
    )
    np.savez(tmp_path / "pools.npz", **vars(pools))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(dedent(lines), names)
    assert set(names["result"].mse["group_size"]) == {4, 8, 16}
