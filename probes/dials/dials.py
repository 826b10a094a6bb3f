"""What moves rho: `python -m probes.dials.dials` turns one dial at a time on small models.

Models of one layer, 129,000 parameters, learn to work out sums (`sums.py`) and are measured
in memory. Writes `results/dials/table.csv`, a row a setting and seed, and the picture; what
is measured is kept in `build/dials/`, from which the same command goes on. `--quick` turns
one dial, on one seed and with less training, into `build/dials/`.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm
from transformers import Qwen2Config, Qwen2ForCausalLM

import mse_lab
from mse_lab.api.measure import Result
from mse_lab.commands.command_line import ROOT
from mse_lab.mse import regime
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.report.drawing import colours_of, reach, save_figure
from mse_lab.results.files import write_json, write_table
from probes.dials import sums
from probes.dials.sums import Corpus

RAW = ROOT / "build" / "dials"
TABLE = ROOT / "results" / "dials" / "table.csv"
PICTURES = [ROOT / "figures" / f"dials.{suffix}" for suffix in ("png", "pdf")]

# Texts in an update, the largest learning rate, the side of a layer.
BATCH, PEAK, HIDDEN = 64, 3e-3, 96
SEEDS = 2


class Effort(NamedTuple):
    """How long each model is trained, and on what it is measured."""

    updates: int = 400
    prompts: int = 12
    reference: int = 192
    replicate: int = 128


class Setting(NamedTuple):
    """A place of a dial: a text, a temperature, the training in units of `updates`."""

    dial: str
    series: str
    level: str
    corpus: Corpus = Corpus()
    temperature: float = 1.0
    trained: float = 1.0

    def file(self, seed: int, effort: Effort) -> Path:
        """Name what keeps its measurement; dials share those that are the same."""
        numbers = (float(self.temperature), float(self.trained))
        text = repr((self.corpus, *numbers, seed, effort, BATCH, PEAK, HIDDEN))
        return RAW / f"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.json"


# Words take twice the training; of these dials every setting has it, those without, too.
PAIR, WORDS, RIGHTS = "random words around", "words x choices of each", "right answers"
SETTINGS = [
    *(Setting(PAIR, "the answer alone" if steps == 1 else f"working of {steps} steps",
              str(words), Corpus(steps, words=words), trained=2)
      for steps in (1, 4) for words in (0, 1, 2, 6)),
    Setting(WORDS, "", "none", trained=2),
    *(Setting(WORDS, "", f"{words} x {choices}", Corpus(words=words, choices=choices),
              trained=2)
      for words, choices in ((12, 1), (1, 64), (2, 8), (6, 2))),
    *(Setting("steps of working", f"V about {one}", str(steps), Corpus(steps, accuracy=one))
      for one, among in ((0.5, (1, 2, 4, 8)), (0.2, (1, 4, 8))) for steps in among),
    *(Setting("share of the training", "", f"{one:g}", Corpus(accuracy=0.95), trained=one)
      for one in (0.04, 0.05, 0.06, 0.08, 0.1, 1)),
    *(Setting(RIGHTS, "", str(one), Corpus(rights=one)) for one in (1, 2, 4)),
    *(Setting("temperature", series, f"{one:g}", corpus, one)
      for series, corpus in (("right is likeliest", Corpus()),
                             ("in 30%, a wrong one as likely",
                              Corpus(accuracy=0.54, torn=True)))
      for one in (0.3, 0.5, 0.7, 1, 1.5)),
]  # fmt: skip


def build_model(seed: int, hidden: int) -> Qwen2ForCausalLM:
    """Build the untrained model, its matrices drawn from N(0, 1/hidden)."""
    ends = {f"{one}_token_id": sums.VOCABULARY.index(f"<{one}>") for one in ("eos", "pad")}
    config = Qwen2Config(
        vocab_size=len(sums.VOCABULARY), hidden_size=hidden, intermediate_size=3 * hidden,
        num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=None, **ends,
    )  # fmt: skip
    model, generator = Qwen2ForCausalLM(config), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=hidden**-0.5, generator=generator)
    return model


def train(
    corpus: Corpus, seed: int, updates: int, hidden: int
) -> Iterator[Qwen2ForCausalLM]:
    """Train a model on the completions of a corpus, and show it after each update."""
    model, rng = build_model(seed, hidden), np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(model.parameters(), PEAK, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=PEAK, total_steps=updates, pct_start=0.1, cycle_momentum=False
    )
    for _ in range(updates):
        tokens = torch.from_numpy(sums.draw(corpus, BATCH, rng))
        labels = tokens.clone()
        labels[:, : -corpus.length] = -100
        model.train()(tokens, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        yield model


def measure_baseline_share(pools: Pools, level: float) -> Estimate:
    """Measure b*/V at the place of an aggregate: sum V B / sum V^2 S, for any rewards.

    Vanilla is worse than the oracle above 1/2. The interval counts the noise of score norms
    and that of V, prompts being fixed; NaN where sum V^2 S is not significantly positive.
    """
    moments, norms2_PN = pool_moments(pools), pools.norms2_PN
    value, squares = moments.value, moments.value**2 - moments.value_variance
    noise_PN = pools.reference_rewards_PN - value[:, None]
    top, base = (
        Statistic(
            float(each.mean(-1).sum()),
            {"replicates": each, "reference": slope[:, None] * noise_PN},
            {},
        )
        for each, slope in (
            (value[:, None] * pools.rewards_PN * norms2_PN, moments.reward_norm2),
            (squares[:, None] * norms2_PN, 2 * value * moments.norm2),
        )
    )
    return top.ratio_to(base, level)


def describe(result: Result) -> dict[str, Any]:
    """Describe the aggregate: `share` is b*/V, and rho's interval is its, at this V."""
    place = regime.aggregate_place(result.moments)
    gains, zeta = regime.oracle_gain(result.moments), result.moments.zeta.sum()
    share = measure_baseline_share(result.pools, result.level)
    rho = regime.norm_ratio(np.array(share) * place.value, np.array(place.value))
    ratio = result.vanilla_trace.ratio_to(result.oracle_trace, result.level)
    measured = {"share": share, "rho": rho, "vanilla_to_oracle": ratio}
    return {
        "accuracy": result.moments.value.mean(),
        **place._asdict(),
        **{f"{name}{end}": one for name, each in measured.items()
           for end, one in zip(("", "_low", "_high"), each, strict=True)},
        "line": (1 - place.value) / (2 - place.value),
        "grpo_better_above": float(regime.crossing_size(gains.sum(), zeta)),
        "prompts_above": (gains > 0).mean(),
        "score_norm2": result.moments.norm2.mean(),
        "checks_held": all(check.ok for check in result.checks),
    }  # fmt: skip


