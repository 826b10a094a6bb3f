"""Finish a run: the shards of all prompts -> the files of its result. No model."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.pools import Pools
from mse_lab.policy.other_laws import warn_of_rival
from mse_lab.policy.policy import Policy
from mse_lab.policy.supplied import Supplied
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import analyse_run
from mse_lab.results.checks import (
    Check,
    check_drawn_law,
    check_invariance,
    check_mean_score,
    check_rivals,
)
from mse_lab.results.diagnostics import diagnose
from mse_lab.results.files import write_json
from mse_lab.results.shard import Shard, stack
from mse_lab.results.tables import describe_prompts
from mse_lab.results.warnings import warn_of_completions, warn_of_unmade
from mse_lab.run.environment import describe_environment
from mse_lab.run.one_prompt import Bench
from mse_lab.run.prepare import Prepared
from mse_lab.run.resume import Outcome, read_shards
from mse_lab.scores import sketches


class Account(NamedTuple):
    """What a process adds to `environment.json`.

    Attributes:
        device: Its device's model.
        peak_memory_bytes: The most it held in memory.
    """

    device: str
    peak_memory_bytes: int


def _run_checks(probe: Probe, pools: Pools, shards: list[Shard]) -> list[Check]:
    dtype = probe.model.dtype
    gaps = [shard.law_gap for shard in shards if not np.isnan(shard.law_gap)]
    return [
        check_drawn_law(gaps, dtype),
        check_mean_score(pools),
        *([check_rivals(_rivals(shards))] if probe.completions else []),
        check_invariance(shards[0].invariance, dtype),
    ]


def _rivals(shards: list[Shard]) -> Floats:
    return np.stack([shard.rivals_R for shard in shards])


def _warn_of_supplied(supplied: Supplied | None, shards: list[Shard]) -> list[str]:
    if supplied is None:
        return []
    ratios_PR = _rivals(shards)
    rival = [] if check_rivals(ratios_PR).ok else [warn_of_rival(ratios_PR)]
    return supplied.warnings() + rival


def _end_tokens(policy: Policy) -> dict[int, str]:
    convert = policy.tokenizer.convert_ids_to_tokens
    return {token: str(convert(token)) for token in policy.end_tokens}


def _write_results(
    run: Prepared, shards: list[Shard], end_tokens: dict[int, str]
) -> Outcome:
    probe, record, pools = run.probe, run.record, stack(shards)
    record.mark_incomplete()
    described = describe_prompts(
        run.prompts,
        [shard.mean_length for shard in shards],
        [shard.truncated for shard in shards],
    )
    result = analyse_run(run.name, probe, pools, described)
    checks = _run_checks(probe, pools, shards)
    diagnostics = diagnose(pools, shards, end_tokens)
    record.write_completions(shard.lines for shard in shards)
    record.write_pools(pools)
    record.write_tables(result)
    write_json(record.path("diagnostics.json"), diagnostics.as_dict())
    warnings = [
        *result.warnings,
        *warn_of_completions(diagnostics),
        *(warn_of_unmade(checks) if pools.has_cross_products else []),
        *_warn_of_supplied(run.supplied, shards),
    ]
    record.write_checks(checks, warnings)
    return Outcome(checks, warnings, found=False, diagnostics=diagnostics)


def _describe(
    root: Path, bench: Bench, shards: list[Shard], accounts: list[Account]
) -> dict[str, Any]:
    """Describe where and how a run was made, for `environment.json`."""
    ranks, seconds = zip(*((one.process, one.seconds) for one in shards), strict=True)
    seconds_R = np.bincount(ranks, seconds, len(accounts))
    return describe_environment(root, bench.policy.device, float(seconds_R.max())) | {
        "device_model": "; ".join(dict.fromkeys(one.device for one in accounts)),
        "processes": len(accounts),
        "process_seconds": seconds_R.round(1).tolist(),
        "peak_memory_bytes": max(one.peak_memory_bytes for one in accounts),
        "prompts": len(shards),
        "parameters": bench.policy.size,
        "checkpoint": dict(bench.policy.identity),
        "between_prompts": sketches.describe(bench.keep_vectors),
        "completions_sha256": bench.supplied.digest if bench.supplied else None,
        "memory": {
            **bench.memory.describe(),
            "retreated": any(shard.retreated for shard in shards),
        },
    }


def finish(run: Prepared, bench: Bench, accounts: list[Account]) -> Outcome:
    """Write everything that follows from the shards, and remove them.

    Args:
        run: The run.
        bench: Its bench.
        accounts: What each process adds.
    """
    shards, record = read_shards(run), run.record
    description = _describe(run.root, bench, shards, accounts)
    write_json(record.path("environment.json"), description)
    outcome = _write_results(run, shards, _end_tokens(bench.policy))
    record.write_manifest()
    record.drop_shards()
    return outcome
