"""Plan a probe: configuration -> what its run will take, nothing written."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators
from mse_lab.mse.pools import Pools
from mse_lab.policy.policy import encode_prompts, load_policy
from mse_lab.policy.supplied import find_completions
from mse_lab.probe.probe_files import flatten, parse_probe
from mse_lab.probe.prompts import Prompt, load_prompts
from mse_lab.probe.rewards import load_reward
from mse_lab.probe.schema import Probe
from mse_lab.probe.streams import stream
from mse_lab.results.records import Record
from mse_lab.results.shard import stack
from mse_lab.run.memory import Memory, plan_memory, scoring_bytes
from mse_lab.run.one_prompt import Bench
from mse_lab.run.plan_costs import Cost, learn_rates, mean_costs, run_costs, spread
from mse_lab.run.plan_finish import estimate_disk, tables_seconds
from mse_lab.run.plan_remarks import (
    heading,
    say_disk,
    say_memory,
    say_repeats,
    say_state,
    say_trial,
    warn_of_widths,
)
from mse_lab.run.plan_trial import Trial, run_trial
from mse_lab.run.plan_watch import KEPT, PASSES, PRODUCTS, REFERENCE, REST, RIVALS
from mse_lab.run.plan_widths import expect_widths
from mse_lab.run.plan_words import Plan, Row
from mse_lab.scores import sketches as between

# Keys that change how much is measured, and not what.
AMOUNTS = (
    "estimators",
    "group_sizes",
    "interval.",
    "model.batch",
    "model.memory",
    "pool.",
    "prompts.limit",
    "seed",
)


@dataclass(frozen=True)
class Loaded:
    """What is about to be measured.

    Attributes:
        bench: What stays the same from prompt to prompt.
        prompts: The prompts.
        tokens: Their token ids.
        estimators: The estimators.
        seconds: What loading took.
    """

    bench: Bench
    prompts: list[Prompt]
    tokens: list[list[int]]
    estimators: list[Estimator]
    seconds: float

    @property
    def probe(self) -> Probe:
        """The configuration."""
        return self.bench.probe

    @property
    def mean_prompt(self) -> float:
        """Tokens of a prompt on average."""
        return float(np.mean([len(one) for one in self.tokens]))


def load(probe: Probe, root: Path) -> Loaded:
    """Load everything as a run does, with its errors."""
    prompts = load_prompts(probe.prompts, root)
    estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
    reward = load_reward(probe.reward)
    supplied = find_completions(probe, prompts, root) if probe.completions else None
    began = time.perf_counter()
    policy = load_policy(probe, root)
    seconds = time.perf_counter() - began
    chat, new_tokens = probe.prompts.chat, probe.sampling.max_new_tokens
    tokens = encode_prompts(policy, prompts, chat=chat, new_tokens=new_tokens)
    keep_vectors = between.vectors_fit(len(prompts), policy.size)
    memory = plan_memory(probe, policy, tokens)
    if supplied is not None:
        supplied.validate(policy, probe)
    bench = Bench(probe, policy, reward, keep_vectors, memory, supplied)
    return Loaded(bench, prompts, tokens, estimators, seconds)


def _order(loaded: Loaded) -> list[int]:
    """Prompts of the trial: first one of average length, then any."""
    lengths = np.array([len(one) for one in loaded.tokens])
    first = int(np.argmin(np.abs(lengths - loaded.mean_prompt)))
    shuffled = stream(loaded.probe.seed, "plan").permutation(len(lengths))
    return [first, *(int(index) for index in shuffled if index != first)]


def _memory_of(memory: Memory) -> dict[str, int]:
    """Bytes of each stage's passes, the weights included."""
    one, how = memory.footprint, memory.scoring.current
    drawing = one.weights + memory.drawing.current * one.drawing
    scoring = one.weights + one.gradient + scoring_bytes(one, how)
    return {
        "draw reference": drawing,
        "draw replicate": drawing,
        REFERENCE: one.weights
        + 3 * one.gradient
        + memory.reference.current * one.reference,
        PASSES: scoring,
        PRODUCTS: scoring,
    }


def _labels(loaded: Loaded) -> dict[str, str]:
    """Name the rows, in their order."""
    draw = "draw" if loaded.bench.supplied is None else "read"
    kept = "vectors" if loaded.bench.keep_vectors else "sketches"
    return {
        "draw reference": f"{draw} the reference pool",
        REFERENCE: "reference gradients",
        "draw replicate": f"{draw} the replicate pool",
        PASSES: "score: forward and backward",
        PRODUCTS: "score: Gram products",
        RIVALS: "examine supplied completions",
        REST: "texts, rewards, records",
        KEPT: f"between prompts: {kept} kept",
    }


