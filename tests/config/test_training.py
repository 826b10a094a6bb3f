"""The user's training: every form that a trainer's settings come in, right or refused."""

import ast
import dataclasses
import itertools
import math
import shlex
import warnings

import pytest
import yaml
from fuzzing import CASES
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mse_lab.config.given_settings import TWO_WAYS, read_given
from mse_lab.config.probe_files import parse_probe
from mse_lab.config.schema import Training
from mse_lab.config.trainers import TRAINERS
from mse_lab.config.training import DEFAULT, change_to, find_setting, fits, read_training
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator

STD = {"name": "grpo-std", "eps": 1e-4, "length": "token-batch"}
CENTRED = {"name": "centred"}
N, MINI = "actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.ppo_mini_batch_size"

# Trainer, words or a file of YAML, group size, estimator, N, and what is not allowed for.
FORMS = [
    ("trl", "{num_generations: 16, temperature: 0.7, top_p: 0.95, top_k: 20, min_p: 0.05, "
     "repetition_penalty: 1.1, use_peft: true, lora_r: 16, steps_per_generation: 16, "
     "gradient_accumulation_steps: 4, use_vllm: true, reward_weights: [1.0, 0.5], "
     "vllm_importance_sampling_correction: true}", 16, STD, 32,
     "4 updates a batch (steps_per_generation = 16, gradient_accumulation_steps = 4); "
     "temperature = 0.7; top_p = 0.95; top_k = 20; min_p = 0.05; repetition_penalty = 1.1; "
     "vllm_importance_sampling_correction = True; reward_weights = [1.0, 0.5]; "
     "use_peft = True"),
    ("trl", "{num_generations: 8, per_device_train_batch_size: 8, output_dir: out, "
     "gradient_accumulation_steps: 4, reward_weights: [1, 1]}", 8, STD, 32, ""),
    ("trl", "{num_generations: 8, use_vllm: true}", 8, STD, None,
     "vllm_importance_sampling_correction = True (default)"),
    # A section of another program is left alone.
    ("trl", "{rl: grpo, num_generations: 4, gradient_accumulation_steps: 2, beta: 0.001, "
     "deepspeed: {gradient_accumulation_steps: 3}}", 4, STD, 16, "beta = 0.001"),
    ("trl", "--num-generations 16 --loss-type dr_grpo --scale-rewards none",
     16, CENTRED, None, ""),
    # The last one of two counts.
    ("trl", "--num_generations=4 --beta 4e-2 --num-generations 6 --scale_rewards False "
     "--loss_type=dr_grpo --reward_weights 1.0 0.5 --bf16 --no_use_vllm --use_vllm "
     "--no-vllm-importance-sampling-correction --report_to a b",
     6, CENTRED, None, "beta = 0.04; reward_weights = [1.0, 0.5]"),
    # Of ms-swift's defaults none is TRL's.
    ("ms-swift", "--rlhf_type grpo --advantage_estimator rloo --kl_in_reward true "
     "--beta 0.001 --num_generations 16 --loss_type grpo --tuner_type full --top_p 1 "
     "--top_k -1",
     16, {"name": "grpo", "length": "sequence"}, None,
     "temperature = 0.9 (default); beta = 0.001; kl_in_reward = True"),
    ("ms-swift", "--rlhf_type grpo --dataset my-org/sums#2000 --num_generations 16 "
     "--beta 0.04 --loss_type grpo", 16, STD | {"length": "sequence"}, None,
     "temperature = 0.9 (default); top_p = 0.9 (default); top_k = 50 (default); "
     "beta = 0.04; tuner_type = lora (default)"),
    ("verl", f"algorithm.adv_estimator=rloo {N}=5 trainer.logger='[\"console\"]' "
     "+trainer.val_before_train=False actor_rollout_ref.rollout.val_kwargs.n=2",
     5, {"name": "grpo", "length": "token-batch"}, None, ""),
    ("verl", f"algorithm.adv_estimator=grpo data.train_batch_size=1024 {MINI}=64 {N}=8 "
     "actor_rollout_ref.rollout.temperature=0.6 actor_rollout_ref.rollout.top_p=0.95 "
     "actor_rollout_ref.rollout.top_k=20 actor_rollout_ref.model.lora_rank=32",
     8, STD | {"eps": 1e-6}, 512,
     f"16 updates a batch (data.train_batch_size = 1024, {MINI} = 64); "
     "actor_rollout_ref.rollout.temperature = 0.6; actor_rollout_ref.rollout.top_p = 0.95; "
     "actor_rollout_ref.rollout.top_k = 20; actor_rollout_ref.model.lora_rank = 32"),
    ("verl", "{algorithm: {adv_estimator: grpo, norm_adv_by_std_in_grpo: false, "
     "use_kl_in_reward: true}, data: {train_batch_size: 64}, actor_rollout_ref: {rollout: "
     "{n: 4, val_kwargs: {n: 1, top_p: 0.7}}, actor: {ppo_epochs: 2, ppo_mini_batch_size: "
     "64, loss_agg_mode: seq-mean-token-sum-norm}}, critic: {ppo_mini_batch_size: 3}}",
     4, CENTRED, 256,
     f"2 updates a batch (data.train_batch_size = 64, {MINI} = 64, "
     "actor_rollout_ref.actor.ppo_epochs = 2); algorithm.use_kl_in_reward = True"),
    ("verl", f"--config-name=mine {N}=4 'algorithm.filter_groups={{enable: True}}'",
     4, None, None, "config_name = mine; algorithm.filter_groups.enable = True"),
    ("nemo-rl", "{grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16, "
     "normalize_rewards: false, use_leave_one_out_baseline: true}, policy: "
     "{train_global_batch_size: 256}, loss_fn: {reference_policy_kl_penalty: 0.01, "
     "token_level_loss: false}}", 16, {"name": "grpo", "length": "sequence"}, 256,
     "2 updates a batch (grpo.num_prompts_per_step = 32, policy.train_global_batch_size = "
     "256); loss_fn.reference_policy_kl_penalty = 0.01"),
    ("openrlhf", "--rollout.n_samples_per_prompt 8 --algo.advantage.estimator=group_norm "
     "--algo.kl.init_coef 1e-3 --algo.kl.use_loss --rollout.batch_size 16 "
     "--train.batch_size 128 --train.colocate_all",
     8, STD | {"eps": 1e-9}, 128, "algo.kl.init_coef = 0.001"),
    ("openrlhf", "--n_samples_per_prompt 6 --advantage_estimator reinforce_baseline "
     "--no_advantage_std_norm --train_batch_size 96 --rollout_batch_size 32",
     6, CENTRED | {"length": "token-batch"}, 96,
     "2 updates a batch (rollout.batch_size = 32, train.batch_size = 96); "
     "algo.kl.init_coef = 0.01 (default)"),
    # One setting of the batch says that the others are at their defaults.
    ("trl", "--num_generations 8 --gradient_accumulation_steps 4", 8, STD, 32, ""),
    ("trl", "--num_generations 8 --generation_batch_size 64", 8, STD, 8,
     "8 updates a batch (generation_batch_size = 64, per_device_train_batch_size = 8 by "
     "default, gradient_accumulation_steps = 1 by default, processes = 1 by default)"),
    ("verl", f"algorithm.adv_estimator=grpo data.train_batch_size=1024 {N}=8",
     8, STD | {"eps": 1e-6}, 2048,
     f"4 updates a batch (data.train_batch_size = 1024, {MINI} = 256 by default)"),
    ("openrlhf", "--n_samples_per_prompt 4 --rollout_batch_size 32 --init_kl_coef 0 "
     "--advantage_estimator group_norm", 4, STD | {"eps": 1e-9}, 128, ""),
    ("nemo-rl", "grpo.num_generations_per_prompt=16 grpo.num_prompts_per_step=64 "
     "loss_fn.reference_policy_kl_penalty=0 grpo.normalize_rewards=false",
     16, {"name": "grpo", "length": "token-batch"}, 512,
     "2 updates a batch (grpo.num_prompts_per_step = 64, "
     "policy.train_global_batch_size = 512 by default)"),
    # ms-swift accumulates until a step has 16 completions.
    ("ms-swift", "--num_generations 6 --per_device_train_batch_size 3 --temperature 1 "
     "--top_p 1 --top_k 0 --beta 0 --tuner_type full", 6, STD | {"length": "sequence"}, 18,
     ""),
    ("ms-swift", "--num_generations 8 --per_device_train_batch_size 32 --temperature 1 "
     "--top_p 1 --top_k 0 --beta 0 --tuner_type full", 8, STD | {"length": "sequence"}, 32,
     ""),
]  # fmt: skip


