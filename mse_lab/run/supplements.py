"""Corrections of the mismatch where an engine drew, measured after a run."""

from mse_lab.console import show_status
from mse_lab.measurement.corrections import correct
from mse_lab.mse.corrections import CorrectedPrompt, CorrectionPools
from mse_lab.results.shard import find_shard, load_shard, save_shard
from mse_lab.run.prepare import RunContext, RunSpec
from mse_lab.run.processes import await_files


def lacks_corrections(spec: RunSpec) -> bool:
    """Whether an engine drew the completions, and corrections were not measured."""
    engine = spec.supplied is not None and spec.supplied.form.engine_log_probs
    return engine and not spec.results.has("corrections.npz")


def add_corrections(context: RunContext, *, shown: bool = True) -> None:
    """Measure corrections of all prompts, each a shard until all are there."""
    spec, results = context.spec, context.spec.results
    shards = [
        (results.corrected(index), context.origin(index))
        for index in range(len(spec.prompts))
    ]

    def missing() -> list[int]:
        found = (find_shard(CorrectedPrompt, *shard) for shard in shards)
        return [index for index, prompt in enumerate(found) if prompt is None]

    def join() -> None:
        await_files([path for path, _ in shards])
        prompts = [load_shard(CorrectedPrompt, *shard) for shard in shards]
        results.write_corrections(CorrectionPools.of(prompts))
        results.drop_corrected()

    for index in spec.processes.deal(spec.processes.agree(missing, list[int])):
        if shown:
            show_status(f"{spec.name}: corrections of the mismatch, prompt {index + 1}")
        save_shard(correct(context.subject, index), *shards[index])
    spec.processes.meet()
    show_status()
    spec.processes.agree(join)
