"""The user's training: every form that a trainer's settings come in, right or refused."""

import itertools
import runpy
import shlex

import pytest
import yaml

from mse_lab.config.probe_files import parse_probe
from mse_lab.config.schema import Training
from mse_lab.config.trainers import OTHERS, TRAINERS
from mse_lab.config.training import DEFAULT, find_setting, read_training
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.project import PROJECT

LOO = {"name": "grpo"}
LOO_OF_VERL = LOO | {"length": "token-batch"}
STD = {"name": "grpo-std", "eps": 1e-4, "length": "token-batch"}
CENTRED = {"name": "centred"}
N, MINI = "actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.ppo_mini_batch_size"

# Trainer, words or a file of YAML, group size; estimator, N, and what is not counted in.
FORMS = [
    ("trl", "{num_generations: 16, temperature: 0.7, top_p: 0.95, top_k: 20, min_p: 0.05, "
     "repetition_penalty: 1.1, use_peft: true, lora_r: 16, steps_per_generation: 16, "
     "gradient_accumulation_steps: 4, use_vllm: true, reward_weights: [1.0, 0.5], "
     "vllm_importance_sampling_correction: true}", 16, STD, 32,
     "4 updates a batch (steps_per_generation = 16, gradient_accumulation_steps = 4); "
     "min_p = 0.05; temperature = 0.7; top_p = 0.95; top_k = 20; repetition_penalty = 1.1; "
     "vllm_importance_sampling_correction = True; reward_weights = [1.0, 0.5]; "
     "use_peft = True"),
    ("trl", "{num_generations: 8, per_device_train_batch_size: 8, output_dir: out, "
     "gradient_accumulation_steps: 4, reward_weights: [1, 1]}", 8, STD, 32),
    ("trl", "{num_generations: 8, neftune_noise_alpha: 5, max_tool_calling_iterations: 3}",
     8, STD, None, "max_tool_calling_iterations = 3; neftune_noise_alpha = 5"),
    # A section of another program is left alone.
    ("trl", "{rl: grpo, num_generations: 4, gradient_accumulation_steps: 2, beta: 0.001, "
     "deepspeed: {gradient_accumulation_steps: 3}}", 4, STD, 16, "beta = 0.001"),
    ("trl", "--num-generations 16 --loss-type dr_grpo --scale-rewards none", 16, CENTRED),
    # The last one of two counts.
    ("trl", "--num_generations=4 --beta 4e-2 --num-generations 6 --scale_rewards False "
     "--loss_type=dr_grpo --reward_weights 1.0 0.5 --bf16 --no_use_vllm --use_vllm "
     "--no-vllm-importance-sampling-correction --report_to a b",
     6, CENTRED, None, "beta = 0.04; reward_weights = [1.0, 0.5]"),
    ("verl", f"""algorithm.adv_estimator="'rloo'" {N}='"5"' """, 5, LOO_OF_VERL),
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
    ("trl", "{num_generations: 4, beta: 0.0, mine: {beta: 1}}", 4, STD),
    # Half of a draw is used after an update.
    ("trl", "{num_generations: 4, per_device_train_batch_size: 8, steps_per_generation: 2, "
     "gradient_accumulation_steps: 3, peft_config: {r: 8}}", 4, STD, 24,
     "updates within a batch (steps_per_generation = 2, gradient_accumulation_steps = 3); "
     "peft_config = {'r': 8}"),
    ("verl", f"--config-name=ppo_trainer.yaml {N}=4", 4),
    ("verl", f"--config-name=mine {N}=4 'algorithm.filter_groups={{enable: True}}'",
     4, None, None, "algorithm.filter_groups.enable = True; config_name = mine"),
    # Megatron has other ranks; B of A A B | B C C is trained on in two updates.
    *(("verl", f"{engine} {N}=4 {MINI}=3 data.train_batch_size=3", 4, None, 12)
      for engine in ("--config-name=ppo_megatron_trainer.yaml", "-cn ppo_megatron_trainer",
                     "actor_rollout_ref.actor.strategy=megatron", "model_engine=megatron")),
    # The name of a run is any text; so is a regular expression.
    ("trl", "--num_generations 8 --run_name 'G beta=0.04 lr=1'", 8, STD),
    ("trl", "{num_generations: 8, vllm_structured_outputs_regex: '[0-9]'}", 8, STD, None,
     "vllm_structured_outputs_regex = [0-9]"),
    ("trl", "{num_generations: 8, reward_weights: '[1.0]', generation_kwargs: '{}'}", 8,
     STD),
    ("trl", "{num_generations: 4096, per_device_train_batch_size: 8192}", 4096, STD, 8192),
    ("trl", "{num_generations: 4, per_device_train_batch_size: 8, num_iterations: 2, "
     "gradient_accumulation_steps: 3, steps_per_generation: 1}", 4, STD, 16,
     "updates within a batch (steps_per_generation = 1, gradient_accumulation_steps = 3, "
     "num_iterations = 2)"),
    # One setting of the batch says that the others are at their defaults.
    ("trl", "--num_generations 8 --generation_batch_size 64", 8, STD, 8,
     "8 updates a batch (generation_batch_size = 64, per_device_train_batch_size = 8 by "
     "default, gradient_accumulation_steps = 1 by default, processes = 1 by default)"),
    ("trl", "{num_generations: 4, num_train_epochs: 3.0, learning_rate: 1e-6, "
     "reward_funcs: [a, b], chat_template_kwargs: {enable_thinking: false}}", 4, STD, None,
     "num_train_epochs = 3.0; learning_rate = 1e-06; chat_template_kwargs = "
     "{'enable_thinking': False}; reward_funcs = ['a', 'b']"),
    # A file with both of these tells that two processes draw, and take a step of 16.
    ("trl", "{generation_batch_size: 64, steps_per_generation: 4}", 8, STD, 16,
     "4 updates a batch (steps_per_generation = 4, gradient_accumulation_steps = 1 by "
     "default)"),
    # RLOO is known by what GRPO does not have, and has its own defaults.
    ("trl", "--normalize_advantages --num_generations 4 --beta 0 --reward_clip_range -1 1",
     4, LOO, None, "normalize_advantages = True; reward_clip_range = [-1, 1]"),
    ("rloo", "{num_generations: 4, beta: 0.0}", 4, LOO),
    ("rloo", "{bf16: true}", 2, LOO, None, "beta = 0.05 (default)"),
    ("verl", f"algorithm.adv_estimator=grpo {N}=8 reward_model.reward_kwargs."
     "overlong_buffer_cfg.enable=True "
     "+data.apply_chat_template_kwargs.enable_thinking=False trainer.total_epochs=1 "
     "actor_rollout_ref.actor.optim.lr=1e-6",
     8, STD | {"eps": 1e-6}, None,
     "actor_rollout_ref.actor.optim.lr = 1e-06; data.apply_chat_template_kwargs = "
     "{'enable_thinking': False}; reward.reward_kwargs.overlong_buffer_cfg.enable = True"),
    # TRL's bnpo makes a batch of the tokens of each micro-batch.
    *(("trl", f"{{loss_type: bnpo, per_device_train_batch_size: {each}, "
       f"gradient_accumulation_steps: {steps}}}", 8, weights, steps * each)
      for each, steps, weights in ((8, 1, STD), (1, 64, STD | {"length": "sequence"}),
                                   (4, 16, None))),
    ("trl", "--num_generations 8 --mask_truncated_completions no --use_peft f --use_vllm "
     "n --auto_find_batch_size No --chat_template x --repetition_max_penalty 1",
     8, STD, None, "chat_template = x; repetition_max_penalty (none of TRL's)"),
    ("verl", f"{N}=4 algorithm.rollout_correction=null algorithm.filter_groups={{}} "
     "reward_model.overlong_buffer=null", 4),
    ("trl", "{num_generations: 8, accelerate_config: zero3, reward_funcs: [a], "
     "reward_model_name_or_path: b}", 8, STD, None,
     "reward_model_name_or_path = b; accelerate_config = zero3"),
    ("verl", f"'actor_rollout_ref.rollout={{n:8,temperature:0.7}}' {MINI}=256 "
     "algorithm.adv_estimator=rloo data.train_batch_size=256 data.gen_batch_size=768 "
     "env.rollout.n=1 +mine.top_k=3", 8, LOO_OF_VERL, 2048,
     "data.gen_batch_size = 768; actor_rollout_ref.rollout.temperature = 0.7; "
     "env.rollout.n (none of verl's); mine.top_k (none of verl's)"),
    *(("verl", f"algorithm.adv_estimator={name} {N}=4", 4,
       {"name": ours, "length": "token-batch"}) for name, ours in {
        "rloo_vectorized": "grpo", "gpg": "centred", "reinforce_plus_plus": "reinforce++",
        "reinforce_plus_plus_baseline": "batch-std"}.items()),
    *(("trl", f"--loss_type {name} --scale_rewards none", 8, CENTRED | length)
      for name, length in {"sapo": {"length": "sequence"}, "luspo": {},
                           "cispo": {"length": "token-batch"}}.items()),
    # A model's own config has a top_k.
    ("verl", "{actor_rollout_ref: {rollout: {n: 4}}, top_k: 3}", 4),
    # Hydra's overrides.yaml.
    ("verl", f"[algorithm.adv_estimator=rloo, {N}=5, +trainer.mine=2, ~data.custom_cls]", 5,
     LOO_OF_VERL),
]  # fmt: skip