def whole(trainer, source, folder):
    """Write a training's file, or take its words apart as a shell does."""
    if not source.startswith("{"):
        return {"trainer": trainer, "words": shlex.split(source)}
    (folder / "mine.yaml").write_text(source)
    return {"trainer": trainer, "config": str(folder / "mine.yaml")}


@pytest.mark.parametrize("case", FORMS, ids=lambda case: f"{case[0]} {case[1][:40]}")
def test_each_form_is_read_as_its_trainer_reads_it(case, tmp_path):
    trainer, source, size, estimator, completions, uncounted = case
    found = read_training(whole(trainer, source, tmp_path))
    assert (found.group_size, found.estimator) == (size, estimator)
    assert found.completions_per_step == completions
    assert "; ".join(found.uncounted) == uncounted
    assert found.given
    assert f" = {size}" in found.named
    assert estimator is None or find_estimator(estimator)


def test_what_is_typed_comes_before_a_file_and_words_before_theirs(tmp_path):
    (tmp_path / "mine.json").write_text('{"num_generations": 16, "beta": 0.04}')
    config = {"trainer": "trl", "config": str(tmp_path / "mine.json")}
    found = read_training(config)
    assert (found.group_size, found.uncounted) == (16, ("beta = 0.04",))
    assert read_training(config | {"num_generations": 2}).group_size == 2
    again = read_training({"words": ["--config", config["config"], "--beta", "0"]})
    assert (again.group_size, again.uncounted) == (16, ())


