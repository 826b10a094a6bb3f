"""Randomly initialised tiny models and checkpoints for the tests; nothing is downloaded."""

import json
import pickle
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mse_lab.config.probe_files import parse_probe
from mse_lab.data.location import Location
from mse_lab.policy import sampling
from mse_lab.policy.policy import Policy, StopStrings, load_policy

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}


def randomise(model, seed=0, scale=0.4):
    """Draw every parameter anew: matrices about 0, vectors (norm weights) about 1."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        centre = 1.0 if parameter.dim() == 1 else 0.0
        parameter.data = (centre + scale * noise).to(parameter.dtype)


EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 6}
LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
# Windows shorter than the tests' prompts, and a layer that sees everything.
WINDOWS = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 4,
}
# Latent attention: keys and values from a few numbers a token.
LATENT = {
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 4,
    "num_key_value_heads": 4,
}

# What each architecture has beside SIZES.
ARCHITECTURES = {
    "qwen2": {},
    "qwen3": {"head_dim": 4},
    "llama": {},
    "mistral": {"head_dim": 4, "sliding_window": 5},
    "gemma": {"head_dim": 4},
    "gemma2": {"head_dim": 4, "sliding_window": 6},
    "gemma3_text": {"head_dim": 4, **WINDOWS},
    "gpt2": {},
    "phi3": {},
    "olmo2": {},
    "smollm3": {"no_rope_layers": [1, 0]},
    "qwen3_moe": {"head_dim": 4, "num_experts": 4, "norm_topk_prob": True, **EXPERTS},
    "mixtral": LOCAL_EXPERTS,
    "gpt_oss": {"head_dim": 4, **LOCAL_EXPERTS, **WINDOWS,
                "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
    "deepseek_v3": {**LATENT, **EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1,
                    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1},
    "jetmoe": {"kv_channels": 4, **LOCAL_EXPERTS},
    "qwen3_next": {"head_dim": 4, "num_experts": 4, "shared_expert_intermediate_size": 8,
                   **EXPERTS, **LINEAR},
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_multiple_of": 4},
    "falcon": {"multi_query": True, "parallel_attn": True, "bias": False},
    "opt": {"word_embed_proj_dim": 16, "ffn_dim": 24},
    "gpt_neox": {},
    "stablelm": {"use_qkv_bias": True, "qk_layernorm": True},
    "cohere2": WINDOWS,
    "granite": {"logits_scaling": 2.0, "embedding_multiplier": 3.0},
    "openai-gpt": {},
    "ctrl": {"dff": 24},
    "mamba": {"state_size": 4},
    "mamba2": {"state_size": 4, "num_heads": 4, "head_dim": 8, "n_groups": 1,
               "chunk_size": 4},
    "bamba": {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4,
              "mamba_chunk_size": 4, "attn_layer_indices": [1]},
    "jamba": {"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
              "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 4,
              "mamba_dt_rank": 4},
    "recurrent_gemma": {"num_hidden_layers": 3, "lru_width": 16, "head_dim": 4,
                        "attention_window_size": 5,
                        "block_types": ["recurrent", "recurrent", "attention"]},
}  # fmt: skip


def random_model(architecture, vocabulary=11, tied=True, **sizes):
    """Build a tiny model of one of `ARCHITECTURES`."""
    given = {**SIZES, **ARCHITECTURES[architecture], **sizes}
    config = transformers.AutoConfig.for_model(
        architecture,
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
        # Fused kernels of experts take no float64 and no matrices this small.
        **{"experts_implementation": "eager", **given},
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomise(model)
    return model.eval().requires_grad_(False)


def random_policy(architecture="qwen2", dtype=torch.float64, ends=(1, 2), **options):
    """Wrap a random model as a policy with two end tokens."""
    model = random_model(architecture, **options).to(dtype)
    return Policy(
        model=model,
        tokenizer=None,
        end_tokens=ends,
        temperature=0.8,
        parameters=dict(model.named_parameters()),
        location=Location("model", architecture),
    )


def draw(policy, prompt, uniforms_NT, prompt_id, *, max_batch=None):
    """Draw N completions of one prompt."""
    given = [prompt], uniforms_NT[None], [prompt_id]
    return sampling.draw_together(policy, *given, max_batch=max_batch)[0]


def write_checkpoint(folder: Path, seed=0) -> Path:
    """Write a checkpoint of four tokens (`<end>`, 1, 2, 3), small enough to enumerate."""
    words = {"<end>": 0, "1": 1, "2": 2, "3": 3}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>"
    ).save_pretrained(folder)
    sizes = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    model = random_model("qwen2", vocabulary=4, **sizes)
    randomise(model, seed)
    model.save_pretrained(folder)
    return folder


def rows_of(problems, **more):
    """Rows of problems with their answers, numbered."""
    return [
        {"id": f"p{at}", "problem": problem, "answer": answer, **more}
        for at, (problem, answer) in enumerate(problems)
    ]


# The rows and settings of the fixture `project`, as Python takes them.
ROWS = [{"id": one, "problem": f"1 {one}", "answer": 2} for one in "123"]
SETTINGS = {
    "sampling": {"max_new_tokens": 2},
    "pool": {"reference": 16, "replicate": 8},
    "group_sizes": [2, 4],
    "interval": {"resamples": 100},
}


def small_probe(path, source, **changes):
    """What a small probe of a checkpoint holds."""
    model = {"path": str(path), "device": "cpu"}
    prompts = {"source": str(source), "template": "none"}
    return {"model": model, "prompts": prompts, **SETTINGS, **changes}


def load_parts(path):
    """Give a checkpoint's model and its tokenizer."""
    classes = (transformers.AutoModelForCausalLM, transformers.AutoTokenizer)
    return [one.from_pretrained(path) for one in classes]


