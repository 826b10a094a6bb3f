"""Run a probe: configuration -> `results/<probe name>/`, resumed where it stopped."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.estimators.binary import is_binary
from mse_lab.mse.pools import Pools, stack
from mse_lab.policy.fingerprint import identify_model
from mse_lab.policy.other_laws import warn_of_rival
from mse_lab.policy.policy import Policy, encode_prompts, load_policy
from mse_lab.policy.supplied import Supplied, find_completions
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import load_reward, try_reward
from mse_lab.probe.schema import Probe, dump_probe
from mse_lab.results.analysis import analyse_run
from mse_lab.results.checks import (
    Check,
    check_drawn_law,
    check_invariance,
    check_mean_score,
    check_rivals,
)
from mse_lab.results.diagnostics import Diagnostics, diagnose
from mse_lab.results.files import write_arrays, write_json
from mse_lab.results.intact import read_arrays
from mse_lab.results.mend import mend
from mse_lab.results.records import Record
from mse_lab.results.tables import describe_prompts
from mse_lab.results.warnings import warn_of_completions, warn_of_unmade
from mse_lab.run.environment import describe_environment, device_model, peak_memory_bytes
from mse_lab.run.memory import plan_memory
from mse_lab.run.one_prompt import Bench, measure_prompt
from mse_lab.run.processes import ALONE, PATIENCE, Processes, wait_until
from mse_lab.run.progress import Tally, add_up, progress, tally_prompt
from mse_lab.scores import sketches as between

Shard = dict[str, NDArray[Any]]

# To be raised with every change of what a shard holds or means: shards of other versions
# are measured again.
SHARD_VERSION = 4


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


@dataclass(frozen=True)
class Run:
    """What one run is about.

    Attributes:
        name: The probe's name.
        probe: The configuration.
        prompts: The prompts.
        estimators: The estimators.
        record: The folder of the results.
        processes: Those that share the prompts.
        supplied: The completions that are read instead of drawn, if any.
    """

    name: str
    probe: Probe
    prompts: list[Prompt]
    estimators: list[Estimator]
    record: Record
    processes: Processes
    supplied: Supplied | None


def _digest(prompts: list[Prompt], supplied: Supplied | None) -> str:
    """Hash what the prompts, and completions that are read, are: on resuming the same?"""
    text = json.dumps([[prompt.text, dict(prompt.record)] for prompt in prompts])
    if supplied is not None:
        text += supplied.digest
    return hashlib.sha256(text.encode()).hexdigest()


def _is_current(path: Path) -> bool:
    """Whether a shard is there, intact to its last array, and of this version."""
    with suppress(InputError):
        return np.array_equal(read_arrays(path).get("version", 0), SHARD_VERSION)
    return False


def _find_finished(run: Run, digest: str, identity: Mapping[str, str]) -> Outcome | None:
    """See that the folder is not another configuration's, and whether all is done."""
    record = run.record
    record.refuse_other(run.probe, digest, identity)
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


def _claim(run: Run, digest: str, identity: Mapping[str, str], *, fresh: bool) -> list[int]:
    """Take the folder; say which prompts are to be measured."""
    record = run.record
    if fresh:
        record.clear()
    elif _find_finished(run, digest, identity):
        # It was not when this start began to load the model.
        raise InputError(f"{record.folder}: another start has finished it meanwhile")
    record.claim(run.probe, digest, identity)
    count = len(run.prompts)
    todo = [index for index in range(count) if not _is_current(record.shard(index))]
    again = sum(record.shard(index).exists() for index in todo)
    if again:
        tqdm.write(
            f"{record.folder}: {again} prompts are measured again: what there is of them "
            "is broken or of another version",
            file=sys.stderr,
        )
    return todo


def _mark(processes: Processes, bench: Bench) -> Shard:
    """Say in a shard how it came about, whichever start of the run reads it."""
    return {
        "process": np.array(processes.rank),
        "version": np.array(SHARD_VERSION),
        "retreated": np.array(bench.memory.describe()["retreated"]),
    }