def test_what_stands_in_a_probe_is_in_the_trainers_own_names():
    """Last parts will do; what is unknown is named, or refused as misspelt."""
    assert read_training({"trainer": "verl", "rollout.n": 5}).group_size == 5
    assert read_training({"trainer": "openrlhf", "n_samples_per_prompt": 3}).estimator == (
        STD | {"eps": 1e-9}
    )
    alone = {"trainer": "verl", "adv_estimator": "rloo", "rollout.n": 1}
    assert read_training(alone).estimator == {"name": "vanilla", "length": "token-batch"}
    assert read_training({"max_steps": 10}).uncounted == ("max_steps = 10",)
    assert read_training({"loss_type": "vespo"}).estimator is None


def test_without_any_it_is_trl_with_its_defaults():
    """And then nothing is said to be given, nor is N known."""
    assert read_training(None) == read_training({}) == read_training({"trainer": "trl"})
    assert (DEFAULT.trainer, DEFAULT.group_size, DEFAULT.estimator) == ("trl", 8, STD)
    assert (DEFAULT.given, DEFAULT.uncounted) == (False, ())
    assert DEFAULT.completions_per_step is None
    assert read_training({"completions_per_step": 64}).completions_per_step == 64


def test_the_defaults_are_those_of_the_installed_trl():
    fields = pytest.importorskip("trl").GRPOConfig.__dataclass_fields__
    rows = {name: row for name, row in TRAINERS["trl"].settings.items() if name in fields}
    assert len(rows) > 25
    for name, row in rows.items():
        if row.default is not None:
            assert fields[name].default == row.default, name
        assert row.allows(fields[name].default) or name.startswith("vllm"), name