def whole(trainer, source, folder):
    """Write a training's file, or take its words apart as a shell does."""
    if source[0] not in "{[":
        return {"trainer": trainer, "words": shlex.split(source)}
    (folder / "mine.yaml").write_text(source)
    return {"trainer": trainer, "config": str(folder / "mine.yaml")}


@pytest.mark.parametrize("case", FORMS, ids=lambda case: f"{case[0]} {case[1][:40]}")
def test_each_form_is_read_as_its_trainer_reads_it(case, tmp_path):
    trainer, source, size, *known = case
    estimator, completions, uncounted = [*known, *(None, None, "")[len(known) :]]
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
    size_alone = read_training({"trainer": "verl", "rollout.n": 5})
    assert (size_alone.group_size, size_alone.estimator) == (5, STD | {"eps": 1e-6})
    alone = {"trainer": "verl", "adv_estimator": "rloo", "rollout.n": 1}
    assert read_training(alone).estimator == {"name": "vanilla", "length": "token-batch"}


def test_another_trainer_is_given_in_our_own_words():
    found = read_training({"G": 4, "estimator": "grpo-std", "completions_per_step": 64})
    assert (found.trainer, found.group_size, found.estimator) == ("other", 4, "grpo-std")
    assert (found.completions_per_step, found.uncounted) == (64, ())
    assert found.named == "G = 4, estimator = grpo-std"


