"""Write the tables of the pages from their files: one command, and one test.

    python .ci/tables.py [--check]

A table stands on its page between `<!-- table: NAME -->` and `<!-- end -->`; the function
of that name gives its rows. `--check` writes nothing, and fails where a page differs.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mse_lab.config.probe_files import parse_probe
from mse_lab.mse.baseline import fit_at
from mse_lab.mse.loss import find_aims
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.results.tables import restore_moments
from probes.studies.training_design import Arm, load_settings
from probes.studies.training_law import fit_power, judge_arms, ratio_over_seeds

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"

Row = Mapping[str, str]
TABLES: dict[str, Callable[[], Iterable[Row]]] = {}

FORMS = {
    "base": "`base`: sums behind the paper's instruction",
    "instruct": "`instruct`: sums in chat",
    "icl": "`icl`: sums behind four demonstrations",
    "words-base": "`words-base`: bare questions",
    "words-instruct": "`words-instruct`: questions in chat",
    "words-icl": "`words-icl`: questions behind demonstrations",
}
SMALL = [
    f"{family}/{form}"
    for family in ("tiny", "lenient", "worked")
    for form in ("base", "instruct", "icl")
]


def table(rows: Callable[[], Iterable[Row]]) -> Callable[[], Iterable[Row]]:
    """Keep a function under its name, with hyphens."""
    TABLES[rows.__name__.replace("_", "-")] = rows
    return rows


def read(name: str) -> pd.DataFrame:
    """Read a committed table."""
    return pd.read_csv(RESULTS / name)


def interval(row: Any, name: str) -> str:
    """Format a value with its interval."""
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if math.isnan(low):
        return f"{value:.2f} (no bounds)"
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def ratios_of(run: str, *cells: tuple[str, int]) -> list[str]:
    """Format what errors of a run are over the oracle's."""
    mse = read(f"{run}/mse.csv").set_index(["estimator", "group_size"])
    return [interval(mse.loc[cell], "ratio") for cell in cells]


def mean_value(run: str) -> str:
    """Format the mean reward of a run's prompts."""
    return f"{read(f'{run}/prompts.csv').value.mean():.2f}"


@table
def small_ratios() -> Iterable[Row]:
    """Give the errors of the small checkpoints over the oracle's."""
    heads = "vanilla, G = 4", "GRPO-type, G = 4", "the same, G = 64"
    for run in SMALL:
        cells = ratios_of(run, ("vanilla", 4), ("grpo", 4), ("grpo", 64))
        prompts = read(f"{run}/prompts.csv")
        above = (prompts.best_baseline > prompts.value / 2).sum()
        yield (
            {"MSE over the oracle's": run, "V": mean_value(run)}
            | dict(zip(heads, cells, strict=True))
            | {"b* > V/2": f"{above} of {len(prompts)}"}
        )


def prompts_of(run: str) -> PromptTable:
    """Read a run's prompts from its tables: no pools are needed."""
    folder = RESULTS / run
    probe = parse_probe(yaml.safe_load((folder / "config.yaml").read_text("utf-8")), run)
    prompts = read(f"{run}/prompts.csv")
    moments = restore_moments(prompts, probe.pool.reference)
    c1 = json.loads((folder / "advice.json").read_text("utf-8"))["c1"]["value"]
    products_PP = np.full((len(prompts),) * 2, moments.gradient2.mean() - c1)
    np.fill_diagonal(products_PP, 0.0)
    return PromptTable(moments, products_PP, np.zeros(len(prompts)), binary=True)


