"""Finish a run: the shards of all prompts -> the files of its result. No model."""

from typing import Any, NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.pools import Pools
from mse_lab.policy.rival_laws import warn_of_rival
from mse_lab.results.analysis import Analysis, analyse_run
from mse_lab.results.checks import (
    Check,
    check_drawn_law,
    check_invariance,
    check_mean_score,
    check_rivals,
)
from mse_lab.results.diagnostics import Diagnostics, diagnose
from mse_lab.results.files import write_json
from mse_lab.results.shard import Shard, stack
from mse_lab.results.tables import describe_prompts
from mse_lab.results.warnings import warn_of_completions, warn_of_unmade
from mse_lab.run.environment import describe_environment, describe_threads
from mse_lab.run.prepare import Bench, Prepared
from mse_lab.run.resume import Outcome, read_shards
from mse_lab.scores import sketches


def _run_checks(run: Prepared, pools: Pools, shards: list[Shard]) -> list[Check]:
    dtype = run.probe.model.dtype
    gaps = [shard.law_gap for shard in shards if not np.isnan(shard.law_gap)]
    return [
        check_drawn_law(gaps, dtype),
        check_mean_score(pools),
        *([check_rivals(_rivals(shards))] if run.supplied else []),
        check_invariance(shards[0].invariance, dtype),
    ]


def _rivals(shards: list[Shard]) -> Floats:
    return np.stack([shard.rivals_R for shard in shards])


def _warn_of_supplied(run: Prepared, shards: list[Shard]) -> list[str]:
    if run.supplied is None:
        return []
    ratios_PR = _rivals(shards)
    rival = [] if check_rivals(ratios_PR).ok else [warn_of_rival(ratios_PR)]
    return run.supplied.warnings() + rival


class Conclusions(NamedTuple):
    """What follows from the shards of all prompts."""

    result: Analysis
    checks: list[Check]
    warnings: list[str]
    diagnostics: Diagnostics


def conclude(bench: Bench, shards: list[Shard]) -> Conclusions:
    """Analyse the shards of all prompts, and check them; write nothing."""
    policy, pools = bench.policy, stack(shards)
    described = describe_prompts(
        bench.prompts,
        [shard.mean_length for shard in shards],
        [shard.truncated for shard in shards],
    )
    result = analyse_run(bench.name, bench.probe, pools, described)
    checks = _run_checks(bench, pools, shards)
    convert = policy.tokenizer.convert_ids_to_tokens
    end_tokens = {token: str(convert(token)) for token in policy.end_tokens}
    diagnostics = diagnose(pools, shards, end_tokens)
    retokenised = bench.supplied is not None and not bench.supplied.form.tokens
    warnings = [
        *result.warnings,
        *warn_of_completions(diagnostics, retokenised=retokenised),
        *(warn_of_unmade(checks) if pools.has_cross_products else []),
        *_warn_of_supplied(bench, shards),
    ]
    return Conclusions(result, checks, warnings, diagnostics)


def _write_results(bench: Bench, shards: list[Shard]) -> Outcome:
    record = bench.record
    record.mark_incomplete()
    result, checks, warnings, diagnostics = conclude(bench, shards)
    record.write_completions(shard.lines for shard in shards)
    record.write_pools(result.pools)
    record.write_tables(result)
    write_json(record.path("diagnostics.json"), diagnostics.as_dict())
    record.write_checks(checks, warnings)
    return Outcome(checks, warnings, found=False, diagnostics=diagnostics)


def _describe(
    bench: Bench, shards: list[Shard], devices: list[str], peak_memory: int
) -> dict[str, Any]:
    """Describe where and how a run was made, for `environment.json`."""
    ranks, seconds = zip(*((one.process, one.seconds) for one in shards), strict=True)
    seconds_R = np.bincount(ranks, seconds, len(devices))
    return describe_environment(bench.root, bench.policy.device, float(seconds_R.max())) | {
        "device_model": "; ".join(dict.fromkeys(devices)),
        "processes": len(devices),
        "process_seconds": seconds_R.round(1).tolist(),
        "peak_memory_bytes": peak_memory,
        **describe_threads(shard.threads for shard in shards),
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


def finish(bench: Bench, devices: list[str], peak_memory: int) -> Outcome:
    """Write everything that follows from the shards, and remove them.

    Args:
        bench: The run.
        devices: Each process's device's model.
        peak_memory: Bytes that the largest process held at most.
    """
    shards, record = read_shards(bench), bench.record
    description = _describe(bench, shards, devices, peak_memory)
    write_json(record.path("environment.json"), description)
    outcome = _write_results(bench, shards)
    record.write_manifest()
    record.drop_shards()
    return outcome
