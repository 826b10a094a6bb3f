"""Resume: what of a run there is already, and which prompts are still to be measured."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from mse_lab.console import show_status
from mse_lab.errors import InputError
from mse_lab.estimators.groups import is_binary
from mse_lab.policy.fingerprint import identify_model
from mse_lab.results.checks import Check
from mse_lab.results.diagnostics import Diagnostics
from mse_lab.results.finished_run import mend
from mse_lab.results.shard import Shard
from mse_lab.run.one_prompt import measure_prompt
from mse_lab.run.prepare import Bench, Prepared
from mse_lab.run.processes import PATIENCE, wait_until


class Outcome(NamedTuple):
    """What became of a run.

    Attributes:
        warnings: What a reader should know before using the numbers, a sentence each.
        found: Whether the run was finished before and left as it is.
        diagnostics: What its completions are like; None if an earlier version made it.
        mended: Files that were lost and are made again.
    """

    checks: list[Check]
    warnings: list[str]
    found: bool
    diagnostics: Diagnostics | None
    mended: Sequence[str] = ()


def find_finished(
    run: Prepared, identity: Mapping[str, str] | None = None
) -> Outcome | None:
    """See that the folder is not another configuration's, and whether all is done.

    The checkpoint is by default what lies there now.

    Raises:
        InputError: It is another's, or damaged beyond mending.
    """
    record, identity = run.record, identity or identify_model(run.probe.model, run.root)
    record.refuse_other(run.probe, run.digest, identity)
    mended = mend(run.name, run.probe, run.prompts, record)
    if not record.is_complete():
        return None
    if damage := record.damage():
        if not record.finished_prompts():
            raise InputError(damage)
        record.mark_incomplete()
        return None
    record.drop_shards()
    found, diagnostics = record.read_checks(), record.read_diagnostics()
    return Outcome(found.checks, found.warnings, True, diagnostics, mended)


def read_shard(run: Prepared, index: int) -> Shard | None:
    """Read a prompt's shard; None if it is not there, not intact, or of another version."""
    with suppress(InputError):
        return Shard.load(run.record.shard(index))
    return None


def claim(bench: Bench, *, fresh: bool) -> list[int]:
    """Take the folder, emptied if `fresh`; say which prompts are to be measured."""
    record, identity = bench.record, bench.policy.identity
    if fresh:
        record.clear()
    elif find_finished(bench, identity):
        # It was not when this start began to load the model.
        raise InputError(f"{record.folder}: another start has finished it meanwhile")
    record.claim(bench.probe, bench.digest, identity)
    places = range(len(bench.prompts))
    todo = [index for index in places if read_shard(bench, index) is None]
    if again := sum(record.shard(index).exists() for index in todo):
        show_status()
        print(
            f"{record.folder}: {again} prompts are measured again: what there is of them "
            "is broken or of another version",
            file=sys.stderr,
        )
    return todo


def measure_one(bench: Bench, index: int) -> Shard:
    """Measure a prompt; refuse rewards that an estimator cannot be measured with."""
    shard = measure_prompt(bench, index)
    for estimator in bench.estimators:
        if estimator.binary and not is_binary(shard.rewards_N):
            # Said at the first prompt, not after the last.
            raise InputError(
                f"estimators: {estimator.name} needs rewards 0 and 1, and prompt "
                f"{bench.prompts[index].id} has others; remove it, or use another reward"
            )
    return shard


def measure_and_keep(bench: Bench, index: int) -> Shard:
    """Measure a prompt and write its shard, from which a later start goes on."""
    shard = measure_one(bench, index)
    shard.save(bench.record.shard(index))
    return shard


def read_shards(run: Prepared) -> list[Shard]:
    """Read the shards of all prompts, once they can be seen from here.

    Raises:
        InputError: One is gone or damaged.
    """
    paths = [run.record.shard(index) for index in range(len(run.prompts))]
    if not wait_until(lambda: all(path.exists() for path in paths), PATIENCE):
        missing = next(path for path in paths if not path.exists())
        raise InputError(f"{missing}: is gone, or cannot be seen from here; start again")
    return [Shard.load(path) for path in paths]
