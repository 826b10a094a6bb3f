"""Randomly initialised tiny models and checkpoints for the tests; nothing is downloaded."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from mse_lab.policy import Policy

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


def random_model(architecture, vocabulary=11, tied=True, **sizes):
    """Build a tiny model of an architecture: qwen2, qwen3, llama, gemma2 or gpt2."""
    common = {**SIZES, "vocab_size": vocabulary, "tie_word_embeddings": tied, **sizes}
    if architecture == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=vocabulary, n_embd=16, n_layer=2, n_head=4, n_positions=64,
            tie_word_embeddings=tied, bos_token_id=None, eos_token_id=1,
        )  # fmt: skip
        model = transformers.GPT2LMHeadModel(config)
    elif architecture == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**common))
    elif architecture == "qwen3":
        model = transformers.Qwen3ForCausalLM(
            transformers.Qwen3Config(**common, head_dim=4)
        )
    elif architecture == "gemma2":
        # Norms that add 1 to the weight, soft-capped logits, windows below the prompt.
        config = transformers.Gemma2Config(**common, head_dim=4, sliding_window=6)
        model = transformers.Gemma2ForCausalLM(config)
    else:
        model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**common))
    randomise(model)
    return model.eval().requires_grad_(False)


def random_policy(
    architecture="qwen2", dtype=torch.float64, ends=(1, 2), batch=5, **options
):
    """Wrap a random model as a policy with two end tokens."""
    model = random_model(architecture, **options).to(dtype)
    return Policy(
        model=model,
        tokenizer=None,
        end_tokens=ends,
        temperature=0.8,
        parameters=dict(model.named_parameters()),
        batch=batch,
    )


def write_checkpoint(folder: Path, seed=0, **options) -> Path:
    """Write a checkpoint of four tokens (`<end>`, 1, 2, 3), small enough to enumerate."""
    words = {"<end>": 0, "1": 1, "2": 2, "3": 3}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>"
    ).save_pretrained(folder)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2,
             "num_key_value_heads": 1, "eos_token_id": 0, "pad_token_id": None}  # fmt: skip
    model = random_model("qwen2", vocabulary=4, **(sizes | options))
    randomise(model, seed)
    model.save_pretrained(folder)
    return folder