def measure(model: Qwen2ForCausalLM, one: Setting, seed: int, effort: Effort) -> None:
    """Measure a model, on problems that are the same for every seed, and keep the row."""
    prompts = sums.draw_prompts(one.corpus, effort.prompts, np.random.default_rng(0))
    sampling = {"max_new_tokens": one.corpus.length, "temperature": one.temperature}
    pool = {"reference": effort.reference, "replicate": effort.replicate}
    result = mse_lab.measure(
        model, sums.build_tokenizer(), prompts, sums.is_right, name=one.dial, seed=seed,
        group_sizes=[effort.replicate // 2], sampling=sampling, pool=pool, progress=False,
    )  # fmt: skip
    write_json(one.file(seed, effort), describe(result))


def measure_dials(settings: Sequence[Setting], seeds: int, effort: Effort) -> None:
    """Measure what is missing, seed by seed; settings of one text along one training."""
    by_text = groupby(sorted(settings, key=lambda one: one.corpus), lambda one: one.corpus)
    texts = [(text, {one[3:]: one for one in some}) for text, some in by_text]
    for seed, (text, some) in tqdm([*product(range(seeds), texts)], disable=None):
        due = {one: round(one.trained * effort.updates) for one in some.values()
               if not one.file(seed, effort).exists()}  # fmt: skip
        updates = range(1, max(due.values(), default=0) + 1)
        length = max(len(updates), effort.updates)
        for update, model in zip(updates, train(text, seed, length, HIDDEN), strict=False):
            for one in (one for one, last in due.items() if last == update):
                measure(model, one, seed, effort)


def collect(settings: Sequence[Setting], seeds: int, effort: Effort) -> pd.DataFrame:
    """Collect a row a setting and seed; `tabular` are b*/V by `sums.predict`."""
    rows = []
    for one, seed in product(settings, range(seeds)):
        names = {"dial": one.dial, "series": one.series, "level": one.level, "seed": seed}
        found = json.loads(one.file(seed, effort).read_text("utf-8"))
        places = [sums.predict(one.corpus, one.temperature, cosine) for cosine in (0, 1)]
        # Of half a training nothing is predicted.
        own, shared = (place.best_baseline / place.value if one.trained >= 1 else np.nan
                       for place in places)  # fmt: skip
        rows.append(names | found | {"tabular": own, "tabular_shared": shared})
    return pd.DataFrame(rows)


def _draw_series(axes: Axes, rows: pd.DataFrame, colour: str, shift: float) -> None:
    """Draw each seed with its interval, their mean, and what tabular steps would give."""
    means = rows.groupby("x")[["share", "tabular", "tabular_shared"]].mean()
    x, (share, own, shared) = means.index, means.to_numpy().T
    axes.plot(x, share, color=colour, lw=1.3, zorder=3, label=rows["series"].iloc[0])
    axes.plot(x, own, color=colour, lw=0.9, ls=":", zorder=2)
    axes.fill_between(x, own, shared, color=colour, alpha=0.12, lw=0)
    intervals = rows[["share", "share_low", "share_high"]].to_numpy()
    at = rows["x"] + shift + 0.1 * (rows["seed"] - rows["seed"].mean())
    axes.errorbar(at, intervals[:, 0], reach(intervals), fmt="o", ms=3, color=colour,
                  elinewidth=0.8, mec="white", mew=0.3, zorder=4)  # fmt: skip


def draw_dial(axes: Axes, dial: str, rows: pd.DataFrame) -> None:
    """Draw b*/V against the levels of a dial."""
    numbers, levels = pd.factorize(rows["level"])
    values = rows.groupby(numbers)["value"]
    alike = bool((values.max() - values.min()).max() < 0.2)
    means = [f"\n({mean:.2f})" if alike else "" for mean in values.mean()]
    ticks = [one + mean for one, mean in zip(levels, means, strict=True)]
    axes.set_xticks(range(len(levels)), ticks, fontsize=7.5)
    for height, dashes in ((0.5, "-"), (1, (0, (4, 2)))):
        axes.axhline(height, color="0.15", lw=1.3 - 0.5 * height, ls=dashes, zorder=2.5)
    series = [some for _, some in rows.assign(x=numbers).groupby("series", sort=False)]
    for some, colour, shift in zip(series, colours_of(3), (-0.1, 0.1), strict=False):
        _draw_series(axes, some, colour, shift * (len(series) > 1))
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=7, loc="upper center")
    axes.set_xlabel(dial.capitalize() + " (V)" * alike, fontsize=8.5)


