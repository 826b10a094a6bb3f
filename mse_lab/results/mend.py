"""Mend a finished run: what is lost of it and follows from its pools is made again.

No model is needed. What pools do not know of a prompt stands in `prompts.csv`; where that
is lost, in the prompts and in `completions.jsonl`.
"""

from collections.abc import Sequence

import pandas as pd

from mse_lab.probe.prompts import Prompt
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import analyse_run
from mse_lab.results.finished_run import Finished
from mse_lab.results.inventory import FROM_MODEL
from mse_lab.results.records import Record
from mse_lab.results.tables import describe_prompts


def mend(name: str, probe: Probe, prompts: Sequence[Prompt], record: Record) -> list[str]:
    """Make again what is damaged or missing and follows from the pools of a run.

    Returns:
        The files that are made again; none where something else is damaged, too.

    Raises:
        InputError: `completions.jsonl` is needed and missing, or of another run.
    """
    lost = record.lost()
    if not lost or not record.has("checks.json") or record.damage(FROM_MODEL):
        return []
    described = (
        _describe(probe, prompts, record.read_table("completions.jsonl"))
        if "prompts.csv" in lost
        else record.read_table("prompts.csv")
    )
    finished = Finished(name, probe, record.read_pools(), described)
    finished.see_of_one_run(record.folder)
    record.write_tables(analyse_run(*finished), lost)
    record.write_manifest()
    return lost


def _describe(
    probe: Probe, prompts: Sequence[Prompt], completions: pd.DataFrame
) -> pd.DataFrame:
    """Say what pools do not know of each prompt whose completions are all there."""
    groups = completions.groupby("prompt")[["length", "truncated"]]
    size, counts = probe.pool.reference + probe.pool.replicate, groups.size()
    known = [prompt for prompt in prompts if counts.get(prompt.id) == size]
    means = groups.mean().loc[[prompt.id for prompt in known]]
    return describe_prompts(known, means["length"].tolist(), means["truncated"].tolist())
