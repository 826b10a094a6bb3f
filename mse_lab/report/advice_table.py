"""Several advices, a line each: of a training's checkpoints, or of finished runs."""

import json
from collections.abc import Mapping
from typing import Any

from mse_lab.answers.advice import Advice
from mse_lab.formatting import NONE, WIDTH, number, share, table, wrap
from mse_lab.report.advice_files import json_values
from mse_lab.report.advice_report import best_size

# An advice, or why there is none, by the step or the folder that it is of.
Advices = Mapping[str, Advice | str]


def _verdict(advice: Advice) -> str:
    if not advice.held:
        return "a built-in check FAILED"
    sizes = {"keep": f" {advice.set_to}", "change": f" to {advice.set_to}"}
    return advice.verdict + sizes.get(advice.verdict, "")


def _row(label: str, advice: Advice | str, completions: int | None) -> list[str]:
    if isinstance(advice, str):
        return [label, NONE, NONE, *[NONE] * (completions is not None), "no advice"]
    made = []
    if completions is not None:
        row = advice.progress_at(completions, advice.setting.group_size)
        made = [share(row.progress.value)]
    reward, best = number(advice.mean_reward), best_size(advice)
    return [label, reward, best, *made, _verdict(advice)]


def advice_lines(what: str, advices: Advices, width: int = WIDTH) -> str:
    """Lay out a line for each advice, headed by `what`; then why others are none."""
    steps = {
        one.completions_per_step for one in advices.values() if not isinstance(one, str)
    }
    completions = steps.pop() if len(steps) == 1 else None
    made = [] if completions is None else [f"progress at N = {completions:,}"]
    heads = [what, "reward", "G*", *made, "verdict"]
    rows = [_row(*item, completions) for item in advices.items()]
    align = (">" if what == "step" else "<") + ">" * (len(heads) - 2) + "<"
    refused = (f"{at}: {one}" for at, one in advices.items() if isinstance(one, str))
    return "\n".join([table(rows, heads, align), *(wrap(line, width) for line in refused)])


def advice_list(what: str, advices: Advices) -> str:
    """Write all advices as one JSON document, a list."""

    def values(advice: Advice | str) -> dict[str, Any]:
        return {"refused": advice} if isinstance(advice, str) else json_values(advice)

    return json.dumps([{what: at} | values(one) for at, one in advices.items()], indent=2)
