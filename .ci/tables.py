"""Write the tables of the pages from their files: one command, and one test.

    python .ci/tables.py [--check]

A table stands on its page between `<!-- table: NAME -->` and `<!-- end -->`; the function
of that name gives its rows. `--check` writes nothing, and fails where a page differs.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import rate_tables  # noqa: F401 (tables are kept by their names)
import training_tables  # noqa: F401
from table_cells import RESULTS, ROOT, TABLES, Row, interval, read, table

from mse_lab.answers.statements import judge_runs
from mse_lab.mse.baseline import fit_at
from mse_lab.mse.loss import Aim, find_aims, steps_ratio
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.results.finished_run import read_run

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
RUNS = [*(f"smollm2/{form}" for form in FORMS), *SMALL]

# Ends the kinds of `coverage/advice.csv` that count the runs that drew a rare prompt, of
# which so many tell a least coverage.
DRAWN, OFTEN = ", drawn", 20


def ratios_of(run: str, *cells: tuple[str, int]) -> list[str]:
    """Format what errors of a run are over the oracle's."""
    mse = read(f"{run}/mse.csv").set_index(["estimator", "group_size"])
    return [interval(mse.loc[cell], "ratio") for cell in cells]


def mean_value(run: str) -> str:
    """Format the mean reward of a run's prompts."""
    return f"{read(f'{run}/prompts.csv').value.mean():.2f}"


@table
def claims_of_runs() -> Iterable[Row]:
    """Count, over all committed runs, what `claims` says of each statement."""
    claims = [claim for run in RUNS for claim in judge_runs([read_run(RESULTS / run)])]
    found: dict[tuple[str, str], Counter[str]] = {}
    for claim in claims:
        if claim.group_size is None and claim.verdict != "not tested":
            name, _, part = claim.statement.partition(" (")
            beyond = part.startswith("what it leaves out")
            key = f"Left out by {name}" if beyond else name, claim.about.short
            found.setdefault(key, Counter())[claim.verdict] += 1
    for (name, says), counts in found.items():
        against = set(counts) - {"holds", "undecided"}
        yield {
            f"statement, of {len(RUNS)} runs": f"{name}: {says}",
            "holds": str(counts["holds"]),
            "undecided": str(counts["undecided"]),
            "otherwise": ", ".join(f"{one} {counts[one]}" for one in sorted(against)),
        }


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
    """Read a run's prompts."""
    return read_run(RESULTS / run).table