def _measure_prompts(
    run: Run, bench: Bench, tokens: list[list[int]], todo: list[int]
) -> None:
    """Measure this process's share of the prompts; wait until all are measured."""
    size = run.probe.pool.reference + run.probe.pool.replicate
    done, processes, tally = len(run.prompts) - len(todo), run.processes, Tally()
    hidden = not processes.first
    with progress(run.name, len(run.prompts), done, size, hidden=hidden) as show:
        for index in processes.deal(todo):
            prompt = run.prompts[index]
            arrays = measure_prompt(bench, prompt, tokens[index], first=index == 0)
            _refuse_graded_rewards(run.estimators, arrays["rewards_N"], prompt)
            marks = _mark(processes, bench)
            # Vectors of random numbers, read once: compressing them gains nothing.
            shard = {**arrays, **marks}
            write_arrays(run.record.shard(index), shard, compressed=False)
            tally = add_up([tally, tally_prompt(arrays)])
            show(processes.total(tally))
        processes.meet(lambda: show(processes.total(tally)))
        show(processes.total(tally))


def _refuse_graded_rewards(
    estimators: list[Estimator], rewards_N: NDArray[np.float64], prompt: Prompt
) -> None:
    """Say at the first prompt, not after the last, that an estimator does not apply."""
    for estimator in estimators:
        if estimator.binary and not is_binary(rewards_N):
            raise InputError(
                f"estimators: {estimator.name} needs rewards 0 and 1, and prompt "
                f"{prompt.id} has others; remove it, or use another reward"
            )


def _run_checks(probe: Probe, pools: Pools, shards: list[Shard]) -> list[Check]:
    dtype = probe.model.dtype
    gaps = [float(shard["law_gap"]) for shard in shards if "law_gap" in shard]
    return [
        check_drawn_law(gaps, dtype),
        check_mean_score(pools),
        *([check_rivals(_rivals(shards))] if probe.completions else []),
        check_invariance(float(shards[0]["invariance"]), dtype),
    ]


def _rivals(shards: list[Shard]) -> NDArray[np.float64]:
    return np.stack([shard["rivals_R"] for shard in shards])


def _warn_of_supplied(supplied: Supplied | None, shards: list[Shard]) -> list[str]:
    if supplied is None:
        return []
    ratios_PR = _rivals(shards)
    rival = [] if check_rivals(ratios_PR).ok else [warn_of_rival(ratios_PR)]
    return supplied.warnings() + rival


def _read_shards(run: Run) -> list[Shard]:
    paths = [run.record.shard(index) for index in range(len(run.prompts))]
    if not wait_until(lambda: all(path.exists() for path in paths), PATIENCE):
        missing = next(path for path in paths if not path.exists())
        raise InputError(f"{missing}: is gone, or cannot be seen from here; start again")
    remedy = "start again: its prompt is measured again"
    return [read_arrays(path, remedy) for path in paths]


def _write_results(run: Run, shards: list[Shard], end_tokens: dict[int, str]) -> Outcome:
    """Turn the shards into tables: NumPy on what they hold, no model."""
    name, probe, record = run.name, run.probe, run.record
    record.mark_incomplete()
    pools = stack(shards)
    lengths, truncated = (
        [float(shard[key]) for shard in shards] for key in ("mean_length", "truncated")
    )
    described = describe_prompts(run.prompts, lengths, truncated)
    result = analyse_run(name, probe, pools, described)
    outcomes = _run_checks(probe, pools, shards)
    record.write_completions(shard["lines"].tobytes().decode() for shard in shards)
    record.write_pools(pools)
    record.write_tables(result)
    diagnostics = diagnose(pools, shards, end_tokens)
    write_json(record.path("diagnostics.json"), diagnostics.as_dict())
    warnings = result.warnings + warn_of_completions(diagnostics)
    if pools.has_cross_products:
        warnings += warn_of_unmade(outcomes)
    warnings += _warn_of_supplied(run.supplied, shards)
    record.write_checks(outcomes, warnings)
    return Outcome(outcomes, warnings, found=False, diagnostics=diagnostics)


def _encode(policy: Policy, probe: Probe, prompts: list[Prompt]) -> list[list[int]]:
    chat, new_tokens = probe.prompts.chat, probe.sampling.max_new_tokens
    return encode_prompts(policy, prompts, chat=chat, new_tokens=new_tokens)


