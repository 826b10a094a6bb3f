"""The tables of trainings, for `tables.py`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests
from table_cells import ROOT, Row, interval, read, table

from probes.studies.training_design import Arm, load_settings
from probes.studies.training_law import Judged, fit_power, judge_arms, ratio_over_seeds


@table
def power_of_the_law() -> Iterable[Row]:
    """Give the power of 1 + E by which gains fall."""
    law = read("training-law/law.csv").set_index(["step", "optimiser"])
    for step in (4, 12):
        cells = {
            f"{words}, {law.loc[(step, name), 'arms']} arms": interval(
                law.loc[(step, name)], "power"
            )
            for name, words in (("sgd", "SGD"), ("adamw", "AdamW"))
        }
        yield {"power of 1 + E by which gains fall": f"{step} steps", "law": "-1"} | cells


# The arms of probes/studies/tiny-base.yaml as it was declared, at a1748b82: N x G.
DECLARED = {
    ("sgd", "grpo"): {128: (2, 4, 8, 16, 64), 64: (4, 16), 256: (4, 16)},
    ("sgd", "vanilla"): {128: (1, 8, 32)},
    ("sgd", "best-constant-loo"): {128: (8, 32)},
    ("adamw", "grpo"): {128: (2, 4, 16, 64), 64: (4,), 256: (4,)},
}


def is_declared(row: Any) -> bool:
    """Whether an arm stood in the settings before the first run."""
    sizes = DECLARED[row.optimiser, row.estimator]
    return row.group_size in sizes.get(row.completions_per_step, ())


@table
def power_of_some_arms() -> Iterable[Row]:
    """Give the power over some of the arms, each at its best rate, after 12 steps."""
    steps = load_settings(ROOT / "probes/studies/tiny-base.yaml").steps
    judged = judge_arms(read("training-law/runs.csv"), steps, "step", "step")
    arms = read("training-law/comparison.csv").query("step == 12")
    declared = arms[[is_declared(row) for row in arms.itertuples()]]
    some = {
        f"{words}, declared": declared[declared.optimiser == name]
        for name, words in (("sgd", "SGD"), ("adamw", "AdamW"))
    }
    for name, words in (("sgd", "SGD"), ("adamw", "AdamW")):
        by_count = arms[arms.optimiser == name].groupby("completions_per_step")
        some |= {f"{words}, N = {count}": rows for count, rows in by_count}
    for words, rows in some.items():
        keys = rows[[*Arm._fields]].itertuples(index=False)
        gains = pd.concat([judged[Arm(*key)].gains for key in keys], axis=1, join="inner")
        found = fit_power(gains.to_numpy(), rows.one_plus_error.to_numpy())
        row = dict(zip(("power", "power_low", "power_high"), found, strict=True))
        yield {"arms": f"{words}: {len(rows)}", "power": interval(row, "power")}


def gains_after_steps(gains: pd.DataFrame, head: str, column: str) -> Iterable[Row]:
    """Give gains over those of a study's base, after each number of its steps."""
    for value, rows in gains.groupby(column):
        by_step = rows.set_index("step")
        yield {
            head: str(value),
            "predicted": f"{by_step.predicted_gain_ratio.iloc[0]:.2f}",
            **{
                f"after {step} steps": interval(row, "gain_ratio")
                for step, row in by_step.iterrows()
            },
        }


@table
def advised_size() -> Iterable[Row]:
    """Give the gain at TRL's default size over that at the advised one."""
    gains = read("advised-size/comparison.csv").query("group_size == 8")
    return gains_after_steps(gains, "N", "completions_per_step")


@table
def pretrained_gains() -> Iterable[Row]:
    """Give gains of the pretrained model over that at G = 4."""
    gains = read("training-law-smollm2/comparison.csv").query("group_size != 4")
    return gains_after_steps(gains, "G", "group_size")


ARMS = {
    "yours": "TRL's defaults",
    "grpo": "RLOO",
    "vanilla": "vanilla",
    "batch-mean": "batch mean",
    "constant": "constant",
    "affine-2": "affine",
    "affine-8": "affine",
    "logits": "weighted by logits",
}


SAID = ("obeys", "refutes", "cannot tell")


def judge(row: Any) -> str:
    """Judge an arm by the rule that its study declared."""
    predicted = row.predicted_gain_ratio
    half = 1 + (predicted - 1) / 2
    if abs(predicted - 1) < 0.05:
        return "not judged"
    low, high = row.gain_ratio_low - half, row.gain_ratio_high - half
    if predicted < 1:
        low, high = -high, -low
    return "obeys" if low > 0 else "refutes" if high < 0 else "cannot tell"


