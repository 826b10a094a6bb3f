"""Supplements: what is measured after a run or an advice, and written beside it.

They are the probe's metric, and corrections of the mismatch where an engine drew the
completions.
"""

from mse_lab.console import show_status
from mse_lab.measurement.corrections import correct
from mse_lab.measurement.metric import measure_metric
from mse_lab.measurement.subject import Subject
from mse_lab.mse.corrections import CorrectedPrompt, CorrectionPools
from mse_lab.mse.metric import MetricPools
from mse_lab.probe.schema import Metric
from mse_lab.results.shard import find_shard, load_shard, save_shard
from mse_lab.run.prepare import RunContext, RunSpec
from mse_lab.run.processes import await_files


def _lacks_metric(spec: RunSpec) -> bool:
    """Whether the probe asks for a metric that its results do not have."""
    wanted, results = spec.probe.metric, spec.results
    if wanted.kind == "plain" or not results.has("metric.npz"):
        return wanted.kind != "plain"
    return Metric.model_validate_json(results.read("metric.npz").settings) != wanted


def _lacks_corrections(spec: RunSpec) -> bool:
    """Whether an engine drew the completions, and corrections were not measured."""
    engine = spec.supplied is not None and spec.supplied.form.engine_log_probs
    return engine and not spec.results.has("corrections.npz")


def lacks_supplements(spec: RunSpec) -> bool:
    """Whether a finished result lacks the probe's metric, or corrections."""
    return _lacks_metric(spec) or _lacks_corrections(spec)


def add_supplements(context: RunContext, *, shown: bool = True) -> None:
    """Measure the metric and corrections that a result lacks; all processes call this."""
    spec = context.spec
    if spec.processes.agree(lambda: _lacks_metric(spec)):
        spec.processes.agree(lambda: _add_metric(context, shown=shown))
    if spec.processes.agree(lambda: _lacks_corrections(spec)):
        _add_corrections(context, shown=shown and spec.processes.first)


def _add_metric(context: RunContext, *, shown: bool) -> None:
    spec = context.spec
    pools = measure_metric_shown(spec.name, context.subject, shown=shown)
    assert pools is not None  # only the plain metric gives none, and is never lacking
    spec.results.write_metric(spec.probe, pools)


def _add_corrections(context: RunContext, *, shown: bool) -> None:
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


def measure_metric_shown(name: str, subject: Subject, *, shown: bool) -> MetricPools | None:
    """Measure the probe's metric, with a line of progress; None for the plain one."""
    if subject.probe.metric.kind == "plain":
        return None

    def show(done: int, prompts: int) -> None:
        if shown:
            show_status(f"{name}: curvature of prompt {done + 1} of {prompts}")

    pools = measure_metric(subject, show)
    show_status()
    return pools
