"""What is measured once everything else is, and written beside it.

That is the probe's metric, and corrections of the mismatch where an engine drew.
"""

from mse_lab.console import show_status
from mse_lab.measurement.corrections import measure_corrections
from mse_lab.measurement.metric import measure_metric
from mse_lab.measurement.subject import Subject
from mse_lab.mse.metric import MetricPools
from mse_lab.probe.schema import Metric
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.prepare import RunContext, RunSpec


def _metric_of(results: ResultsFolder) -> Metric:
    """Read which metric a folder has; the plain one where there is no other."""
    if not results.has("metric.npz"):
        return Metric()
    return Metric.model_validate_json(results.read("metric.npz").settings)


def _lacks_metric(spec: RunSpec) -> bool:
    """Whether the probe asks for a metric that its results do not have."""
    wanted = spec.probe.metric
    return wanted.kind != "plain" and _metric_of(spec.results) != wanted


def _lacks_corrections(spec: RunSpec) -> bool:
    """Whether an engine drew the completions, and its corrections are not measured."""
    engine = spec.supplied is not None and spec.supplied.form.engine_log_probs
    return engine and not spec.results.has("corrections.npz")


def lacks_more(spec: RunSpec) -> bool:
    """Whether a finished result lacks the probe's metric, or corrections."""
    return _lacks_metric(spec) or _lacks_corrections(spec)


def add_more(context: RunContext, *, shown: bool = True) -> None:
    """Measure what a finished result lacks.

    Raises:
        InputError: It cannot be measured; the result stays as it is.
    """
    spec = context.spec
    if _lacks_metric(spec):
        pools = measure_shown(spec.name, context.subject, shown=shown)
        assert pools is not None  # or it would not be lacking
        spec.results.write_metric(spec.probe, pools)
    if _lacks_corrections(context.spec):
        if shown:
            show_status(f"{context.spec.name}: corrections of the engine's mismatch")
        context.spec.results.write_corrections(measure_corrections(context.subject))
        show_status()


def measure_shown(name: str, subject: Subject, *, shown: bool) -> MetricPools | None:
    """Measure the probe's metric, a line saying how far it is; None for the plain one.

    Raises:
        InputError: It cannot be measured.
    """
    if subject.probe.metric.kind == "plain":
        return None

    def show(done: int, prompts: int) -> None:
        if shown:
            show_status(f"{name}: curvature of prompt {done + 1} of {prompts}")

    pools = measure_metric(subject, show)
    show_status()
    return pools
