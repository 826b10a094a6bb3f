"""Qwen2.5 of real size, its weights whatever they are: for counting, memory and speed."""

from typing import Any, NamedTuple

import torch
import transformers

from mse_lab.policy.policy import Policy


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

    def policy(self, device: str, dtype: torch.dtype) -> Policy:
        """Build it as a policy of which all parameters count."""
        model = self.build(device, dtype)
        return Policy(
            model=model,
            tokenizer=None,
            end_tokens=(1,),
            temperature=1.0,
            parameters=dict(model.named_parameters()),
        )


SHAPES = {
    "0.5B": Shapes(896, 4864, 24, 14, 2, 151_936, True),
    "1.5B": Shapes(1536, 8960, 28, 12, 2, 151_936, True),
    "7B": Shapes(3584, 18944, 28, 28, 4, 152_064, False),
}