def _rows(loaded: Loaded, costs: dict[str, Cost], tables: float) -> list[Row]:
    memory, count = _memory_of(loaded.bench.memory), len(loaded.prompts)
    weights = loaded.bench.memory.footprint.weights
    rows = [Row("load the model", 0, 0, 0, weights, loaded.seconds)]
    for stage, label in _labels(loaded).items():
        if stage == RIVALS and loaded.bench.supplied is None:
            continue
        cost = costs[stage].times(count)
        tokens = cost.work.prompt_tokens + cost.work.tokens
        rows.append(
            Row(
                stage=label,
                completions=cost.work.completions,
                tokens=tokens if cost.operations else 0,
                operations=cost.operations,
                memory=memory.get(stage),
                seconds=cost.seconds,
            )
        )
    return [*rows, Row("tables and intervals", 0, 0, 0, None, tables)]


def _same_measurement(record: Record, probe: Probe) -> bool:
    """Whether a folder's configuration is this one, but for how much is measured."""
    with suppress(InputError):
        there = parse_probe(record.configuration(), str(record.folder))
        pairs = (flatten(one.model_dump(mode="json")) for one in (there, probe))
        kept = [
            {key: value for key, value in one.items() if not key.startswith(AMOUNTS)}
            for one in pairs
        ]
        return kept[0] == kept[1]
    return False


def _pools(loaded: Loaded, trial: Trial, record: Record) -> tuple[Pools, str]:
    """Find the pools that tell the intervals' widths: a finished run's, or the trial's."""
    if record.is_complete() and _same_measurement(record, loaded.probe):
        with suppress(InputError):
            pools = record.read_pools()
            return pools, f"the finished run's {pools.prompts} prompts"
    pools = stack([one.arrays for one in trial.largest])
    prompts = f"{pools.prompts} prompt{'s'[: pools.prompts > 1]}"
    return pools, f"the trial's scores of {prompts}, {pools.largest_group} each"


def plan_probe(name: str, probe: Probe, folder: Path, root: Path) -> Plan:
    """Say what a run of a probe will take; nothing is written.

    Args:
        name: The probe's name.
        probe: The configuration.
        folder: Where its results would go.
        root: The project's folder, which relative paths may start from.

    Returns:
        The plan.

    Raises:
        InputError: As the run would, where something of the user's is at fault.
    """
    loaded, record = load(probe, root), Record(folder)
    trial = run_trial(loaded.bench, loaded.prompts, loaded.tokens, _order(loaded))
    policy, memory, count = loaded.bench.policy, loaded.bench.memory, len(loaded.prompts)
    rates = learn_rates(trial, memory)
    rng, longest = stream(probe.seed, "plan", "lengths"), probe.sampling.max_new_tokens
    prompt_tokens = [len(one) for one in loaded.tokens]
    samples = [one.sample(longest) for one in trial.largest]
    costs = [run_costs(rates, probe, prompt_tokens, one, rng) for one in samples]
    full = [run_costs(rates, probe, prompt_tokens, one.all_longest, rng) for one in samples]
    tables = tables_seconds(trial, loaded.prompts, probe)
    rows = _rows(loaded, mean_costs(costs), tables)
    pools, source = _pools(loaded, trial, record)
    replicates = memory.scoring.current.block >= probe.largest_group
    widths = expect_widths(pools, probe, count, replicates=replicates)
    at_most = sum(row.seconds for row in _rows(loaded, mean_costs(full), tables))
    return Plan(
        probe=name,
        heading=heading(name, probe, policy, loaded.tokens),
        rows=rows,
        factor=spread(
            trial,
            [sum(cost.seconds for cost in one.values()) for one in costs],
            rates,
            repeats=any(one.repeats for one in samples),
        ),
        longest=at_most,
        remarks=[
            *say_trial(trial, samples, memory.scoring.current.block, longest, at_most),
            *say_repeats(samples, probe),
            *say_memory(memory, probe, policy),
            say_disk(estimate_disk(trial, probe, count, len(loaded.estimators))),
            *say_state(record, probe, count),
        ],
        widths=widths,
        widths_from=source,
        warnings=warn_of_widths(widths),
    )
