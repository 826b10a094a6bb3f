"""Whole files of settings, as TRL and verl write them: each is read; a mutated one, or not.

TRL's are made by its own classes. verl's have every name that its generated configurations
have, with references between them, and what a training sets; each in the forms that the
trainer, Weights & Biases or Hydra leave behind.
"""

import json
import warnings
from itertools import product

import pytest
import yaml
from fuzzing import CASES
from hypothesis import given
from hypothesis import strategies as st

from mse_lab.config.trainers import TRAINERS
from mse_lab.config.training import read_training
from mse_lab.errors import InputError

LOO, STD = {"name": "grpo"}, {"name": "grpo-std"}
CENTRED, BATCH = {"name": "centred"}, {"name": "batch-std"}


def of_wandb(values):
    """Write settings as the config.yaml of Weights & Biases, beside those of a model."""
    model = {"architectures": ["X"], "num_hidden_layers": 2, "head_dim": 64, "top_k": None}
    model |= {"rope_parameters": {"rope_theta": 1e4, "beta_fast": 32}}
    model |= {"quantization_config": {"load_in_4bit": True}}
    whole = {"_wandb": {"cli_version": "0.2"}, **model, **values}
    return {"wandb_version": 1, **{key: {"value": one} for key, one in whole.items()}}


def write(path, values, form):
    """Write one form of settings; give the mapping of a training that reads it."""
    values = of_wandb(values) if form == "wandb" else values
    text = json.dumps(values) if form == "json" else yaml.safe_dump(values)
    file = path / f"mine.{'json' if form == 'json' else 'yaml'}"
    file.write_text(text)
    return {"config": str(file)}


# Class, what a script sets, group size, weights, N, and what is not counted in.
SCRIPTS = [
    ("GRPO", {}, 8, STD, 8, []),
    ("GRPO", {"scale_rewards": False, "loss_type": "dr_grpo"}, 8, CENTRED, 8, []),
    ("GRPO", {"scale_rewards": "batch", "beta": 0.04}, 8, BATCH, 8, ["beta"]),
    ("GRPO", {"steps_per_generation": 4, "top_k": 20}, 8, STD, 8, ["4 updates", "top_k"]),
    ("GRPO", {"mask_truncated_completions": True, "use_vllm": True}, 8, STD, 8,
     ["mask_truncated", "vllm_importance_sampling_correction"]),
    ("RLOO", {}, 2, LOO, 8, ["beta = 0.05"]),
    ("RLOO", {"num_generations": 4, "beta": 0.0, "reward_clip_range": (-1.0, 1.0)}, 4, LOO,
     8, ["reward_clip_range"]),
]  # fmt: skip


@pytest.mark.parametrize("form", ["yaml", "json", "wandb"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: f"{one[0]}-{[*one[1]]}")
def test_trls_own_dictionary(script, form, tmp_path):
    kind, sets, size, weights, completions, uncounted = script
    config = getattr(pytest.importorskip("trl"), f"{kind}Config")
    with warnings.catch_warnings(action="ignore"):
        made = config(output_dir="out", report_to="none", bf16=False, use_cpu=True, **sets)
    values = json.loads(made.to_json_string())
    found = read_training(write(tmp_path, values, form))
    assert found.trainer == ("trl" if kind == "GRPO" else "rloo")
    assert (found.group_size, found.completions_per_step) == (size, completions)
    assert found.estimator["name"] == weights["name"]
    always = ["num_train_epochs = 3.0", "learning_rate = 1e-06"]
    model = ["load_in_4bit"] if form == "wandb" and "load_in_4bit" in values else []
    said = [one for one in found.uncounted if one not in always]
    assert len(said) == len([*uncounted, *model])
    assert all(any(one.startswith(name) for one in said) for name in uncounted)


def nested(values):
    """Nest settings by the dots in their names."""
    whole = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        place = whole
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return whole


ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
# Estimator in verl's words, its name here, and one of a single completion.
WEIGHTS = {"grpo": "grpo-std", "rloo": "grpo", "opo": "opo", "gae": None, "remax": None}
ENGINES = ["fsdp", "megatron", "torchtitan", "veomni"]


@pytest.mark.parametrize(("weights", "engine"), [*product(WEIGHTS, ENGINES)])
def test_verls_resolved_configuration(weights, engine, tmp_path):
    """Nothing of 1,300 names is misspelt or another trainer's."""
    rows = TRAINERS["verl"].settings
    values = dict.fromkeys(sorted(TRAINERS["verl"].own_names), "x")
    values |= {f"{ROLLOUT}.response_length": "${oc.select:data.max_response_length,512}"}
    values |= {name: row.default for name, row in rows.items()}
    values |= {f"{ROLLOUT}.n": 8, "algorithm.adv_estimator": weights, "data.trust": None}
    values |= {f"{ACTOR}.strategy": engine, f"{ACTOR}.optim.lr": 1e-6}
    values |= {"trainer.total_epochs": 15, f"{ACTOR}.use_kl_loss": True}
    spelt = [other for row in rows.values() for other in row.also]
    values = {name: one for name, one in values.items() if name not in spelt}
    for form in ("yaml", "json", "wandb"):
        read = {"trainer": "verl", **write(tmp_path, nested(values), form)}
        found = read_training(read)
        assert (found.group_size, found.completions_per_step) == (8, 2048)
        assert (found.estimator or {}).get("name") == WEIGHTS[weights]
        assert [one.rpartition(".")[2].split(" ")[0] for one in found.uncounted[1:]] == [
            *("use_kl_loss", "total_epochs", "lr")
        ]
    (tmp_path / "overrides.yaml").write_text(
        yaml.safe_dump([f"{name}={one}" for name, one in values.items() if one != "x"])
    )
    words = {"trainer": "verl", "config": str(tmp_path / "overrides.yaml")}
    again = read_training(words)
    assert (again.group_size, again.estimator) == (found.group_size, found.estimator)
    assert again.named == found.named


KEYS = ["num_generations", "Num_generations", "beta", "n", "trl", "rollout", "loss_type"]
TREES = st.recursive(
    st.one_of(st.integers(-2, 20), st.sampled_from(["8", "x", "", None, True, 1.5, "1e1"])),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


@given(TREES, st.sampled_from(["", "beta: 1", "num_generations: 4", "-", "}", "&a", "#"]))
@CASES
def test_a_mutated_file_is_read_right_or_refused(tmp_path, tree, more):
    """Right is what PyYAML and a look at its place say."""
    path = tmp_path / "mine.yaml"
    text = yaml.safe_dump(tree) if tree else ""
    path.write_text(f"{text}{more}\n")
    try:
        found = read_training({"config": str(path)})
    except InputError:
        return
    values = yaml.safe_load(path.read_text())
    assert found.group_size == int(values.get("num_generations", 8)) > 1
    assert (not values.get("beta")) == ("beta" not in str(found.uncounted))
