"""A policy without its weights: enough to tokenize prompts and to tell where texts end."""

from pathlib import Path
from typing import Any

import torch
import transformers

from mse_lab.policy.checkpoint import load_settings, load_tokenizer
from mse_lab.policy.loading import loading
from mse_lab.policy.location import Location, locate_model
from mse_lab.policy.policy import Policy, find_end_tokens
from mse_lab.policy.stop_strings import StopStrings
from mse_lab.probe.schema import Model, Probe


def load_empty(config: Model, root: Path) -> tuple[Location, Any]:
    """Make a model of a checkpoint's configuration, whose weights take no memory."""
    location, settings = load_settings(locate_model(config, root))
    with torch.device("meta"), loading(location, "config.json"):
        dtype = getattr(torch, config.dtype)
        return location, transformers.AutoModelForCausalLM.from_config(
            settings, dtype=dtype
        )


def load_outline(probe: Probe, root: Path) -> Policy:
    """Load a probe's policy from its configuration and tokenizer alone."""
    location, model = load_empty(probe.model, root)
    tokenizer = load_tokenizer(location)
    if location.gguf is None and location.file("generation_config.json") is not None:
        with loading(location, "generation_config.json"):
            read = transformers.GenerationConfig.from_pretrained
            model.generation_config = read(location.where, **location.options)
    return Policy(
        model=model,
        tokenizer=tokenizer,
        end_tokens=find_end_tokens(model, tokenizer, location),
        temperature=probe.sampling.temperature,
        parameters={},
        stops=StopStrings.of(probe.sampling.stop, tokenizer),
    )
