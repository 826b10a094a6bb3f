"""Qwen2.5 of real size, its weights whatever they are: for counting."""

from typing import Any, NamedTuple

import torch
import transformers


class Shapes(NamedTuple):
    """A Qwen2 as its config.json has it."""

    hidden: int
    inner: int
    layers: int
    heads: int
    keys: int
    vocabulary: int
    tied: bool

    def build(self, device: str, dtype: torch.dtype) -> Any:
        """Build it, its weights whatever they are."""
        config = transformers.Qwen2Config(
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.keys,
            vocab_size=self.vocabulary,
            tie_word_embeddings=self.tied,
        )
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
        return model.eval().requires_grad_(False)


SHAPES = {
    "0.5B": Shapes(896, 4864, 24, 14, 2, 151_936, True),
    "7B": Shapes(3584, 18944, 28, 28, 4, 152_064, False),
}