@table
def worth_of_the_baseline() -> Iterable[Row]:
    """Give costs of the same error over GRPO-type's at G = 8, over random prompts."""
    for run in [*(f"smollm2/{form}" for form in FORMS), *SMALL]:
        prompts = prompts_of(run)
        of_grpo = find_aims(prompts, "grpo", range(2, 129))
        best = min(of_grpo, key=lambda size: float(of_grpo[size].noise[0]))
        alone, eight = (fit_at(prompts, size) for size in (1, 8))
        oracle = find_aims(prompts, "oracle", [8])[8]
        vanilla = find_aims(prompts, "vanilla", [1])[1]
        base = float(of_grpo[8].noise[0])
        costs = [
            float(aim.noise[0]) / base
            for aim in (of_grpo[best], vanilla, alone.aim, eight.aim, oracle)
        ]
        yield {
            "run": run,
            "best size alone": f"{costs[0]:.2f} at {best}",
            "vanilla, no group": f"{costs[1]:.2f}",
            "one constant, no group": f"{costs[2]:.2f}",
            "the constant": f"{alone.alpha:.2f}",
            "affine, G = 8": f"{costs[3]:.2f}",
            "oracle, G = 8": f"{costs[4]:.2f}",
        }


@table
def pretrained_ratios() -> Iterable[Row]:
    """Give the errors of the pretrained model over the oracle's."""
    heads = "vanilla over oracle, G = 4", "GRPO-type, G = 8", "the same, G = 64"
    for form, words in FORMS.items():
        run = f"smollm2/{form}"
        cells = ratios_of(run, ("vanilla", 4), ("grpo", 8), ("grpo", 64))
        yield {"form, 100 prompts": words, "V": mean_value(run)} | dict(
            zip(heads, cells, strict=True)
        )


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


def power(arms: pd.DataFrame) -> str:
    """Fit gains by a power of 1 + E: least squares of logarithms."""
    slope, _ = np.polyfit(np.log(arms.one_plus_error), np.log(arms.gain), 1)
    return f"{slope:.2f}"


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
    adamw = arms[arms.optimiser == "adamw"].groupby("completions_per_step")
    some |= {f"AdamW, N = {count}": rows for count, rows in adamw}
    for words, rows in some.items():
        keys = rows[[*Arm._fields]].itertuples(index=False)
        gains = pd.concat([judged[Arm(*key)].gains for key in keys], axis=1, join="inner")
        found = fit_power(gains.to_numpy(), rows.one_plus_error.to_numpy())
        row = dict(zip(("power", "power_low", "power_high"), found, strict=True))
        yield {"arms": f"{words}: {len(rows)}", "power": interval(row, "power")}


@table
def power_at_one_rate() -> Iterable[Row]:
    """Give the power where all of GRPO-type's arms have one rate, of gains above zero."""
    keys = ["optimiser", "completions_per_step", "group_size"]
    of_law = read("training-law/comparison.csv").query("step == 12 and estimator == 'grpo'")
    runs = read("training-law/runs.csv").query("estimator == 'grpo'")
    runs["gain"] = runs.step_12 - runs.step_0
    for (name, rate), some in runs.groupby(["optimiser", "step_size"]):
        means = some.groupby(keys).gain.mean().rename("gain").reset_index()
        arms = means[means.gain > 0].merge(of_law[[*keys, "one_plus_error"]], on=keys)
        if len(arms) >= 12:
            words = {"sgd": "SGD", "adamw": "AdamW"}[name]
            yield {
                "optimiser, rate": f"{words}, {rate:g}",
                "arms": str(len(arms)),
                "power": power(arms),
            }


@table
def advised_size() -> Iterable[Row]:
    """Give the gain at TRL's default size over that at the advised one."""
    gains = read("advised-size/comparison.csv").query("group_size == 8")
    for count, rows in gains.groupby("completions_per_step"):
        by_step = rows.set_index("step")
        yield {
            "N": str(count),
            "predicted": f"{by_step.loc[4, 'predicted_gain_ratio']:.2f}",
            "after 4 steps": interval(by_step.loc[4], "gain_ratio"),
            "after 12 steps": interval(by_step.loc[12], "gain_ratio"),
        }


@table
def pretrained_gains() -> Iterable[Row]:
    """Give gains of the pretrained model over that at G = 4."""
    gains = read("training-law-smollm2/comparison.csv").query("group_size != 4")
    for size, rows in gains.groupby("group_size"):
        by_step = rows.set_index("step")
        yield {
            "G": str(size),
            "predicted": f"{by_step.loc[4, 'predicted_gain_ratio']:.2f}",
            "after 4 steps": interval(by_step.loc[4], "gain_ratio"),
            "after 8 steps": interval(by_step.loc[8], "gain_ratio"),
        }