def test_no_two_rows_of_the_table_hold_at_once():
    """Nor does the order of rows say anything."""
    for trainer in TRAINERS.values():
        known = {}
        for row in trainer.estimators:
            for name, values in row.when.items():
                known.setdefault(name, {None: None}).update(dict.fromkeys(values))
        for values in itertools.product(*known.values()):
            one_by_one = [
                trainer.model_copy(update={"estimators": (row,)})
                for row in trainer.estimators
            ]
            settings = dict(zip(known, values, strict=True))
            assert sum(one.match(settings) is not None for one in one_by_one) <= 1
        for row in trainer.estimators:
            assert find_estimator(row.is_)


# Trainer, a file's name and text or words, and the line after the name.
REFUSED = [
    ("trl", "x.sh", "python train.py --num_generations 8", TWO_WAYS),
    ("trl", "x.toml", "[orchestrator]\nrollouts_per_example = 16\n", TWO_WAYS),
    ("trl", "training_args.bin", "", "scripts are not read: give a mapping"),
    ("trl", "x.yaml", "# num_generations: 8\n", "holds no mapping of settings to values"),
    ("trl", "x.yaml", "- num_generations\n", "holds no mapping of settings to values"),
    ("trl", "x.yaml", "beta: 0\n", "no num_generations, TRL's group size, was re"),
    ("trl", "x.yaml", "num_generation: 4\n", "setting num_generation; did you mean num_g"),
    ("trl", None, "--num_generations 8 --loss-tipe grpo", "loss-tipe; did you mean loss_t"),
    ("trl", None, "num_generations=8 gradient_accumalation_stpes=2", "mean gradien"),
    ("verl", None, f"{N}=8 actor_rolout_ref.actor.ppo_mini_batch_size=4", f"mean {MINI}?"),
    ("trl", "x.yaml", "beta: 0\nbeta: 1\n", "the key beta occurs twice"),
    ("trl", "x.yaml", "{num-generations: 4, num_generations: 8}", "is set twice; leave on"),
    ("trl", "x.yaml", "{adapter: lora, trl: {num_generations: 4}}",
     "num_generations stands in the section trl, where TRL does not look; give the set"),
    ("trl", "x.yaml", "{num_generations: 8, rl: {eval: {beta: 1}}}", "in the section rl.e"),
    ("trl", "x.yaml", "actor_rollout_ref: {rollout: {n: 8}}", "is a setting of verl; give"),
    ("trl", "x.yaml", "orchestrator: {rollouts_per_example: 16}", "of prime-rl, which is"),
    ("trl", "x.yaml", "grpo: {num_generations_per_prompt: 16}", "of NeMo-RL; give --tr"),
    ("trl", "x.yaml", "num_generations: ${n}", "'${n}': give a number above zero"),
    ("trl", "x.yaml", "num_generations: 8.5", "8.5: give a number above zero"),
    ("trl", "x.yaml", "num_generations: 1", "TRL takes 2 or more"),
    ("trl", "x.yaml", "{num_generations: 2, per_device_train_batch_size: 0}", "= 0: give"),
    ("trl", "x.yaml", "{num_generations: 16, per_device_train_batch_size: 8}",
     "8 completions are drawn together (per_device_train_batch_size = 8, "),
    ("trl", "x.yaml", "{num_generations: 8, per_device_train_batch_size: 4, "
     "steps_per_generation: 2}",
     "no whole groups of num_generations = 8; change one, or give --processes"),
    ("trl", "x.yaml", "{num_generations: 8, generation_batch_size: 32, "
     "steps_per_generation: 2}", "TRL takes one of them"),
    ("trl", None, "", "no words"),
    ("trl", None, "train.py --num_generations 8", "'train.py' is neither key=value nor --"),
    ("trl", None, "--num_generations 8 16", "8 16: takes one value"),
    ("trl", None, "--rlhf_type grpo --num_generations 8", "of ms-swift; give --trainer ms"),
    ("ms-swift", None, "--rlhf_type dpo --num_generations 8", "no training in groups"),
    ("verl", None, "+trainer.nnodes=1", f"no {N}, verl's group size, was re"),
    ("verl", None, "--num_generations 8", "give --trainer trl"),
    ("verl", None, f"~{N}=8", "takes a setting away"),
    ("verl", None, f"{N}=3 {MINI}=1 data.train_batch_size=1", "no multiple of 8, which ve"),
    ("verl", None, f"{N}=8 {MINI}=64 data.train_batch_size=32", "fewer than the 512 of a"),
    ("verl", None, f"{N}=8 data.train_batch_size=128", f"of a step ({MINI} = 256 by de"),
    ("nemo-rl", None, "grpo.num_generations_per_prompt=16 grpo.num_prompts_per_step=8",
     "no multiple of the 512 of a step (policy.train_global_batch_size = 512 by de"),
    ("ms-swift", None, "--num_generations 8 --gradient_accumulation_steps 4", "4 completi"),
    ("openrlhf", None, "--n-samples-per-prompt 8 --num-rollout 3", "of slime, which"),
    ("openrlhf", None, "--n_samples_per_prompt 7 --train_batch_size 128", "no whole group"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trainer", "source", "text", "line"),
    REFUSED,
)
def test_a_form_that_is_refused(trainer, source, text, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"trainer": trainer, "words": shlex.split(text)}
    if source is not None:
        (tmp_path / source).write_text(text)
        settings = {"trainer": trainer, "config": source}
    with pytest.raises(InputError) as caught:
        read_training(settings)
    assert str(caught.value).startswith(f"{source or '--training'}: ")
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trainer": "vrl"}, "training: trainer = 'vrl': no trainer .* did you mean verl"),
        ({"num_generation": 4}, "did you mean num_generations"),
        ({"trainer": "verl"}, f"no {N}, verl's group size"),
        ({"config": "absent.yaml"}, "absent.yaml: cannot be read"),
        ({"completions_per_step": 12}, "no whole groups of num_generations = 8"),
        ({"completions_per_step": 0}, "completions_per_step = 0"),
        (
            {"completions_per_step": 64, "per_device_train_batch_size": 8},
            r"completions_per_step = 64, but a step has 8 .*processes = 1 by default\)",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_line(settings, words):
    with pytest.raises(InputError, match=words):
        read_training(settings)


PROBE = {"model": {"path": "x"}, "prompts": {"source": "y"}}


def test_sampling_and_adapter_are_compared_with_the_probes():
    values = {"temperature": 0.7, "max_completion_length": 64, "use_peft": True}
    training = Training(trainer="trl", **values)
    probe = parse_probe(PROBE, "p")
    assert find_setting(training, probe).uncounted == (
        "temperature = 0.7 (the probe's temperature is 1.0)",
        "max_completion_length = 64 (the probe's max_new_tokens is 8)",
        "use_peft = True (the probe has no adapter)",
    )
    sampling = {"temperature": 0.7, "max_new_tokens": 64}
    alike = {**PROBE, "sampling": sampling, "model": {"path": "x", "adapter": {}}}
    assert find_setting(training, parse_probe(alike, "p")).uncounted == ()
    other = Training(trainer="trl", words=["--num_generations", "8"])
    assert find_setting(other, parse_probe(alike, "p")).uncounted == (
        "temperature = 1.0 (default) (the probe's temperature is 0.7)",
        "no use_peft (the probe has an adapter)",
    )
    by_hand = Training(trainer="trl", num_generations=8)
    assert find_setting(by_hand, parse_probe(alike, "p")).uncounted == ()


def test_no_setting_of_trl_is_taken_for_a_misspelt_one():
    """All that its parser takes, and settings of verl that are near to others."""
    trl = pytest.importorskip("trl")
    classes = (trl.GRPOConfig, trl.ModelConfig, trl.ScriptArguments)
    names = {field.name for one in classes for field in dataclasses.fields(one)}
    words = [f"--{name}=1" for name in sorted(names - {"config"})]
    assert read_given(None, words, TRAINERS["trl"]).keys() > {"num_generations_eval"}
    ends = ("rollout.name", "actor.ppo_micro_batch_size", "model.lora_alpha")
    near = [
        *(f"actor_rollout_ref.{end}" for end in ends),
        "algorithm.lam",
        "critic.ppo_epochs",
    ]
    words = [f"{name}=1" for name in near]
    assert [*read_given(None, words, TRAINERS["verl"])] == near


COUNTS = st.integers(1, 12)


def accepted(**settings):
    """Ask TRL itself; None where it refuses, else its own count of a draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = pytest.importorskip("trl").GRPOConfig
        try:
            made = config(output_dir="out", report_to="none", bf16=False, **settings)
        except ValueError:
            return None
    return made.generation_batch_size


@given(
    st.fixed_dictionaries(
        {
            "num_generations": COUNTS,
            "per_device_train_batch_size": COUNTS,
            "gradient_accumulation_steps": COUNTS,
        },
        optional={"steps_per_generation": COUNTS, "generation_batch_size": COUNTS},
    ),
    COUNTS,
)
@example(
    {
        "num_generations": 4,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": 1,
    },
    8,
)
@CASES
def test_a_batch_is_taken_where_trl_takes_it_and_what_is_said_can_be_typed(settings, size):
    drawn = accepted(**settings)
    step = settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"]
    try:
        found = read_training(settings)
    except InputError:
        assert drawn is None or step % settings["num_generations"]
        return
    assert drawn == found.batch.drawn
    assert found.completions_per_step == step
    assert fits(found, size) == (
        step % size == 0 and accepted(**settings | {"num_generations": size}) is not None
    )
    assume(size > 1)
    change = change_to(found, size)
    call = ast.parse(f"f({change.line})", mode="eval").body
    typed = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    again = read_training(settings | typed)
    assert typed == change.settings
    assert accepted(**settings | typed) == again.batch.drawn
    assert (again.group_size, again.completions_per_step) == (size, change[1])
    # The next one that does: less than a group, or a pass of all processes, more.
    assert step <= change[1] < step + math.lcm(found.batch.unit, size)
    assert not fits(found, size) or change[1] == step


@given(COUNTS, COUNTS, COUNTS, st.integers(1, 4), st.booleans(), COUNTS)
@CASES
def test_verls_batch_by_its_own_rules(size, mini, times, gpus, dynamic, other):
    """`validate_config`: real_train_batch_size by the GPUs; a mini batch within a batch."""
    settings = {
        N: size,
        MINI: mini,
        "data.train_batch_size": times,
        "trainer.n_gpus_per_node": gpus,
        "actor_rollout_ref.actor.use_dynamic_bsz": dynamic,
    }
    rules = dynamic or (times * size % gpus == 0 and mini <= times)
    try:
        found = read_training({"trainer": "verl", **settings})
    except InputError:
        assert not rules
        return
    assert rules
    assert found.completions_per_step == min(mini, times) * size
    change = change_to(found, other)
    typed = dict(word.split("=") for word in change.line.split())
    again = read_training({"trainer": "verl", **settings | typed})
    assert (again.group_size, again.completions_per_step) == (other, change[1])
    if fits(found, other):
        assert change[1] == found.completions_per_step


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
    assert found.group_size == int(values["num_generations"]) > 1
    assert (not values.get("beta")) == ("beta" not in str(found.uncounted))
