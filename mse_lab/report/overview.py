"""Overview: the runs side by side, before any detail."""

from collections.abc import Sequence

from mse_lab.answers.advice import Advice
from mse_lab.answers.claim import Claim
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.report.markup import Html, breakable, element, join, paragraph, side_by_side
from mse_lab.report.provenance import shown
from mse_lab.report.recommendation import best_size
from mse_lab.report.verdicts import count_verdicts
from mse_lab.report.wording import number

_INTRODUCTION = (
    "A language model is trained on the gradient of its mean reward, estimated from a "
    "group of sampled completions. This page measures how far such estimates are from "
    "the true gradient: for the estimators that people use, at every group size, with "
    "intervals, and against what the theory says."
)

_PLURALS = {"holds": "hold", "fails": "fail", "undecided": "undecided"}


def _facts(
    source: FinishedRun, claims: Sequence[Claim], advice: Advice | str
) -> dict[str, str]:
    pools, probe = source.pools, source.probe
    verdicts = count_verdicts(claims, source.name)
    told = ", ".join(f"{verdicts[verdict]} {word}" for verdict, word in _PLURALS.items())
    checks = [shown(source.held)]
    if source.warnings:
        checks.append(element("small", f"{len(source.warnings)} warnings"))
    by = {"MSE by": "exact law only, no replicates"} if source.law_only else {}
    return {
        "Model": breakable(probe.model.path),
        "Prompts": f"{pools.prompts}",
        "Accuracy": f"{pools.value_P.mean():.2f}",
        "Completions a prompt": f"{probe.pool.reference} + {probe.pool.replicate}",
        **by,
        "‖g‖² of the aggregate": number(pools.aggregate_norm2),
        "Best group size G*": best_size(advice),
        "Use groups of": "–" if isinstance(advice, str) else str(advice.recommended),
        "The paper's statements": told,
        "Built-in checks": join(*checks),
    }


def overview_section(
    sources: Sequence[FinishedRun], claims: Sequence[Claim], advices: Sequence[Advice | str]
) -> list[Html]:
    """Set the runs side by side."""
    columns = [
        _facts(source, claims, advice)
        for source, advice in zip(sources, advices, strict=True)
    ]
    names = [source.name for source in sources]
    return [paragraph(_INTRODUCTION), side_by_side("The runs", columns, names, merge=False)]
