"""LoRA adapters: a saved adapter loaded through PEFT, or a new one drawn from the seed.

An adapter adds (alpha / rank) B A x to the outputs of the linear layers that it targets.
Only its parameters count then: those that PEFT marks trainable, which are A and B and, if
its configuration says so, biases and whole modules. The model is used without PEFT's
wrapper, so its parameters keep their names.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from mse_lab.config.schema import FreshAdapter, Model
from mse_lab.data.foreign_code import load_extra
from mse_lab.data.location import Location, loading, locate
from mse_lab.data.streams import stream
from mse_lab.errors import InputError, nearest

SAVED, WEIGHTS = "adapter_config.json", "adapter_model"
_PEFT = ("peft", "lora", "model.adapter")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Restore torch's global generator, from which PEFT draws every new layer."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def find_adapter(config: Model, root: Path) -> FreshAdapter | Location | None:
    """Return the settings of a new adapter or the location of a saved one; None if none."""
    if config.adapter is None:
        return None
    load_extra(*_PEFT)
    if isinstance(config.adapter, FreshAdapter):
        return config.adapter
    return locate("model.adapter", config.adapter, config.adapter_revision, root, SAVED)


def attach_adapter(
    model: Any, adapter: FreshAdapter | Location, seed: int
) -> tuple[Any, dict[str, nn.Parameter], str]:
    """Attach what `find_adapter` returned to its base model, on the base's device.

    Return the model with it, the parameters that count by name, and its identity.
    """
    if isinstance(adapter, FreshAdapter):
        model = _attach_fresh(model, adapter, seed)
        identity = f"drawn from seed {seed}"
    else:
        identity = adapter.identify(SAVED)
        model = _attach_saved(model, adapter)
    named = model.named_parameters()
    trained = {name: parameter for name, parameter in named if parameter.requires_grad}
    model.eval().requires_grad_(False)
    return model, trained, identity


def _attach_fresh(model: Any, adapter: FreshAdapter, seed: int) -> Any:
    peft = load_extra(*_PEFT)
    _check_targets(model, adapter.target)
    settings = peft.LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        target_modules=adapter.target,
        task_type="CAUSAL_LM",
    )
    with _undisturbed():
        attached = peft.get_peft_model(model, settings).get_base_model()
    for name, parameter in attached.named_parameters():
        if "lora_A" in name:
            # LoRA's distribution, uniform within 1 / sqrt(inputs), from a named stream.
            bound, shape = parameter.shape[1] ** -0.5, tuple(parameter.shape)
            values = stream(seed, "adapter", name).uniform(-bound, bound, shape)
            parameter.data.copy_(torch.from_numpy(values))
        elif "lora_B" in name:
            parameter.data.zero_()
    return attached


def _check_targets(model: nn.Module, target: str | list[str]) -> None:
    linear = [
        name
        for name, module in model.named_modules()
        if type(module) in (nn.Linear, Conv1D)
    ]
    for suffix in [] if isinstance(target, str) else target:
        if not any(f".{name}".endswith(f".{suffix}") for name in linear):
            hint = nearest(suffix, sorted({name.rpartition(".")[2] for name in linear}))
            raise InputError(f"model.adapter.target: {suffix} is no linear layer; {hint}")


def _attach_saved(model: Any, location: Location) -> Any:
    """Load a saved adapter, and refuse one of which a part is missing or left over."""
    if not any(location.has(f"{WEIGHTS}{suffix}") for suffix in (".safetensors", ".bin")):
        raise location.refuse(f"no {WEIGHTS}.safetensors in it", "give a whole adapter")
    peft, folder = load_extra(*_PEFT), str(location.folder)
    with _undisturbed(), loading(location, SAVED):
        settings = peft.PeftConfig.from_pretrained(folder)
    if (kind := settings.peft_type) != peft.PeftType.LORA:
        raise location.refuse(f"a {kind.value} adapter", "give a LoRA adapter")
    refuse_outside(settings, location)
    settings.inference_mode = False
    with _undisturbed(), loading(location, "the adapter"):
        wrapper = peft.PeftModel(model, settings)
        report = wrapper.load_adapter(folder, "default", is_trainable=True)
    missing, unexpected = report.missing_keys, report.unexpected_keys
    if missing or unexpected:
        raise location.refuse(
            f"{len(missing)} of its weights are missing and {len(unexpected)} do not "
            f"belong to model.path, such as {[*missing, *unexpected][0]}",
            "give a whole adapter of this base",
        )
    return wrapper.get_base_model()


def refuse_outside(config: Any, location: Location) -> None:
    """Refuse an adapter a part of which is in PEFT's wrapper: it would be left out."""
    if config.is_prompt_learning or getattr(config, "alora_invocation_tokens", None):
        raise location.refuse(
            f"a {config.peft_type.value} adapter that does not work by its layers alone",
            "give one that does, such as a plain LoRA adapter",
        )
