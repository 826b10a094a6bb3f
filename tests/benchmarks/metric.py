"""What the error that training feels costs beside a plain run, and how `plan` prices it.

Of the tiny checkpoint with the pools of its probe, and the metric's own defaults. Few
prompts flatter the metric: the tables of a plain run take a second or two for any number.
"""

from functools import partial
from pathlib import Path

from benchmarks import tool
from benchmarks.cases import TINY
from benchmarks.tables import ratio, seconds, table, take_turns
from benchmarks.whole_run import TINY_POOLS

KINDS = ("curvature", "adam")


def report(prompts: int, folder: Path, rounds: int) -> str:
    """Measure both metrics and a plain run in turn."""
    loaded = tool.load(TINY, folder, prompts=prompts, **TINY_POOLS)
    ways = {"run": partial(seconds, partial(tool.run, loaded, folder / "plain"))}
    for kind in KINDS:
        subject = tool.felt_by(loaded, kind)
        ways[kind] = partial(seconds, partial(tool.measure_metric, subject))
        ways[f"{kind} priced"] = partial(tool.price_metric, subject)
    times = take_turns(ways, rounds)
    rows = [
        [
            f"`metric: {kind}`",
            ratio(times[kind], times["run"]),
            ratio(times[kind], times[f"{kind} priced"]),
        ]
        for kind in KINDS
    ]
    return table(["tiny", "metric / plain run", "metric / its price by `plan`"], rows)
