"""The wheel takes along what commands name: probes, checkpoints, prompts, results.

In a clone they lie beside the package; `mse_lab/project.py` finds them in either place.
Everything else about the build stands in `pyproject.toml`.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# By patterns, so that what somebody adds to a clone stays out of the wheel.
RUNS = [
    f"{family}/{run}"
    for family in ("tiny", "lenient", "worked")
    for run in ("base", "instruct", "icl")
]
WITH_POOLS = ("demo", "smollm2/base", "smollm2/instruct", "smollm2/icl")
TABLES = (
    *("advice.json", "checkpoint.json", "checks.json", "config.yaml", "diagnostics.json"),
    *("laws.csv", "mse.csv", "prompts.csv"),
)
PATTERNS = (
    *(f"probes/{family}/*.yaml" for family in ("gsm8k", "lenient", "qwen")),
    *(
        "probes/smollm2/*.yaml",
        "probes/smollm2/*.txt",
        "probes/prompts/short-answers.jsonl",
    ),
    *(f"probes/{run}.yaml" for run in RUNS),
    *(f"probes/{run}/*.json" for run in RUNS),
    *(f"probes/{run}/*.jinja" for run in RUNS),
    *(f"probes/{run}/model.safetensors" for run in RUNS),
    *("probes/prompts/arithmetic*.jsonl", "probes/worked/*.txt", "probes/phase/rewards.py"),
    *(f"results/{run}/{table}" for run in (*RUNS, *WITH_POOLS) for table in TABLES),
    *(f"results/{run}/pools.npz" for run in WITH_POOLS),
    "results/demo/environment.json",
)


def bundled() -> list[str]:
    """Name the files, from the clone down."""
    return sorted({str(path) for pattern in PATTERNS for path in Path().glob(pattern)})


class BuildPy(build_py):
    """The build of the package, with these files in `mse_lab/bundled/`."""

    def run(self) -> None:
        """Build; an editable installation has the clone itself."""
        super().run()
        for name in () if self.editable_mode else bundled():
            target = Path(self.build_lib, "mse_lab", "bundled", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, target)

    def get_source_files(self) -> list[str]:
        """Name what an archive of the sources needs."""
        return [*super().get_source_files(), *bundled()]


setup(cmdclass={"build_py": BuildPy})
