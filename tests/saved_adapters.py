"""Adapters to load: saved by PEFT itself, with B other than zero."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import parse_probe
from mse_lab.scores.reference import weighted_gradient
from plain_scores import (
    PROMPT,
    assert_scores,
    joined,
    plain_scores,
    relative_gap,
    some_completions,
)

peft = pytest.importorskip("peft", reason="adapters need the extra lora")


NAMES = {"q_proj": "c_attn", "v_proj": "c_proj", "embed_tokens": "wte", "norm": "ln_f"}


def random_trained(model, seed=3):
    """Draw what is trained, B included, so that no gradient is zero."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data = (0.4 * noise).to(parameter.dtype)


def save_adapter(base, folder, **settings):
    """Save an adapter of a base; give the logits that PEFT's own model has with it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    if model.config.model_type == "gpt2":
        for key in ("target_modules", "modules_to_save"):
            if isinstance(settings.get(key), list):
                settings[key] = [NAMES.get(name, name) for name in settings[key]]
        settings["fan_in_fan_out"] = True
    defaults = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}
    config = peft.LoraConfig(task_type="CAUSAL_LM", **{**defaults, **settings})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        wrapped = peft.get_peft_model(model, config).eval()
        random_trained(wrapped)
        wrapped.save_pretrained(folder)
        return wrapped(torch.tensor([PROMPT])).logits


def load(base, adapter, parameters="all", seed=0, **model):
    values = {"path": str(base), "device": "cpu", "dtype": "float64", **model}
    values["adapter"] = adapter if isinstance(adapter, dict) else str(adapter)
    probe = parse_probe(
        {
            "model": values,
            "prompts": {"source": "x"},
            "sampling": {"temperature": 0.8},
            "parameters": parameters,
            "seed": seed,
        },
        "probe",
    )
    return replace(load_policy(probe, base), end_tokens=(1, 2))


def check_scores(policy, bound):
    completions = some_completions(policy)
    truth = plain_scores(policy, completions)
    assert_scores(policy, completions, bound, truth=truth)
    gradient, _ = weighted_gradient(policy, PROMPT, completions, np.ones(len(completions)))
    assert all(part.any() for part in gradient.values())
    assert relative_gap(joined(gradient), truth[0].sum(0)) < max(bound, 1e-6)