@table
def pretrained_advice() -> Iterable[Row]:
    """Give what the committed advices of the pretrained model rest on."""
    for form in FORMS:
        advice = json.loads((RESULTS / f"smollm2/{form}/advice.json").read_text("utf-8"))
        rho, best = advice["regime"]["rho"], advice["best"]
        value = float(mean_value(f"smollm2/{form}"))
        rows = {row["row"]: row for row in advice["ladder"]}
        trainer = rows["trainer"]
        yield {
            "": form,
            "rho": "{value:.2f} ({low:.2f} to {high:.2f})".format(**rho),
            "(1-V)/(2-V)": f"{(1 - value) / (2 - value):.2f}",
            "G*": "{value:.1f} ({low:.1f} to {high:.1f})".format(**best),
            "best baseline in TRL, G >= 2": (
                f"{trainer['alpha']:.2g} + {trainer['lam']:.2g} m, "
                f"G = {trainer['group_size']}"
            ).replace("+ -", "- "),
            "its cost over TRL's defaults": (
                "{value:.2f} ({low:.2f} to {high:.2f})".format(**trainer["cost"])
            ),
        }


ARMS = {
    "yours": "TRL's defaults",
    "grpo": "GRPO-type",
    "vanilla": "vanilla",
    "batch-mean": "batch mean",
    "constant": "constant",
    "affine-2": "affine",
    "affine-8": "affine",
    "logits": "weighted by logits",
}


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
    "tiny": "tiny/base, AdamW, N = 64",
    "tiny-48": "tiny/base, AdamW, N = 64",
    "tiny-256": "tiny/base, AdamW, N = 256",
    "tiny-sgd": "tiny/base, SGD, N = 64",
    "smollm2-icl": "SmolLM2, `icl`, N = 16",
    "smollm2-icl-6": "SmolLM2, `icl`, N = 16",
    "smollm2-base": "SmolLM2, `base`, N = 32",
}


def trained_arms(study: str) -> Iterable[Row]:
    """Give what a declared study of baselines found at its end, an arm a row.

    Each arm has the rate at which it gains most on trained prompts, for both columns.
    """
    folder = f"training-baseline-{study}"
    keys = ["estimator", "group_size", "step"]
    tables = {
        "trained prompts": read(f"{folder}/comparison.csv"),
        "held-out prompts": read(f"{folder}/comparison-unseen-same.csv"),
    }
    arms = tables["trained prompts"].sort_values("predicted_gain_ratio", kind="stable")
    last = arms.query("step == step.max() and estimator != 'constant-clipped'")
    for _, row in last.iterrows():
        base = row.estimator == "grpo" and row.group_size == 8
        found = {
            head: one.set_index(keys).loc[tuple(row[keys])] for head, one in tables.items()
        }
        yield {
            "arm": ARMS[row.estimator],
            "G": str(row.group_size),
            "predicted": f"{row.predicted_gain_ratio:.2f}",
            **{
                head: f"gain {one.gain:.3f}" if base else interval(one, "gain_ratio")
                for head, one in found.items()
            },
            "by the rule": "" if base else judge(row),
        }


for study in ("tiny", "tiny-256", "tiny-sgd"):
    TABLES[f"trained-{study}"] = partial(trained_arms, study)


def over_constant(
    name: str, gains: Mapping[str, pd.Series], predicted: Mapping[str, float]
) -> str:
    """Format the gain of an arm without groups over the constant's, and its prediction."""
    if not {name, "constant"} <= {*gains}:
        return ""
    ratio, low, high = ratio_over_seeds(gains[name], gains["constant"])
    said = predicted[name] / predicted["constant"]
    return f"{ratio:.2f} ({low:.2f} to {high:.2f}), {said:.2f}"