def write_adapter(base: Path, folder: Path) -> Path:
    """Write a LoRA adapter of a checkpoint, as PEFT draws it."""
    # Here, for known_truth.py imports this file where the tests' extras are not installed.
    import pytest

    peft = pytest.importorskip("peft", reason="adapters need the extra lora")
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    with warnings.catch_warnings(action="ignore"):
        peft.get_peft_model(model, config).save_pretrained(folder)
    return folder


# `##` spans two tokens, and begins inside `a#` or at its start in `##b` and `#`.
WORDS = ("<s>", "<end>", "a#", "##b", "#", "c")


def stopped_policy(*stops):
    """Make a random policy of `WORDS` that ends at `<end>` and at these texts."""
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}))
    tokenizer.decoder = decoders.Fuse()
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="<end>"
    )
    policy = random_policy(vocabulary=len(WORDS), ends=(1,))
    return replace(policy, tokenizer=wrapped, stops=StopStrings.of(stops, wrapped))


def a_part(model):
    """Shard a model by FSDP2, for a group of this process alone: it holds a part of it."""
    from torch import distributed
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    try:
        return fully_shard(model)
    finally:
        distributed.destroy_process_group()


def probe_of(path, **model):
    """A probe of a model, with prompts that are nowhere."""
    values = {"path": str(path), "device": "cpu", **model}
    return parse_probe({"model": values, "prompts": {"source": "x"}}, "probe")


def load(folder, **model):
    return load_policy(probe_of(folder, **model), folder.parent)


def change_config(folder, name="config.json", **changes):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# How a folder is spoilt.


def config(name="config.json", **changes):
    return lambda folder: change_config(folder, name, **changes)


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def remove(name):
    return lambda folder: [path.unlink() for path in folder.glob(name)]


def become_a_pickle(weights, name):
    def act(folder):
        (folder / weights).unlink()
        (folder / name).write_bytes(pickle.dumps(shutil.rmtree))

    return act


def keep_sentencepiece_only(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"\x0a\x10 no such model")