def test_an_estimator_stands_for_the_trainers_weights():
    """The loss weights tokens as before, unless the entry says how."""
    entry = {"name": "affine", "alpha": 0.2, "lambda": 0.1}
    found = read_training({"num_generations": 1, "estimator": entry})
    assert (found.group_size, found.estimator) == (1, {**entry, "length": "token-batch"})
    assert found.named.endswith(f"loss_type = dapo, estimator = {entry}")
    plain = {"loss_type": "dr_grpo", "estimator": "grpo"}
    assert read_training(plain).estimator == "grpo"
    of_sequence = {"name": "grpo", "length": "sequence"}
    assert read_training({"estimator": of_sequence}).estimator == of_sequence


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"loss_type": "vespo"}, "loss_type = vespo"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregat"),
        ({"trainer": "verl", "n": 4, "adv_estimator": "grpo_passk"}, "= grpo_passk"),
        ({"trainer": "verl", "n": 4, "adv_estimator": "gdpo"}, "adv_estimator = gdpo"),
        ({"trainer": "verl", "n": 4, "adv_estimator": "remax"}, ""),
        ({}, ""),
    ],
)
def test_another_objective_is_named(settings, named):
    found = read_training(settings)
    assert named in found.elsewhere
    assert bool(named) == bool(found.elsewhere)
    assert not found.elsewhere or found.estimator is None


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
        named = ("num_train_epochs", "learning_rate", "vllm_importance_sampling_correction")
        assert row.allows(fields[name].default) == (name not in named), name


def test_no_two_rows_of_the_table_hold_at_once():
    """Nor does the order of rows say anything."""
    for trainer in TRAINERS.values():
        known = {}
        for row in trainer.estimators:
            for name, values in row.when.items():
                known.setdefault(name, {None: None}).update(dict.fromkeys(values))
        for values in itertools.product(*known.values()):
            settings = dict(zip(known, values, strict=True))
            assert sum(row.holds(settings.get) for row in trainer.estimators) <= 1
        for row in trainer.estimators:
            assert find_estimator(row.is_)


