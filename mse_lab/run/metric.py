"""A run's metric: measured once everything else is, and written beside it."""

from mse_lab.console import show_status
from mse_lab.measurement.metric import measure_metric
from mse_lab.probe.schema import Metric
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.prepare import RunContext, RunSpec


def _metric_of(results: ResultsFolder) -> Metric:
    """Read which metric a folder has; the plain one where there is no other."""
    if not results.has("metric.npz"):
        return Metric()
    return Metric.model_validate_json(results.read("metric.npz").settings)


def lacks_metric(spec: RunSpec) -> bool:
    """Whether the probe asks for a metric that its results do not have."""
    wanted = spec.probe.metric
    return wanted.kind != "plain" and _metric_of(spec.results) != wanted


def add_metric(context: RunContext, *, shown: bool = True) -> None:
    """Measure the probe's metric and add it to a finished result.

    Raises:
        InputError: It cannot be measured; the result stays as it is.
    """
    name = context.spec.name

    def show(done: int, prompts: int) -> None:
        if shown:
            show_status(f"{name}: curvature of prompt {done + 1} of {prompts}")

    pools = measure_metric(context.subject, show)
    show_status()
    context.spec.results.write_metric(context.spec.probe, pools)