# The studies of baselines that have run, and how their tables name them.
STUDIES = {
    "tiny": "tiny/base, AdamW, 64",
    "tiny-48": "tiny/base, AdamW, 64",
    "tiny-256": "tiny/base, AdamW, 256",
    "tiny-256-48": "tiny/base, AdamW, 256",
    "tiny-sgd": "tiny/base, SGD, 64",
    "tiny-sgd-48": "tiny/base, SGD, 64",
    "tiny-sgd-256": "tiny/base, SGD, 256",
    "tiny-sgd-256-48": "tiny/base, SGD, 256",
    "smollm2-icl": "SmolLM2 `icl`, AdamW, 16",
    "smollm2-icl-6": "SmolLM2 `icl`, AdamW, 16",
    "smollm2-base": "SmolLM2 `base`, AdamW, 32",
    "smollm2-base-6": "SmolLM2 `base`, AdamW, 32",
}

# Those of the tiny model, as heads of columns.
COLUMNS = {
    "tiny": "AdamW, 64, 12 steps",
    "tiny-48": "AdamW, 64, 48",
    "tiny-256": "AdamW, 256, 12",
    "tiny-256-48": "AdamW, 256, 48",
    "tiny-sgd": "SGD, 64, 12",
    "tiny-sgd-48": "SGD, 64, 48",
    "tiny-sgd-256": "SGD, 256, 12",
    "tiny-sgd-256-48": "SGD, 256, 48",
}

# Arms that were declared later, of the same runs of the base.
LATER: dict[str, list[str]] = {
    study: [f"{study}-rest"]
    for study in ("tiny-sgd", "tiny-sgd-48", "tiny-sgd-256", "tiny-256", "tiny-256-48")
} | {"tiny-48": ["tiny-48-rest", "tiny-48-last"]}

Key = tuple[str, int]  # An arm's estimator and G.
BASE: Key = ("grpo", 8)  # RLOO, the paper's GRPO-type, at TRL's group size.
CONSTANT, AFFINE, TRLS = ("constant", 1), ("affine-2", 2), ("yours", 8)
AGAIN = "constant-clipped"  # Its gains are the constant's: no gradient was clipped.


def parts_of(study: str) -> list[str]:
    """Name the folders of a study's arms."""
    return [f"training-baseline-{part}" for part in (study, *LATER.get(study, ()))]


# Outcomes: a study's table, and the words for it.
OUTCOMES = {
    "comparison": "trained prompts",
    "comparison-unseen-same": "held-out, at these rates",
    "comparison-unseen": "held-out, at their own best",
}
TRAINED, AT_THESE, AT_OWN = OUTCOMES.values()


def gained(row: Any, base: Any) -> str:
    """Write an arm's gain over its base's; both where one is not told from 0, with that."""
    if min(row.gain_low, base.gain_low) > 0:
        return interval(row, "gain_ratio")
    return " against ".join(
        interval(one, "gain") if one.gain_low <= 0 else f"{one.gain:.2f}"
        for one in (row, base)
    )


KEYS = ["estimator", "group_size"]
RULE, OWN_RULE = "trained, by the rule", "held-out's own best, by it"
THESE_RULE = "held-out, by the rule"


def arms_of(study: str, outcome: str) -> pd.DataFrame:
    """Give all arms of a study after its last step, by estimator and G."""
    tables = [read(f"{part}/{outcome}.csv") for part in parts_of(study)]
    last = pd.concat(tables).query("step == step.max() and estimator != @AGAIN")
    return last.drop_duplicates(KEYS).set_index(KEYS, drop=False)  # The base is the same.


def trained_arms(study: str) -> Iterable[Row]:
    """Give what a declared study of baselines found at its end, an arm a row.

    Each arm has the rate at which it gains most on trained prompts; in the last outcome
    that at which it does on held-out ones.
    """
    tables = {words: arms_of(study, name) for name, words in OUTCOMES.items()}
    for key, row in tables[TRAINED].iterrows():
        base = key == BASE
        found, bases = (
            {head: one.loc[at] for head, one in tables.items()} for at in (key, BASE)
        )
        yield {
            "arm": ARMS[row.estimator],
            "G": str(row.group_size),
            "predicted": f"{row.predicted_gain_ratio:.2f}",
            **{
                head: f"gain {one.gain:.3f}" if base else gained(one, bases[head])
                for head, one in found.items()
            },
            RULE: "" if base else judge(row),
            THESE_RULE: "" if base else judge(found[AT_THESE]),
            OWN_RULE: "" if base else judge(found[AT_OWN]),
        }