# Trainer, a file's name and text, or words, or what is typed in a probe's `training`, and
# the line after the name, whose end is `$`.
REFUSED = [
    ("trl", "training_args.bin", "", "scripts are not read: give a mapping"),
    ("trl", "x.yaml", "- num_generations\n", "holds no mapping of settings to values"),
    ("trl", None, "num_generations=8 gradient_accumalation_stpes=2", "mean gradien"),
    ("trl", "x.yaml", "{num-generations: 4, num_generations: 8}", "is set twice; leave on"),
    ("trl", "x.yaml", "{adapter: lora, trl: {num_generations: 4}}",
     "num_generations stands in the section trl, where TRL does not look; give the set"),
    ("trl", "x.yaml", "{normalize_advantages: true, loss_type: grpo}",
     "normalize_advantages is a setting of TRL's RLOO alone, loss_type one that it has n"),
    ("trl", "x.yaml", "{config: {value: {beta: 0.2}}, num_generations: {value: 4}}",
     "beta stands in the section config, where TRL does not look"),
    ("verl", None, f"{N}=4 algorithm.adv_estimator=grpoo", "'grpoo': did you mean grpo?; "
     "give --estimator if it is your own"),
    ("trl", "x.yaml", "scale_rewards: std", "scale_rewards = 'std': TRL takes no such"),
    ("trl", "x.yaml", "{num_generations: 4, auto_find_batch_size: true}", "known: False"),
    ("trl", "x.yaml", "{num_generations: 4, generation_batch_size: 32, "
     "per_device_train_batch_size: 8, steps_per_generation: 3}", "= 3: they disagree (per"),
    ("trl", "x.yaml", "{beta: 0.1, num_processes: 2, generation_batch_size: 8, "
     "steps_per_generation: 1}", "they disagree"),
    ("other", "x.yaml", "G: 8", "another trainer is not read; give --G, --co"),
    ("verl", "x.yaml", f"['~{N}', algorithm.adv_estimator=rloo]", "takes a setting away"),
    ("trl", "x.yaml", "num_generations: ${n}", "'${n}': a reference; give the file with v"),
    ("trl", "x.yaml", "num_generations: 8.5", "8.5: give a whole number from 1"),
    ("trl", "x.json", '{"num_generations": 100000000000000000000}', " from 1 to 4096, or"),
    ("trl", "x.yaml", "num_generations: 1", "TRL takes 2 or more"),
    ("trl", "x.yaml", "{num_generations: 16, per_device_train_batch_size: 8}",
     "8 completions are drawn together (per_device_train_batch_size = 8, "),
    ("trl", "x.yaml", "{num_generations: 8, per_device_train_batch_size: 4, "
     "steps_per_generation: 2}",
     "no whole groups of num_generations = 8; change one, or give --processes"),
    ("trl", None, "--num_generations 8 --generation_batch_size 32 "
     "--steps_per_generation 2", "TRL takes one of them"),
    ("trl", None, "", "no words"),
    ("trl", None, "train.py --num_generations 8", "'train.py' is neither key=value nor --"),
    ("trl", None, "--num_generations 8 16", "[8, 16]: takes one value"),
    ("verl", None, "+trainer.nnodes=1", f"no {N}, the group size of ver"),
    ("verl", None, f"{N}=3 {MINI}=1 data.train_batch_size=1", "no multiple of 8, which ve"),
    ("verl", None, f"{N}=8 {MINI}=64 data.train_batch_size=32", "fewer than the 512 of a"),
    ("trl", "x.yaml", "{actor_rollout_ref: {rollout: {temperature: 1, n: 4}}}",
     "actor_rollout_ref.rollout.temperature is a setting of verl; give --trainer verl"),
    ("verl", None, f"'algorithm.adv_estimator=grpo data.train_batch_size=64' {N}=4",
     "algorithm.adv_estimator and data.train_batch_size are one word; part them"),
    ("trl", "x.yaml", "num_generations: 4097", "a whole number from 1 to 4096, or"),
    ("verl", None, f"{N}=4 algorithm.adv_estimator=GRPO", "'GRPO': did you mean grpo?"),
    ("trl", "x.yaml", "loss_type: DAPO", "takes no such; did you mean dapo?"),
    *(("verl", None, f"{N}=4 {name}=1", f"unknown setting {name}; did you mean {known}?")
      for name, known in {
          "ppo_mini_batch_size": MINI, "train_batch_size": "data.train_batch_size",
          "actor.use_kl_loss": "actor_rollout_ref.actor.use_kl_loss",
          "algorithm.use_kl_loss": "actor_rollout_ref.actor.use_kl_loss",
          "actor_rollout_ref.ppo_mini_batch_size": MINI,
          "algorithm.norm_adv_by_std": "algorithm.norm_adv_by_std_in_grpo"}.items()),
    ("trl", "x.yaml", "{num_generations: 8, BETA: 0.1}", "BETA; did you mean beta?"),
    *(("trl", None, f"--{name} 16 --num_generations 8", f"of {title}, which is not")
      for name, title in OTHERS.items()),
    ("trl", "x.yaml", "orchestrator: {rollouts_per_example: 16}", "of prime-rl, which is"),
    ("vrl", "training", "{}", "did you mean verl"),
    (None, "training", "num_generation: 4", "no setting of TRL; did you mean num_gene"),
    (None, "training", "max_steps: 10", "max_steps has no effect on the answer"),
    ("rloo", "training", "scale_rewards: none", "scale_rewards is a setting of TRL;"),
    (None, "training", "G: 8", "of another trainer no estimator; give --estimator"),
    ("other", "training", "estimator: grpo", "no G, the group size of another"),
    (None, "training", "completions_per_step: 0", "completions_per_step = 0"),
    (None, "training", "{completions_per_step: 64, per_device_train_batch_size: 8}",
     "but a step has 8 (per_device_train_batch_size = 8, gradient_accumulation_steps = 1 "
     "by default, processes = 1 by default); change one, or give --processes"),
    (None, "training", "{completions_per_step: 20, per_device_train_batch_size: 8}",
     "processes = 1 by default); change one$"),
]  # fmt: skip