class Account(NamedTuple):
    """What a process adds to `environment.json`.

    Attributes:
        device: Its device's model.
        peak_memory_bytes: The most it held in memory.
    """

    device: str
    peak_memory_bytes: int


def _describe(
    root: Path, bench: Bench, shards: list[Shard], accounts: list[Account]
) -> dict[str, Any]:
    """Describe where and how a run was made, for `environment.json`."""
    ranks = [int(shard["process"]) for shard in shards]
    seconds = np.bincount(
        ranks, [float(shard["seconds"]) for shard in shards], len(accounts)
    )
    return describe_environment(root, bench.policy.device, float(seconds.max())) | {
        "device_model": "; ".join(dict.fromkeys(one.device for one in accounts)),
        "processes": len(accounts),
        "process_seconds": seconds.round(1).tolist(),
        "peak_memory_bytes": max(one.peak_memory_bytes for one in accounts),
        "prompts": len(shards),
        "parameters": bench.policy.size,
        "checkpoint": dict(bench.policy.identity),
        "between_prompts": between.describe(bench.keep_vectors),
        "completions_sha256": bench.supplied.digest if bench.supplied else None,
        "memory": {
            **bench.memory.describe(),
            "retreated": any(bool(shard["retreated"]) for shard in shards),
        },
    }


def _finish(run: Run, root: Path, bench: Bench, accounts: list[Account]) -> Outcome:
    """Write everything."""
    shards, policy = _read_shards(run), bench.policy
    description = _describe(root, bench, shards, accounts)
    write_json(run.record.path("environment.json"), description)
    end_tokens = {
        token: str(policy.tokenizer.convert_ids_to_tokens(token))
        for token in policy.end_tokens
    }
    outcome = _write_results(run, shards, end_tokens)
    run.record.write_manifest()
    run.record.drop_shards()
    return outcome


def _refuse_unequal(processes: Processes, probe: Probe, digest: str) -> None:
    """See that all processes, maybe on different machines, are about the same thing."""
    mine = (dump_probe(probe), digest)
    if processes.agree(lambda: mine) != mine:
        raise InputError(
            "this process's probe, prompts or completions are not those of process 0; "
            "give all machines the same files"
        )


def run_probe(
    name: str,
    probe: Probe,
    folder: Path,
    root: Path,
    *,
    fresh: bool,
    processes: Processes = ALONE,
) -> Outcome:
    """Measure one model configuration, or go on where an earlier start stopped.

    Args:
        name: The probe's name, for tables and the progress bar.
        probe: The configuration.
        folder: Where the results go.
        root: The project's folder, which relative paths may start from.
        fresh: Whether to drop what the folder holds of an earlier run.
        processes: Those that share the prompts; each of them calls this.

    Returns:
        The built-in checks, failed or not, and what else is to be said.

    Raises:
        InputError: Something of the user's is at fault; nothing is lost.
    """
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward)
    try_reward(reward, prompts)
    supplied = find_completions(probe, prompts, root) if probe.completions else None
    record, digest = Record(folder), _digest(prompts, supplied)
    _refuse_unequal(processes, probe, digest)
    # What was measured since the command was given is not dropped by a start after a loss.
    fresh = fresh and not processes.restarted
    run = Run(name, probe, prompts, estimators, record, processes, supplied)
    if not fresh:
        there = identify_model(probe.model, root)
        found = processes.agree(lambda: _find_finished(run, digest, there))
        if found:
            return found
    policy = load_policy(processes.place(probe), root)
    tokens = _encode(policy, probe, prompts)
    keep_vectors = between.vectors_fit(len(prompts), policy.size)
    memory = plan_memory(probe, policy, tokens)
    bench = Bench(probe, policy, reward, keep_vectors, memory, supplied)
    if supplied is not None:
        processes.agree(lambda: supplied.validate(policy, probe))
    # Only now that everything is known to be usable is anything of an old run dropped.
    processes.meet()
    with processes.hold(folder):
        todo = processes.agree(lambda: _claim(run, digest, policy.identity, fresh=fresh))
        _measure_prompts(run, bench, tokens, todo)
        account = Account(device_model(policy.device), peak_memory_bytes())
        accounts = processes.gather(account)
        return processes.agree(lambda: _finish(run, root, bench, accounts))