MODEL = "model, optimiser, N"
HEAD, PREDICTED = "arm", "predicted, N = 64; 256"


def over(judged: Mapping[Arm, Judged], mine: Key, other: Key) -> str:
    """Give the gain of an arm over another's."""
    gains = {(arm.estimator, arm.group_size): one.gains for arm, one in judged.items()}
    if not {mine, other} <= {*gains}:
        return "\u2013"
    return "{:.2f} ({:.2f} to {:.2f})".format(*ratio_over_seeds(gains[mine], gains[other]))


def over_arms(studies: Iterable[str]) -> Iterable[Row]:
    """Give the power of 1 + E by which gains fall, and arms in pairs."""
    kinds = {"trained": "step", "held-out": "unseen"}
    judged = {
        words: {study: judged_of(study, kind) for study in studies}
        for words, kind in kinds.items()
    }
    for words, arms in judged.items():
        yield {HEAD: f"power, {words}", PREDICTED: "-1; -1"} | {
            COLUMNS[study]: power_of_study(study, one) for study, one in arms.items()
        }
    pairs = {"vanilla, over the constant": (("vanilla", 1), CONSTANT, "trained")}
    pairs |= {f"affine, 2, over TRL's, {words}": (AFFINE, TRLS, words) for words in kinds}
    for head, (mine, other, words) in pairs.items():
        predicted = []
        for study in ("tiny", "tiny-256"):
            table = read(f"training-baseline-{study}/prediction.csv").set_index(KEYS)
            ratios = table.predicted_gain_ratio
            predicted.append(f"{ratios[mine] / ratios[other]:.2f}")
        yield {HEAD: head, PREDICTED: "; ".join(predicted)} | {
            COLUMNS[study]: over(one, mine, other) for study, one in judged[words].items()
        }


def in_epochs(studies: Iterable[str]) -> Row:
    """Put the constant's gains to the law without c1, the noise that whole epochs cancel.

    Nobody had declared this. It is the limit of many small steps.
    """
    advice = json.loads((ROOT / "results/training-tiny-train/advice.json").read_text())
    share = advice["c1"]["value"] / advice["gradient2"]["value"]
    predicted, cells = {}, {}
    for study in studies:
        arms = arms_of(study, "comparison")
        base, one = (
            row.one_plus_error - share * row.group_size / row.completions_per_step
            for row in (arms.loc[BASE], arms.loc["constant", 1])
        )
        found, law = arms.loc["constant", 1], base / one
        predicted[found.completions_per_step] = f"{law:.2f}"
        below, above = found.gain_ratio_high < law, found.gain_ratio_low > law
        cells[COLUMNS[study]] = "below" if below else "above" if above else "holds it"
    return {HEAD: "constant, in epochs", PREDICTED: "; ".join(predicted.values())} | cells


def tiny_arms() -> dict[str, dict[tuple[str, str], Row]]:
    """Give what the tiny model's studies found, by arm and G."""
    return {
        study: {(row["arm"], row["G"]): row for row in trained_arms(study)}
        for study in STUDIES
        if study.startswith("tiny")
    }


@table
def trained_prompts() -> Iterable[Row]:
    """Give the tiny model's arms, a study a column, with the verdicts by the rule."""
    studies = tiny_arms()
    small, large = studies["tiny"], studies["tiny-256"]
    for arm in sorted(small, key=lambda one: float(small[one]["predicted"])):
        cells = {}
        for study, rows in studies.items():
            row = rows.get(arm, {TRAINED: "\u2013", RULE: ""})
            verdict = f", {row[RULE]}" if row[RULE] in ("obeys", "refutes") else ""
            cells[COLUMNS[study]] = row[TRAINED] + verdict
        predicted = f"{small[arm]['predicted']}; {large[arm]['predicted']}"
        yield {HEAD: f"{arm[0]}, {arm[1]}", PREDICTED: predicted} | cells


@table
def arms_together() -> Iterable[Row]:
    """Count the verdicts of the tiny model's arms; compare arms, a study a column."""
    studies = tiny_arms()
    for words, rule in (("trained", RULE), ("held-out", THESE_RULE)):
        said = {one: [row[rule] for row in rows.values()] for one, rows in studies.items()}
        yield {HEAD: f"{words}: obey, refute, cannot tell", PREDICTED: "\u2013"} | {
            COLUMNS[study]: ", ".join(str(verdicts.count(one)) for one in SAID)
            for study, verdicts in said.items()
        }
    yield from over_arms(studies)
    yield in_epochs(studies)


