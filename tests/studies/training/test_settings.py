"""Studies: the committed ones load; what cannot be trained is refused in one line."""

from pathlib import Path

import pytest
import yaml

from mse_lab.errors import InputError
from mse_lab.probe.probe_files import load_probe, probe_file, probe_files
from mse_lab.studies.training.settings import (
    Study,
    arms_of,
    dump_study,
    load_study,
    runs_of,
    study_file,
)

ROOT = Path(__file__).resolve().parents[3]
STUDIES = sorted((ROOT / "probes/studies").glob("*.yaml"))


def write(folder, **changes):
    path = folder / "study.yaml"
    values = {"probe": "tiny/base", "steps": 4, "evaluation": {"steps": [2, 4]}}
    path.write_text(yaml.safe_dump(values | changes))
    return path


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_is_valid(path):
    study = load_study(path)
    for arm in arms_of(study):
        load_probe(probe_file(arm.training.probe, ROOT))
    assert study_file(path.stem, ROOT).samefile(path)
    assert yaml.safe_load(dump_study(study)) == study.model_dump(mode="json")


def test_studies_are_no_probes():
    assert not [name for name, _ in probe_files(ROOT) if name.startswith("studies/")]


@pytest.mark.parametrize("name", [path.stem for path in ROOT.glob("probes/studies/*.yaml")])
def test_the_committed_studies_have_a_probe_that_loads(name):
    study = load_study(study_file(name, ROOT))
    assert load_probe(probe_file(study.probe, ROOT)).sampling.temperature == 1


def test_the_papers_own_setting():
    """Figure 5: GSM8K, Qwen2.5-1.5B-Instruct, N = 1024, G = 4..128, 5 runs, 800 steps."""
    study = load_study(study_file("qwen-gsm8k", ROOT))
    probe = load_probe(probe_file(study.probe, ROOT))
    assert probe.model.path == "Qwen/Qwen2.5-1.5B-Instruct"
    assert (probe.prompts.source, probe.prompts.split) == ("openai/gsm8k", "train")
    assert (study.budget, study.seeds, study.steps) == (1024, 5, 800)
    assert study.group_sizes == [4, 8, 16, 32, 64, 128]
    assert study.evaluation.steps == [200, 400, 600, 800]


def test_runs_are_balanced_at_any_time():
    arms = arms_of(Study(probe="x", seeds=2, group_sizes=[2, 4], arms={"a": {"seeds": 1}}))
    names = [run.name for run in runs_of(arms)]
    assert names == ["main-G2-seed0", "main-G4-seed0", "main-G2-seed1", "main-G4-seed1",
                     "a-G2-seed0", "a-G4-seed0"]  # fmt: skip


def test_an_arm_differs_in_what_it_says_alone():
    arms = arms_of(Study(probe="x", eta=0.5, arms={"a": {"budget": 64}, "b": {}}))
    main, a, b = (arm.training for arm in arms)
    assert a == main.model_copy(update={"budget": 64})
    assert b == main
    assert arms[0].digest == arms[2].digest != arms[1].digest


def test_more_seeds_and_sizes_leave_finished_runs_what_they_are():
    few, many = (
        arms_of(Study(probe="x", seeds=seeds, group_sizes=sizes))[0]
        for seeds, sizes in ((1, [2, 8]), (9, [2, 4]))
    )
    assert few.digest == many.digest


def test_quick_is_the_main_grid_alone():
    study = load_study(study_file("group-size", ROOT), quick=True)
    assert (study.arms, study.seeds, study.steps) == ({}, 3, 60)
    assert study.evaluation.steps == [15, 30, 60]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"setps": 3}, "unknown key setps; did you mean steps?"),
        ({"evaluation": {"step": [4]}}, "unknown key evaluation.step; did you mean steps?"),
        ({"arms": {"a": {"etta": 1}}}, "arms.a: unknown key etta; did you mean eta?"),
        ({"arms": {"a/b": {}}}, "arms.a/b: its name holds a /"),
        ({"arms": {"pilot": {}}}, "arms.pilot: its name is taken; give another"),
        ({"arms": {"a": {"steps": 2}}}, "arms.a: steps = 2: is of the whole study"),
        ({"group_sizes": [3]}, "group_sizes: 3 does not divide the budget, 128"),
        ({"group_sizes": [2, 2]}, "a size stands twice"),
        ({"group_sizes": [4]}, "group_sizes: a study compares two or more; add one"),
        (
            {"budget": 16, "prediction": {"group_sizes": [3]}, "group_sizes": [2, 4]},
            "prediction.group_sizes: 3 does not divide the budget, 16",
        ),
        ({"estimator": {"name": 1}}, "estimator = {'name': 1}: an entry with parameters"),
        ({"eta": 1e300}, "eta = 1e+300: should be less than or equal to 1000000"),
        ({"prediction": {"reference": 2 * 10**9}}, "should be less than or equal to 1000"),
        ({"micro_batch": 5}, "micro_batch = 5: must divide the budget, 128"),
        ({"evaluation": {"steps": [2, 3]}}, "must rise to the last step; end with 4"),
        ({"eta": -1}, "eta = -1: "),
        ({"seeds": 2 * 10**9}, "should be less than or equal to 10000"),
        ({"optimiser": "lion"}, "optimiser = 'lion': "),
        ({"probe": None}, "probe = None: "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_input_is_refused(tmp_path, changes, said):
    with pytest.raises(InputError) as caught:
        load_study(write(tmp_path, **changes))
    assert said in str(caught.value)


def test_a_study_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"no study group-sise; did you mean group-size\?"):
        study_file("group-sise", ROOT)
