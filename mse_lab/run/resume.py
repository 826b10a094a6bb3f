"""Resume: what a folder holds of a run, and which prompts are still to be measured.

Each measured prompt is a file, written whole or not at all; a kill loses the prompt that
is being measured.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mse_lab.console import show_status
from mse_lab.errors import InputError, shorten
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.policy.fingerprint import identify_model
from mse_lab.results.checks import Check
from mse_lab.results.diagnostics import Diagnostics
from mse_lab.results.finished_run import repair
from mse_lab.results.shard import find_shard, load_shard, save_shard
from mse_lab.run.prepare import RunContext, RunSpec
from mse_lab.run.processes import await_files
from mse_lab.run.prompt import measure_prompt


class Outcome(NamedTuple):
    """What became of a run."""

    checks: list[Check]
    # What a reader should know before using the numbers, a sentence each.
    warnings: list[str]
    finished_before: bool  # Whether the run was finished before and left as it is.
    # What its completions are like; None if another version wrote them.
    diagnostics: Diagnostics | None
    repaired: Sequence[str] = ()  # Files that were lost and have been made again.
    # Which pools `interval.width` takes; empty if intervals are that narrow, or not new.
    wider: str = ""


def find_finished(
    spec: RunSpec, identity: Mapping[str, str] | None = None, *, fresh: bool = False
) -> Outcome | None:
    """Find a finished run, repaired where needed; refuse another configuration's folder.

    The checkpoint's identity is by default that of its present files. With `fresh` a
    finished run does not count.
    """
    spec.results.refuse_foreign()
    if fresh:
        return None
    results = spec.results
    identity = identity or identify_model(spec.probe.model, spec.root)
    results.refuse_other(spec.probe, spec.digest, {**identity, **spec.code})
    repaired = repair(spec.name, spec.probe, spec.prompts, results)
    if not results.is_complete():
        return None
    if damage := results.damage():
        if not results.finished_prompts():
            raise InputError(damage)
        results.mark_incomplete()
        return None
    results.drop_shards()
    written = results.read_checks()
    return Outcome(
        written.checks,
        written.warnings,
        finished_before=True,
        diagnostics=results.read("diagnostics.json", None),
        repaired=repaired,
    )


def read_shard(context: RunContext, index: int) -> PromptMeasurement | None:
    """Read a prompt's shard; None if it is not there, not intact, or not of this run."""
    path = context.spec.results.shard(index)
    return find_shard(PromptMeasurement, path, context.origin(index))


def begin_or_resume(context: RunContext, *, fresh: bool) -> list[int]:
    """Begin or resume a run in its folder; list the prompts still to be measured.

    With `fresh` what the folder holds of an earlier run is removed first.
    """
    spec, identity = context.spec, context.of_model
    results = spec.results
    if fresh:
        results.clear()
    elif find_finished(spec, identity):
        # The run was not finished when this start began to load the model.
        raise InputError(f"{results.path}: another start has finished it meanwhile")
    results.begin(spec.probe, spec.digest, context.identity)
    indices = range(len(spec.prompts))
    todo = [index for index in indices if read_shard(context, index) is None]
    if again := [index for index in todo if results.shard(index).exists()]:
        names = shorten(", ".join(results.shard(index).name for index in again))
        show_status()
        print(
            f"{results.path}: {len(again)} prompts are measured again: what there is of "
            f"them ({names} in shards/) is damaged, or of another run or version",
            file=sys.stderr,
        )
        for index in again:
            results.drop_shard(index)
    return todo


def measure_and_keep(context: RunContext, index: int) -> PromptMeasurement:
    """Measure a prompt and write its shard, from which a later start resumes."""
    spec, prompt = context.spec, measure_prompt(context.subject, index)
    provenance = replace(prompt.provenance, process=spec.processes.rank)
    prompt = replace(prompt, provenance=provenance)
    save_shard(prompt, spec.results.shard(index), context.origin(index))
    return prompt


def read_shards(context: RunContext) -> list[PromptMeasurement]:
    """Read the shards of all prompts, once this machine sees their files."""
    results, indices = context.spec.results, range(len(context.spec.prompts))
    paths = [results.shard(index) for index in indices]
    await_files(paths)
    return [
        load_shard(PromptMeasurement, paths[index], context.origin(index))
        for index in indices
    ]
