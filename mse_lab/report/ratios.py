"""Ratios: one estimator's MSE over another's, paired, at every group size."""

from collections.abc import Sequence

from mse_lab.answers.source import Source
from mse_lab.mse.curves import paired_ratio
from mse_lab.mse.replicates import Key
from mse_lab.report.markup import Html, article, element, join, paragraph, table
from mse_lab.report.wording import NONE, cell

PAIRS = (
    ("grpo", "oracle", "GRPO-type / oracle"),
    ("vanilla", "oracle", "Vanilla / oracle"),
    ("best-constant", "oracle", "Best constant / oracle"),
    ("grpo", "vanilla", "GRPO-type / vanilla"),
)

_INTRODUCTION = (
    "How much larger one MSE is than another. Both see the same groups, "
    "so that much of the noise cancels and the intervals are far "
    "narrower than those of Figure 4. In small print what the exact law makes of the "
    "run's moments. A ratio above one means that the first needs that many times the "
    "completions for the same MSE at this group size. The best constant takes for each "
    "prompt the baseline b* that makes the MSE least, learnt from other completions."
)


def _cell(source: Source, pair: tuple[str, str], size: int) -> Html:
    (top, top_law), (bottom, bottom_law) = (
        source.compared[Key(name, size)] for name in pair
    )
    measured = paired_ratio(top, bottom, source.level)
    law = paired_ratio(top_law, bottom_law, source.level)
    if source.law_only and law is not None:
        return cell(law, "law ")
    if measured is None:
        return join(NONE)
    if law is None:
        return cell(measured)
    return join(cell(measured), element("span", cell(law, "law "), class_="law"))


def _one_run(source: Source) -> Html:
    rows = [
        [str(size), *(_cell(source, (top, bottom), size) for top, bottom, _ in PAIRS)]
        for size in source.group_sizes
    ]
    head = ["G", *(label for _, _, label in PAIRS)]
    untested = "Norms only: what stands here is the exact law's, for want of replicates."
    return article(
        source.name,
        *([paragraph(untested, class_="note")] if source.law_only else []),
        table(f"Paired ratios of MSEs, {source.name}", head, rows),
        key=f"ratios-{source.key}",
    )


def ratios_section(sources: Sequence[Source]) -> list[Html]:
    """Show the paired ratios of every run."""
    return [paragraph(_INTRODUCTION), *(_one_run(source) for source in sources)]