def constant_of(study: str) -> Row:
    """Give what the constant without a group gained in a study of baselines."""
    [row] = [
        one for one in trained_arms(study) if (one["arm"], one["G"]) == ("constant", "1")
    ]
    return {head: row[head] for head in row if head not in ("arm", "G")}


@table
def trained_in_all() -> Iterable[Row]:
    """Give, for each study of baselines, what the constant gained, and how gains fall."""
    for study, words in STUDIES.items():
        folder = f"training-baseline-{study}"
        settings = load_settings(ROOT / f"probes/studies/baseline-{study}.yaml")
        arms = judge_arms(read(f"{folder}/runs.csv"), settings.steps, "step", "step")
        gains = {arm.estimator: one.gains for arm, one in arms.items() if arm[-1] == 1}
        alone = read(f"{folder}/prediction.csv").query("group_size == 1")
        pairs = gains, alone.set_index("estimator").predicted_gain_ratio
        law = read(f"{folder}/law.csv").iloc[-1]
        yield {
            "the constant in": words,
            "steps": str(settings.steps[-1]),
            **constant_of(study),
            "power of 1 + E": interval(law, "power"),
            "vanilla over it, predicted": over_constant("vanilla", *pairs),
            "logits over it, predicted": over_constant("logits", *pairs),
        }


@table
def training_in_short() -> Iterable[Row]:
    """Give what trainings gained over GRPO-type's at G = 8, a study a row."""
    for study, words in STUDIES.items():
        of_arm = {(row["arm"], row["G"]): row for row in trained_arms(study)}
        others = {"no baseline": ("vanilla", "1"), "size alone, 4": ("GRPO-type", "4")}
        steps = load_settings(ROOT / f"probes/studies/baseline-{study}.yaml").steps
        one = constant_of(study)
        yield {
            "": words,
            "steps": str(steps[-1]),
            "predicted": one["predicted"],
            "constant": one["trained prompts"],
            "held-out prompts": one["held-out prompts"],
            **{
                head: of_arm[arm]["trained prompts"] if arm in of_arm else ""
                for head, arm in others.items()
            },
        }


@table
def speed() -> Iterable[Row]:
    """Give this tool's time beside both loops, and scoring's beside a plain pass."""
    scoring = read("speed/scoring.csv").groupby(["model", "tokens"]).plain_pass.max()
    for row in read("speed/runs.csv").itertuples():
        plain = scoring.get((row.model, row.tokens))
        yield {
            "model, prompt + completion tokens": f"{row.model}, {row.tokens}",
            "obvious loop / this run": f"{row.obvious:.1f}",
            "loop that shares completions / this run": f"{row.shared:.1f}",
            "scoring / plain pass": "" if plain is None else f"{plain:.2f}",
        }


def over_populations(numbers: pd.Series, *, worst: Callable[[pd.Series], float]) -> str:
    """Format an average over populations, and the worst of them."""
    known = numbers.dropna()
    return f"{known.mean():.0f} ({worst(known):.0f})" if len(known) else ""


@table
def verdicts() -> Iterable[Row]:
    """Give how often verdicts are false, of a trainer that takes fitted baselines, too."""
    table = read("stopping/verdicts.csv").query("takes == 'baselines'")
    rare, right = table.design.str.contains("1 in "), table.regret <= 5
    kinds = {
        "yours is right": right,
        "it is not; no rare kind": ~right & ~rare,
        "it is not; a rare kind decides": ~right & rare,
    }
    for count in (64, 1024, 0):
        for words, chosen in kinds.items():
            rows = table[chosen & (table.completions_per_step == count)]
            if rows.empty:
                continue
            shares = (rows.keep.mean(), rows.change.mean(), rows.cannot_tell.mean())
            often = {
                "false keep": "false_keep",
                "not excused": "beyond_doubt",
                "false change": "false_change",
                "for the worse": "wrong_change",
                "5% beyond the best": "wrong_size",
            }
            yield {
                "N": f"{count:,}" if count else "unknown",
                "populations": f"{words}: {len(rows)}",
                "keep / change / cannot tell": " / ".join(f"{one:.0f}" for one in shares),
                **{
                    head: over_populations(rows[column], worst=pd.Series.max)
                    for head, column in often.items()
                },
                "saving held": over_populations(rows.saves_held, worst=pd.Series.min),
            }


