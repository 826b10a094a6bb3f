"""Evidence: prompts that were measured, by a run with replicates or by few samples."""

from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.sampled_run import SampledRun

Evidence = MeasuredRun | SampledRun
