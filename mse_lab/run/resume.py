"""Resume: what of a run there is already, and which prompts are still to be measured."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from tqdm import tqdm

from mse_lab.errors import InputError
from mse_lab.estimators.groups import is_binary
from mse_lab.policy.fingerprint import identify_model
from mse_lab.results.checks import Check
from mse_lab.results.diagnostics import Diagnostics
from mse_lab.results.finished_run import mend
from mse_lab.results.shard import Shard
from mse_lab.run.one_prompt import Bench, measure_prompt
from mse_lab.run.prepare import Prepared
from mse_lab.run.processes import PATIENCE, wait_until


class Outcome(NamedTuple):
    """What became of a run.

    Attributes:
        checks: The built-in checks, failed or not.
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

    Args:
        run: The run.
        identity: Which checkpoint it is; by default what lies there now.

    Raises:
        InputError: It is another's, or damaged beyond mending.
    """
    record = run.record
    if identity is None:
        identity = identify_model(run.probe.model, run.root)
    record.refuse_other(run.probe, run.digest, identity)
    mended = mend(run.name, run.probe, run.prompts, record)
    if not record.is_complete():
        return None
    damage = record.damage()
    if damage:
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


def claim(run: Prepared, bench: Bench, *, fresh: bool) -> list[int]:
    """Take the folder; say which prompts are to be measured.

    Args:
        run: The run.
        bench: Its bench.
        fresh: Whether to drop what the folder holds of an earlier run.
    """
    record, identity = run.record, bench.policy.identity
    if fresh:
        record.clear()
    elif find_finished(run, identity):
        # It was not when this start began to load the model.
        raise InputError(f"{record.folder}: another start has finished it meanwhile")
    record.claim(run.probe, run.digest, identity)
    todo = [index for index in range(len(run.prompts)) if read_shard(run, index) is None]
    again = sum(record.shard(index).exists() for index in todo)
    if again:
        tqdm.write(
            f"{record.folder}: {again} prompts are measured again: what there is of them "
            "is broken or of another version",
            file=sys.stderr,
        )
    return todo


def measure_and_keep(run: Prepared, bench: Bench, index: int) -> Shard:
    """Measure a prompt and write its shard, from which a later start goes on."""
    shard = measure_prompt(bench, index, process=run.processes.rank)
    for estimator in run.estimators:
        if estimator.binary and not is_binary(shard.rewards_N):
            # Said at the first prompt, not after the last.
            raise InputError(
                f"estimators: {estimator.name} needs rewards 0 and 1, and prompt "
                f"{run.prompts[index].id} has others; remove it, or use another reward"
            )
    shard.save(run.record.shard(index))
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
