"""What a run of simulated prompts leaves in its folder, with markup in every text."""

import pandas as pd

import run_mse
from mse_lab.config.probe_files import dump_probe, parse_probe
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Check, Checks
from mse_lab.results.files import write_file
from mse_lab.results.folder import ResultsFolder
from simulated import make_pools

SIZES = [2, 4, 8, 16, 32]
EVIL = "<script>alert('&')</script>"


def simulate(seed=1, prompts=12, reference=256, sizes=SIZES, **options):
    """Pools of simulated prompts, two blocks each."""
    return make_pools(prompts, reference, 2, max(sizes), seed, **options)


def write_run(folder, pools, name="probe", sizes=SIZES, checks_hold=True, **changes):
    """Write what a run of these pools would leave."""
    values = {
        "model": {"path": f"models/{EVIL}"},
        "prompts": {"source": "prompts.jsonl"},
        "pool": {
            "reference": pools.reference_rewards_PN.shape[1],
            "replicate": pools.rewards_PN.shape[1],
        },
        "group_sizes": list(sizes),
        "interval": {"resamples": 200},
    }
    probe = parse_probe(values | changes, "test")
    results = ResultsFolder(folder)
    described = pd.DataFrame(
        {
            "prompt": [f"{index}{EVIL}" for index in range(pools.prompts)],
            "category": EVIL,
            "mean_length": 0.0,
            "truncated": 0.0,
        }
    )
    result = Analysis(name, probe, pools, described)
    write_file(results.file("config.yaml"), dump_probe(probe))
    for table in ("mse.csv", "laws.csv", "prompts.csv"):
        write_file(results.file(table), result.tables[table])
    check = Check(f"sound {EVIL}", 0.5, 1.0, checks_hold)
    results.write_end(Checks(check.ok, [check], [f"a warning {EVIL}"]), vars(pools))
    environment = {"date": "2026-01-02", "versions": {"numpy": EVIL}, "seconds": 3.2}
    write_file(results.file("environment.json"), environment)
    return folder


def put(command, project, folder, *words):
    """Start the run of a folder again, or put a question to it; give the exit status."""
    if command == "run":
        probe = project / "probes/small.yaml"
        return run_mse.main(["run", str(probe), "--out", str(folder.parent), *words])
    out = ["--out", str(folder / "f.svg")] if "figure" in command else []
    return run_mse.main([*command.split(), str(folder), *out, *words])