@table
def cover_of_advice() -> Iterable[Row]:
    """Give how often what stands beside a verdict holds, of populations of either sort."""
    table = read("coverage/advice.csv")
    rare = table.prompts.str.contains("1 in ")
    kinds = ("ladder", "ladder in epochs", "progress", "steps", "price", "G*", "c1", "c2")
    kinds += ("||g||^2", "noise scale")
    for kind in kinds:
        cells = []
        for some in (table[~rare], table[rare]):
            rows = some[some.kind == kind].groupby("prompts")[["held", "runs"]].sum()
            cells.append(over_populations(100 * rows.held / rows.runs, worst=pd.Series.min))
        yield {
            "number": kind.replace("||", "\u2016"),
            "no rare kind: average (least)": cells[0],
            "a kind of 1 in 20 to 1 in 100": cells[1],
        }


@table
def premise_of_allocation() -> Iterable[Row]:
    """Hold each prompt's gradient variance against p(1-p), which allocations take it for.

    Of prompts with 0 < p < 1 and a positive estimate of T = tr Sigma_oracle, completions in
    proportion to r_x give a variance of (sum r) (sum T/r), over P sum T if all have alike.
    """
    for run in [*(f"smollm2/{form}" for form in FORMS), *SMALL]:
        prompts = read(f"{run}/prompts.csv").query("0 < value < 1 and trace_oracle > 0")
        bernoulli_P, variance_P = prompts.value * (1 - prompts.value), prompts.trace_oracle
        correlation = np.corrcoef(np.log(bernoulli_P), np.log(variance_P))[0, 1]

        def over_uniform(share_P: pd.Series, variance_P: pd.Series = variance_P) -> float:
            spent = share_P.sum() * (variance_P / share_P).sum()
            return float(spent / (len(share_P) * variance_P.sum()))

        yield {
            "run": run,
            "prompts": str(len(prompts)),
            "R² of log T on log p(1-p)": f"{correlation**2:.2f}",
            "by the root of p(1-p)": f"{over_uniform(np.sqrt(bernoulli_P)):.2f}",
            "the best possible": f"{over_uniform(np.sqrt(variance_P)):.2f}",
        }


def render(rows: Iterable[Row]) -> str:
    """Write rows in Markdown; columns of numbers stand to the right."""
    lines = list(rows)
    numbers = [
        all(re.fullmatch(r"[-+\d.,%]*", line[head]) for line in lines) for head in lines[0]
    ]
    rule = ["--:" if number else "---" for number in numbers]
    cells = [[*lines[0]], rule, *([*line.values()] for line in lines)]
    return "".join(f"|{'|'.join(row)}|\n" for row in cells)


def fill(page: str) -> str:
    """Write every table of a page anew."""

    def written(match: re.Match[str]) -> str:
        return f"{match[1]}{render(TABLES[match[2]]())}<!-- end -->"

    marked = r"(<!-- table: ([\w-]+) -->\n).*?<!-- end -->"
    return re.sub(marked, written, page, flags=re.DOTALL)


def differing(*, write: bool) -> list[str]:
    """Name the pages whose tables are not those of their files; write them anew."""
    found = []
    for path in sorted(ROOT.rglob("*.md")):
        if ".venv" in path.parts:
            continue
        page = path.read_text("utf-8")
        if (filled := fill(page)) != page:
            found.append(str(path.relative_to(ROOT)))
            if write:
                path.write_text(filled, "utf-8")
    return found


if __name__ == "__main__":
    check = "--check" in sys.argv[1:]
    pages = differing(write=not check)
    print("\n".join(pages) or "every table is that of its file")
    sys.exit(bool(check and pages))
