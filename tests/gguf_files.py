"""GGUF files: a random model of the Qwen2 architecture, as llama.cpp stores it."""

from pathlib import Path

import gguf
import numpy as np

# `##` spans two tokens; the last two are special.
WORDS = ("a", "b", "##", "a#", "#", "c", "<s>", "<end>")
_PARTS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    "self_attn.o_proj": "attn_output",
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    "model.embed_tokens": "token_embd",
    "model.layers": "blk",
    "model.norm": "output_norm",
}


def _tensor_name(name: str) -> str:
    name = name.replace("model.embed_tokens", "token_embd").replace(
        "model.norm", "output_norm"
    )
    for ours, theirs in _PARTS.items():
        name = name.replace(ours, theirs)
    return name.replace("model.layers", "blk")


def write_gguf(path: Path, model, *, architecture="qwen2", tokenizer=True) -> Path:
    """Write a model of `WORDS` whole, in float32; or without its tokenizer."""
    config, writer = model.config, gguf.GGUFWriter(str(path), architecture)
    writer.add_context_length(32)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(len(WORDS))
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt2")
        writer.add_token_list(list(WORDS))
        writer.add_token_types([1] * 6 + [3, 3])
        writer.add_token_merges(["a #", "# #"])
        writer.add_bos_token_id(6)
        writer.add_eos_token_id(7)
    for name, parameter in model.named_parameters():
        writer.add_tensor(_tensor_name(name), parameter.numpy().astype(np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file):
        write()
    writer.write_tensors_to_file()
    writer.close()
    return path