def constant_of(study: str) -> Row:
    """Give what the constant without a group gained in a study of baselines."""
    [row] = [
        one for one in trained_arms(study) if (one["arm"], one["G"]) == ("constant", "1")
    ]
    return {head: row[head] for head in row if head not in ("arm", "G")}


def steps_of(study: str) -> list[int]:
    """After how many steps a study looks."""
    return load_settings(ROOT / f"probes/studies/baseline-{study}.yaml").steps


def judged_of(study: str, kind: str = "step") -> dict[Arm, Judged]:
    """Judge all arms of a study, those that were declared later among them.

    Gains are of trained prompts, or of held-out ones (`unseen`), at the rate that is best
    for the trained.
    """
    steps = steps_of(study)
    found: dict[Arm, Judged] = {}
    for part in parts_of(study):
        found |= judge_arms(read(f"{part}/runs.csv"), steps, kind, "step")
    return {arm: one for arm, one in found.items() if arm.estimator != AGAIN}


def power_of_study(study: str, judged: Mapping[Arm, Judged]) -> str:
    """Fit the power of 1 + E by which gains fall, over all arms of a study."""
    rows = pd.concat([read(f"{part}/prediction.csv") for part in parts_of(study)])
    errors = rows.set_index([*Arm._fields]).one_plus_error
    gains = pd.concat([one.gains for one in judged.values()], axis=1, join="inner")
    found = fit_power(gains.to_numpy(), np.array([errors[arm].max() for arm in judged]))
    row = dict(zip(("power", "power_low", "power_high"), found, strict=True))
    return interval(row, "power") if len(judged) > 3 else ""


@table
def trained_pretrained() -> Iterable[Row]:
    """Give what `training_in_short` leaves out of the pretrained model's studies."""
    for study, words in STUDIES.items():
        if not study.startswith("tiny"):
            found = constant_of(study)
            yield {
                MODEL: words,
                "steps": str(steps_of(study)[-1]),
                AT_OWN: found[AT_OWN],
                RULE: found[RULE],
                "held-out, by it; at own best": f"{found[THESE_RULE]}; {found[OWN_RULE]}",
                "trained, over TRL's defaults": over(judged_of(study), CONSTANT, TRLS),
            }


@table
def gains_of_the_constant() -> Iterable[Row]:
    """Count comparisons of the constant with RLOO, by intervals and by the rule.

    p of the ratio's logarithm is Student's, by the interval's half width and its seeds.
    """
    for name, words in OUTCOMES.items():
        tables = [arms_of(study, name) for study in STUDIES]
        rows = [arms.loc["constant", 1] for arms in tables]
        bases = [arms.loc[BASE] for arms in tables]
        edges = sum(
            bool(row.at_edge or base.at_edge) for row, base in zip(rows, bases, strict=True)
        )
        found = pd.DataFrame(rows)
        logs = np.log(found[["gain_ratio", "gain_ratio_low", "gain_ratio_high"]])
        ratio, low, high = logs.to_numpy().T
        errors = (high - low) / 2 / stats.t.ppf(0.975, found.seeds - 1)
        p_values = 2 * stats.t.sf(np.abs(ratio / errors), found.seeds - 1)
        told = {
            "alone": p_values < 0.05,
            "by Holm": multipletests(p_values, method="holm")[0],
        }
        said = [judge(row) for row in rows]
        below = found.gain_ratio_high < found.predicted_gain_ratio
        yield {
            f"of {len(STUDIES)}": words,
            **{
                f"{sign}, {head}": str(int((by & (np.sign(ratio) == side)).sum()))
                for head, by in told.items()
                for sign, side in (("more", 1), ("less", -1))
            },
            ", ".join(SAID): ", ".join(str(said.count(one)) for one in SAID),
            "interval below the prediction": str(below.sum()),
            "a rate at its grid's edge": str(edges),
        }


@table
def training_in_short() -> Iterable[Row]:
    """Give what trainings gained over RLOO's at G = 8: few steps, and more."""
    for few in STUDIES:
        many = f"{few}-48" if few.startswith("tiny") else f"{few}-6"
        if many not in STUDIES:
            continue
        short, long = constant_of(few), constant_of(many)
        yield {
            MODEL: STUDIES[few],
            "predicted": short["predicted"],
            "trained, 12 (3) steps": short[TRAINED],
            "trained, 48 (6)": long[TRAINED],
            "held-out, 12 (3)": short[AT_THESE],
            "held-out, 48 (6)": long[AT_THESE],
        }
