"""Run a probe: configuration -> `results/<probe name>/`, resumed where it stopped."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from mse_lab import between, tables
from mse_lab.binary_laws import is_binary
from mse_lab.checks import Check, check_drawn_law, check_invariance, check_mean_score
from mse_lab.config import InputError, Probe
from mse_lab.curves import Curves, law_curves, measure_curves, warn_of_disagreement
from mse_lab.environment import describe_environment
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.intervals import draw_resamples
from mse_lab.measure import Bench, measure_prompt
from mse_lab.policy import Policy, encode_prompt, load_policy
from mse_lab.pools import Pools, stack
from mse_lab.prompts import Prompt, load_prompts
from mse_lab.records import Record, read_arrays, write_arrays, write_json, write_table
from mse_lab.replicates import measure_errors
from mse_lab.rewards import load_reward
from mse_lab.streams import stream

Shard = dict[str, NDArray[Any]]


class Outcome(NamedTuple):
    """What became of a run.

    Attributes:
        checks: The built-in checks, failed or not.
        warnings: What a reader should know before using the numbers, a sentence each.
        found: Whether the run was finished before and left as it is.
    """

    checks: list[Check]
    warnings: list[str]
    found: bool


def _digest(prompts: list[Prompt]) -> str:
    """Hash what the prompts are, to see on resuming whether they have changed."""
    text = json.dumps([[prompt.text, dict(prompt.record)] for prompt in prompts])
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _progress(name: str, prompts: int, done: int, size: int) -> Iterator[tqdm]:
    """Show prompts done, completions a second and the time left."""
    with tqdm(
        total=prompts * size,
        initial=done * size,
        desc=f"{name}: sampling and scoring",
        unit=" completions",
        postfix=f"prompts {done}/{prompts}",
        dynamic_ncols=True,
    ) as bar:
        yield bar


def _measure_prompts(
    name: str,
    bench: Bench,
    prompts: list[Prompt],
    tokens: list[list[int]],
    estimators: list[Estimator],
    record: Record,
) -> None:
    """Measure every prompt that has no shard yet."""
    todo = [index for index in range(len(prompts)) if not record.shard(index).exists()]
    size = bench.probe.pool.reference + bench.probe.pool.replicate
    done = len(prompts) - len(todo)
    with _progress(name, len(prompts), done, size) as bar:
        for index in todo:
            arrays = measure_prompt(bench, prompts[index], tokens[index], first=index == 0)
            _refuse_graded_rewards(estimators, arrays["rewards_N"], prompts[index])
            write_arrays(record.shard(index), arrays)
            done += 1
            bar.set_postfix_str(f"prompts {done}/{len(prompts)}", refresh=False)
            bar.update(size)


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
    return [
        check_drawn_law([float(shard["law_gap"]) for shard in shards], dtype),
        check_mean_score(pools),
        check_invariance(float(shards[0]["invariance"]), dtype),
    ]


def _write_results(
    name: str,
    probe: Probe,
    prompts: list[Prompt],
    estimators: list[Estimator],
    shards: list[Shard],
    record: Record,
) -> Outcome:
    """Turn the shards into tables: NumPy on what they hold, no model."""
    record.mark_incomplete()
    pools = stack(shards)
    errors = measure_errors(pools, estimators, probe.group_sizes)
    resamples = draw_resamples(
        pools, probe.interval.resamples, stream(probe.seed, "bootstrap")
    )
    outcomes = _run_checks(probe, pools, shards)
    lengths, truncated = (
        np.array([float(shard[column]) for shard in shards])
        for column in ("mean_length", "truncated")
    )
    record.write_completions(shard["lines"].tobytes().decode() for shard in shards)
    record.write_errors(errors)
    record.write_pools(pools)
    level, curves = probe.interval.level, Curves(pools, resamples)
    found = measure_curves(curves, estimators, errors)
    laws = list(law_curves(curves, estimators, probe.group_sizes))
    for table_name, table in {
        "mse.csv": tables.mse_table(name, pools, errors, found, level),
        "laws.csv": tables.laws_table(name, laws, level),
        "prompts.csv": tables.prompts_table(prompts, pools, lengths, truncated),
        "by_prompt.csv": tables.by_prompt_table(prompts, curves, estimators, errors),
    }.items():
        write_table(record.path(table_name), table)
    warnings = warn_of_disagreement(pools, found)
    record.write_checks(outcomes, warnings)
    return Outcome(outcomes, warnings, found=False)


def _encode(policy: Policy, probe: Probe, prompts: list[Prompt]) -> list[list[int]]:
    chat, new_tokens = probe.prompts.chat, probe.sampling.max_new_tokens
    return [
        encode_prompt(policy, prompt, chat=chat, new_tokens=new_tokens)
        for prompt in prompts
    ]


def _describe(root: Path, bench: Bench, shards: list[Shard]) -> dict[str, Any]:
    """Describe where and how a run was made, for `environment.json`."""
    seconds = sum(float(shard["seconds"]) for shard in shards)
    return describe_environment(root, bench.policy.device, seconds) | {
        "prompts": len(shards),
        "parameters": bench.policy.size,
        "between_prompts": between.describe(bench.keep_vectors),
    }


def run_probe(name: str, probe: Probe, folder: Path, root: Path, *, fresh: bool) -> Outcome:
    """Measure one model configuration, or go on where an earlier start stopped.

    Args:
        name: The probe's name, for tables and the progress bar.
        probe: The configuration.
        folder: Where the results go.
        root: The project's folder, which relative paths may start from.
        fresh: Whether to drop what the folder holds of an earlier run.

    Returns:
        The built-in checks, failed or not.

    Raises:
        InputError: Something of the user's is at fault; nothing is lost.
    """
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward)
    record, digest = Record(folder), _digest(prompts)
    if not fresh:
        record.refuse_other(probe, digest)
        if record.is_complete():
            record.drop_shards()
            return Outcome(record.read_checks(), record.read_warnings(), found=True)
    policy = load_policy(probe, root)
    tokens = _encode(policy, probe, prompts)
    # Only now that everything is known to be usable is anything of an old run dropped.
    if fresh:
        record.clear()
    record.claim(probe, digest)
    keep_vectors = between.vectors_fit(len(prompts), policy.size)
    bench = Bench(probe, policy, reward, keep_vectors)
    _measure_prompts(name, bench, prompts, tokens, estimators, record)
    shards = [read_arrays(record.shard(index)) for index in range(len(prompts))]
    write_json(record.path("environment.json"), _describe(root, bench, shards))
    outcome = _write_results(name, probe, prompts, estimators, shards, record)
    record.drop_shards()
    return outcome
