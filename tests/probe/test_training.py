"""The user's training, read from each trainer's own form."""

import pickle

import pytest

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.probe.training import DEFAULT, TRAINERS, read_settings, read_training

STD = {"name": "grpo-std", "eps": 1e-4, "length": "token-batch"}

VERL = r"""#!/bin/bash
set -x
N=16  # responses
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
    data.train_files="$HOME/data/train.parquet" \
    actor_rollout_ref.rollout.n=${N} +trainer.val_before_train=False \
    actor_rollout_ref.rollout.val_kwargs.n=2 critic.loss_agg_mode=x \
    actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean $@
"""
OPENRLHF = r"""ray job submit -- python3 -m openrlhf.cli.train_ppo_ray \
   --actor.num_nodes 1 --rollout.n_samples_per_prompt 8 \
   --algo.advantage.estimator=group_norm --algo.kl.init_coef 1e-3 --algo.kl.use_loss \
   --train.colocate_all
"""


def test_without_any_it_is_trl_with_its_defaults():
    assert read_training(None) == DEFAULT
    assert (DEFAULT.trainer, DEFAULT.group_size) == ("trl", 8)
    assert DEFAULT.estimator == STD
    assert not DEFAULT.given
    assert read_training({}) == DEFAULT._replace(given=True)


def test_the_defaults_are_those_of_the_installed_trl():
    config = pytest.importorskip("trl").GRPOConfig.__dataclass_fields__
    trl = TRAINERS["trl"]
    assert trl.read == {name: config[name].default for name in trl.read}
    assert all(config[name].default in values for name, values in trl.neutral.items())


@pytest.mark.parametrize(
    ("settings", "size", "estimator"),
    [
        ({"num_generations": 4}, 4, STD),
        ({"scale_rewards": True, "loss_type": "bnpo"}, 8, STD),
        ({"scale_rewards": False, "loss_type": "dr_grpo"}, 8, {"name": "centred"}),
        ({"scale_rewards": "none", "loss_type": "dr_grpo"}, 8, {"name": "centred"}),
        (
            {"scale_rewards": "batch", "loss_type": "grpo"},
            8,
            {"name": "batch-std", "eps": 1e-4, "length": "sequence"},
        ),
        ({"loss_type": "vespo"}, 8, None),
        ({"trainer": "verl", "rollout.n": 5}, 5, STD | {"eps": 1e-6}),
        (
            {"trainer": "verl", "rollout.n": 5, "norm_adv_by_std_in_grpo": False,
             "loss_agg_mode": "seq-mean-token-sum-norm"}, 5, {"name": "centred"},
        ),
        (
            {"trainer": "verl", "adv_estimator": "rloo", "rollout.n": 1,
             "loss_agg_mode": "seq-mean-token-sum"}, 1, {"name": "vanilla"},
        ),
        ({"trainer": "verl", "adv_estimator": "gae"}, 1, None),
        (
            {"trainer": "openrlhf", "n_samples_per_prompt": 6,
             "advantage_estimator": "reinforce_baseline"},
            6, {"name": "batch-std", "length": "token-batch"},
        ),
        (
            {"trainer": "openrlhf", "rollout.n_samples_per_prompt": 6,
             "algo.advantage.estimator": "dr_grpo"},
            6, {"name": "centred", "length": "token-batch"},
        ),
    ],
)  # fmt: skip
def test_settings_by_a_trainers_own_names(settings, size, estimator):
    found = read_training(settings)
    assert (found.group_size, found.estimator) == (size, estimator)
    assert found.given
    assert found.uncounted == ()
    assert estimator is None or find_estimator(estimator)


def test_verls_command_line(tmp_path):
    """Its variables in their places; other keys that end alike are not taken for it."""
    (tmp_path / "run.sh").write_text(VERL)
    found = read_training({"trainer": "verl", "config": str(tmp_path / "run.sh")})
    assert found.group_size == 16
    assert found.estimator == STD | {"eps": 1e-6, "length": "sequence"}
    assert found.uncounted == ("actor_rollout_ref.actor.use_kl_loss = True",)


def test_verls_yaml(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "algorithm: {adv_estimator: rloo, use_kl_in_reward: true}\n"
        "actor_rollout_ref: {rollout: {n: 4, val_kwargs: {n: 1}}, actor: {ppo_epochs: 2}}\n"
    )
    found = read_training({"trainer": "verl", "config": str(path)})
    assert (found.group_size, found.estimator) == (
        4,
        {"name": "grpo", "length": "token-batch"},
    )
    assert found.uncounted == (
        "algorithm.use_kl_in_reward = True",
        "actor_rollout_ref.actor.ppo_epochs = 2",
    )


def test_a_file_of_verls_without_an_estimator_has_a_critic(tmp_path):
    (tmp_path / "run.sh").write_text("python3 -m verl actor_rollout_ref.rollout.n=4")
    found = read_training({"trainer": "verl", "config": str(tmp_path / "run.sh")})
    assert (found.group_size, found.estimator) == (4, None)


def test_openrlhfs_command_line(tmp_path):
    (tmp_path / "run.sh").write_text(OPENRLHF)
    found = read_training({"trainer": "openrlhf", "config": str(tmp_path / "run.sh")})
    assert found.group_size == 8
    assert found.estimator == STD | {"eps": 1e-9}
    assert found.uncounted == ("--algo.kl.init_coef = 1e-3",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("grpo.yaml", "num_generations: 16\nbeta: 0.04\nlearning_rate: 1.0e-6\n"),
        ("grpo.json", '{"num_generations": 16, "beta": 0.04, "output_dir": "out"}'),
        ("run.txt", "trl grpo --num_generations 16 --beta 0.04 --bf16"),
    ],
)
def test_trls_config_and_what_is_typed_beside_it(tmp_path, name, text):
    """What is typed comes before the file; what does not matter is passed over."""
    (tmp_path / name).write_text(text)
    config = {"trainer": "trl", "config": str(tmp_path / name)}
    found = read_training(config)
    assert (found.group_size, found.estimator) == (16, STD)
    assert [one.lstrip("-") for one in found.uncounted] == ["beta = 0.04"]
    assert read_training(config | {"num_generations": 2}).group_size == 2


def test_what_is_typed_and_not_known_is_named_or_refused():
    assert read_training({"max_steps": 10}).uncounted == ("max_steps = 10",)
    with pytest.raises(InputError, match="did you mean num_generations"):
        read_training({"num_generation": 4})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trainer": "slime"}, "training: trainer = 'slime'"),
        ({"num_generations": "$N"}, r"num_generations = '\$N': give a number above zero"),
        ({"num_generations": 1}, "TRL takes two or more"),
        ({"config": "absent.yaml"}, "absent.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_line(settings, words):
    with pytest.raises(InputError, match=words):
        read_training(settings)


def test_a_pickle_is_not_read(tmp_path):
    for name in ("training_args.bin", "args.yaml"):
        path = tmp_path / name
        path.write_bytes(pickle.dumps({"num_generations": 4}))
        with pytest.raises(InputError, match=name):
            read_settings(path)