@table
def worth_of_the_baseline() -> Iterable[Row]:
    """Give costs of the same error over GRPO-type's at G = 8, over random prompts."""
    for run in RUNS:
        prompts = prompts_of(run)
        of_grpo = find_aims(prompts, "grpo", range(2, 129))
        best = min(of_grpo, key=lambda size: float(of_grpo[size].noise[0]))
        alone, eight = (fit_at(prompts, size) for size in (1, 8))
        oracle = find_aims(prompts, "oracle", [8])[8]
        vanilla = find_aims(prompts, "vanilla", [1])[1]
        base = float(of_grpo[8].noise[0])
        costs = [float(aim.noise[0]) / base for aim in (of_grpo[best], vanilla)]

        def over(aim: Aim, other: Aim, prompts: PromptTable = prompts) -> str:
            cost = steps_ratio(prompts, aim, other, 0, 0.95)
            return "{:.2f} ({:.2f} to {:.2f})".format(*cost)

        yield {
            "run": run,
            "best size alone": f"{costs[0]:.2f} at {best}",
            "vanilla, no group": f"{costs[1]:.2f}",
            "one constant, no group": over(alone.aim, of_grpo[8]),
            "alpha": f"{alone.alpha:.2f}",
            "constant over the best size": over(alone.aim, of_grpo[best]),
            "affine over oracle, G = 8": over(eight.aim, oracle),
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
def pretrained_advice() -> Iterable[Row]:
    """Give what the committed advices of the pretrained model rest on."""
    for form in FORMS:
        advice = json.loads((RESULTS / f"smollm2/{form}/advice.json").read_text("utf-8"))
        rho, line = (advice["regime"][key] for key in ("rho", "line"))
        best = advice["best"]
        rows = {row["row"]: row for row in advice["ladder"]}
        trainer = rows["trainer"]
        yield {
            "": form,
            "rho": "{value:.2f} ({low:.2f} to {high:.2f})".format(**rho),
            "the line": f"{line:.2f}",
            "G*": "{value:.1f} ({low:.1f} to {high:.1f})".format(**best),
            "`trainer`: best baseline, G >= 2": (
                f"{trainer['alpha']:.2g} + {trainer['lam']:.2g} m, "
                f"G = {trainer['group_size']}"
            ).replace("+ -", "- "),
            "its cost over TRL's defaults": (
                "{value:.2f} ({low:.2f} to {high:.2f})".format(**trainer["cost"])
            ),
        }


@table
def speed() -> Iterable[Row]:
    """Give this tool's time beside both loops, and scoring's beside a plain pass."""
    scoring = read("speed/scoring.csv").groupby(["model", "tokens"]).plain_pass.max()
    for row in read("speed/runs.csv").itertuples():
        plain = scoring.get((row.model, row.tokens))
        model = row.model.replace("V =", "vocabulary")
        yield {
            "model, prompt + completion tokens": f"{model}, {row.tokens}",
            "obvious loop / this run": f"{row.obvious:.1f}",
            "loop that shares completions / this run": f"{row.shared:.1f}",
            "scoring / plain pass": "" if plain is None else f"{plain:.2f}",
        }


def over_populations(numbers: pd.Series, *, worst: Callable[[pd.Series], float]) -> str:
    """Format an average over populations, and the worst of them."""
    known = numbers.dropna()
    return f"{known.mean():.0f} ({worst(known):.0f})" if len(known) else ""


def by_truth(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Part verdicts by whether yours is right in truth, and by what decides where not."""
    rare, right = table.design.str.contains("1 in "), table.regret <= 5
    return {
        "yours is right": table[right],
        "it is not; no rare kind": table[~right & ~rare],
        "it is not; a rare kind decides": table[~right & rare],
    }


def count_runs(rows: pd.DataFrame, column: str) -> int:
    """Count the runs of which a column has the percentage."""
    return round((rows[column] * rows.runs / 100).sum())


@table
def counts_of_verdicts() -> Iterable[Row]:
    """Count keeps and changes, and the false ones, over all N and both trainers."""
    columns = {
        "keep": "keep",
        "change": "change",
        "changed for the worse": "wrong_change",
        "to one 5% beyond the best": "wrong_size",
    }
    for words, rows in by_truth(read("stopping/verdicts.csv")).items():
        counts = {head: count_runs(rows, column) for head, column in columns.items()}
        untold = rows.runs.sum() - counts["keep"] - counts["change"]
        found = {"verdicts": rows.runs.sum(), "cannot tell": untold} | counts
        yield {"in truth": words} | {head: f"{count:,}" for head, count in found.items()}


FEW = 20  # Of fewer changes a share is not told as a population's least.


@table
def verdicts() -> Iterable[Row]:
    """Give how often verdicts are false, of a trainer that takes fitted baselines, too."""
    table = read("stopping/verdicts.csv")
    for count in (64, 1024, 0):
        of_count = table[table.completions_per_step == count]
        alone = by_truth(of_count.query("takes == 'sizes'"))
        for words, rows in by_truth(of_count.query("takes == 'baselines'")).items():
            if rows.empty:
                continue
            means = (rows.keep.mean(), rows.change.mean(), rows.cannot_tell.mean())
            changes = rows.change * rows.runs / 100
            of = round(changes.sum())
            held = (rows.saves_held * changes).sum() / 100
            least = rows.saves_held[changes >= FEW].min()
            often = {
                "false keep": rows.false_keep,
                "sizes alone": alone[words].false_keep,
                "false change": rows.false_change,
            }
            yield {
                "N": f"{count:,}" if count else "unknown",
                "populations": f"{words}: {len(rows)}",
                "keep / change / cannot tell": " / ".join(f"{one:.0f}" for one in means),
                **{
                    head: over_populations(shares, worst=pd.Series.max)
                    for head, shares in often.items()
                },
                "saving held": f"{held:.0f} of {of}"
                if of < FEW
                else f"{100 * held / of:.0f}% of {of:,} ({least:.0f})",
            }


@table
def cover_of_advice() -> Iterable[Row]:
    """Give how often what stands beside a verdict holds, of populations of either sort.

    Of a rare kind, too, of the runs alone that drew a prompt of it; the least of those is
    of numbers that `OFTEN` of them give.
    """
    table = read("coverage/advice.csv")
    rare = table.prompts.str.contains("1 in ")
    keys = ["kind", "prompts", "number"]
    rows_of = {
        "ladder": ["ladder"],
        "ladder in epochs": ["ladder in epochs"],
        "progress, steps": ["progress", "steps"],
        "G*": ["G*"],
        "c1, c3, constants": ["c1", "c3", "constant baselines"],
        "c2": ["c2"],
        "\u2016g\u2016\u00b2, noise scale": ["||g||^2", "noise scale"],
        "rho": ["rho of the run"],
        "b*": ["b* of the run"],
        "zero-variance groups": ["zero-variance groups"],
    }
    drawn = table.kind.str.endswith(DRAWN)
    table["kind"] = table.kind.str.removesuffix(DRAWN)
    for words, kinds in rows_of.items():
        cells = []
        for some in (~rare, rare & ~drawn, drawn):
            rows = table[some & table.kind.isin(kinds)]
            sums = rows.groupby(keys, dropna=False)[["held", "runs"]].sum()
            shares = 100 * sums.held / sums.runs
            often = sums.runs >= (OFTEN if some is drawn else sums.runs.max())
            cells.append(f"{shares.mean():.0f} ({shares[often].min():.0f})")
        yield {
            "number": words,
            "no rare kind: average (least)": cells[0],
            "a kind of 1 in 20 to 1 in 100": cells[1],
            "the same, if one was drawn": cells[2],
        }


@table
def premise_of_allocation() -> Iterable[Row]:
    """Hold each prompt's gradient variance against p(1-p), which allocations take it for.

    Of prompts with 0 < p < 1 and an estimate of T = tr Sigma_oracle above rounding.
    Completions in proportion to r_x give a variance of (sum r) (sum T/r), over P sum T if
    all have alike.
    """
    for run in RUNS:
        prompts = read(f"{run}/prompts.csv").query("0 < value < 1 and trace_oracle > 1e-9")
        bernoulli_P, variance_P = prompts.value * (1 - prompts.value), prompts.trace_oracle
        line = stats.linregress(np.log(bernoulli_P), np.log(variance_P))

        def over_uniform(share_P: pd.Series, variance_P: pd.Series = variance_P) -> float:
            spent = share_P.sum() * (variance_P / share_P).sum()
            return float(spent / (len(share_P) * variance_P.sum()))

        yield {
            "run": run,
            "prompts": f"{len(prompts)}/{len(read(f'{run}/prompts.csv'))}",
            "log T on log p(1-p): R²": f"{line.rvalue**2:.2f}",
            "slope": f"{line.slope:.2f}",
            "by the root of p(1-p)": f"{over_uniform(np.sqrt(bernoulli_P)):.2f}",
            "the best possible": f"{over_uniform(np.sqrt(variance_P)):.2f}",
        }


def render(rows: Iterable[Row]) -> str:
    """Write rows in Markdown; columns of numbers stand to the right.

    Intervals that are above 0 are written with a dash.
    """
    lines = list(rows)
    numbers = [
        all(re.fullmatch(r"[-+\d.,%]*", line[head]) for line in lines) for head in lines[0]
    ]
    rule = ["--:" if number else "---" for number in numbers]
    cells = [[*lines[0]], rule, *([*line.values()] for line in lines)]
    written = "".join(f"|{'|'.join(row)}|\n" for row in cells)
    return re.sub(r"\(([\d.]+) to ([\d.]+)\)", "(\\1\u2013\\2)", written)


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