@pytest.mark.parametrize(("trainer", "source", "text", "line"), REFUSED)
def test_a_form_that_is_refused(trainer, source, text, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if source is None:
        settings = {"words": shlex.split(text)}
    elif source == "training":
        settings = yaml.safe_load(text)
    else:
        settings = {"config": source}
        if text is not None:
            (tmp_path / source).write_text(text)
    with pytest.raises(InputError) as caught:
        read_training(settings if trainer is None else {"trainer": trainer, **settings})
    assert str(caught.value).startswith(f"{source or '--training'}: ")
    assert line in f"{caught.value}$"


PROBE = {"model": {"path": "x"}, "prompts": {"source": "y"}}
SAMPLED = {"sampling": {"temperature": 0.7, "max_new_tokens": 64}}
SAMPLED |= {"model": {"path": "x", "adapter": {}}}
KWARGS = {"enable_thinking": False}
CHAT = {"source": "y", "chat": True, "chat_template_kwargs": KWARGS}
THINKING = {"prompts": CHAT, "sampling": {"max_new_tokens": 512}}
OURS = {"temperature": 0.7, "max_completion_length": 64, "use_peft": True}
EIGHT = {"words": ["--num_generations", "8"]}


@pytest.mark.parametrize(
    ("training", "probe", "uncounted"),
    [
        (OURS, SAMPLED, ()),
        (OURS, {}, ("temperature = 0.7 (the probe's temperature is 1.0)",
                    "max_completion_length = 64 (the probe's max_new_tokens is 8)",
                    "use_peft = True (the probe has no adapter)")),
        (EIGHT, SAMPLED,
         ("temperature = 1.0 (default) (the probe's temperature is 0.7)",
          "max_completion_length = 512 (default) (the probe's max_new_tokens is 64)",
          "no use_peft (the probe has an adapter)")),
        (EIGHT, THINKING, (
            "chat_template_kwargs = None (default) (the probe's chat_template_kwargs is "
            f"{KWARGS})",)),
        ({"words": [*EIGHT["words"], f"--chat_template_kwargs={KWARGS}"]}, THINKING, ()),
        # By hand what is not said is not known.
        ({"num_generations": 8}, SAMPLED, ()),
        ({"num_generations": 8, "chat_template_kwargs": {}}, {}, ()),
        ({"num_generations": 8, "max_completion_length": None}, SAMPLED,
         ("max_completion_length = None (the probe's max_new_tokens is 64)",)),
    ],
)  # fmt: skip
def test_sampling_and_adapter_are_compared_with_the_probes(training, probe, uncounted):
    found = find_setting(
        Training(trainer="trl", **training), parse_probe(PROBE | probe, "p")
    )
    assert found.uncounted == uncounted


def test_the_lists_of_names_are_those_of_the_installed_trl():
    pytest.importorskip("trl")
    script = runpy.run_path(str(PROJECT / ".ci/trainer_names.py"))
    for key, name in (("trl", "grpo"), ("rloo", "rloo")):
        of_others = {"processes", "num_processes", "config", "quantization_config"}
        of_others |= {"peft_config", "accelerate_config", "config_file", "chat_template"}
        assert TRAINERS[key].own_names - of_others == script["names_of_trl"](name)