def compose(table: pd.DataFrame) -> Figure:
    """Draw a panel a dial."""
    dials = list(table.groupby("dial", sort=False))
    rows, columns = -(-len(dials) // 3), min(3, len(dials))
    figure = Figure((0.4 + 2.4 * columns, 0.3 + 2.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, (dial, some) in zip(panels.flat, dials, strict=False):
        draw_dial(axes, dial, some)
    panels[0, 0].set_ylim(0, 1.4)
    for height, words in ((0.5, "vanilla = oracle"), (1, "Assumption 2")):
        last = panels[-1, 0]
        last.text(1, height + 0.02, words, ha="right", fontsize=7,
                  transform=last.get_yaxis_transform())  # fmt: skip
    figure.supylabel("Best constant baseline / value, b*/V", fontsize=9.5)
    return figure


def main(words: Sequence[str]) -> int:
    """Measure, then write table and picture."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one dial, into build/dials/")
    settings, seeds, effort, table, pictures = SETTINGS, SEEDS, Effort(), TABLE, PICTURES
    if parser.parse_args(words).quick:
        settings = [one for one in SETTINGS if one.dial == RIGHTS]
        seeds, effort = 1, Effort(200, 6, 128, 64)
        table, pictures = RAW / "quick.csv", [RAW / "quick.png"]
    measure_dials(settings, seeds, effort)
    found = collect(settings, seeds, effort)
    write_table(table, found)
    for path in pictures:
        save_figure(lambda: compose(found), path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
