"""Load a checkpoint through `from_pretrained`, and refuse what cannot be measured.

Weights that would be random or have no gradient, and models that are not decoders, are
refused in one line before the first completion.
"""

import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers

from mse_lab.config.schema import Model
from mse_lab.data.foreign_code import load_extra
from mse_lab.data.location import Location, loading
from mse_lab.errors import InputError

# Arguments of every `from_pretrained`; code in a checkpoint is never run.
OPTIONS = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def _loading_quietly(location: Location, what: str) -> Iterator[None]:
    """Show no progress bars, logs and warnings."""
    transformers.utils.logging.disable_progress_bar()
    for library in ("transformers", "huggingface_hub", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
    with warnings.catch_warnings(), loading(location, what):
        warnings.simplefilter("ignore")
        yield


def _read(location: Location, what: str, kind: Any) -> Any:
    with _loading_quietly(location, what):
        return kind.from_pretrained(str(location.folder), **OPTIONS)


def load_checkpoint(
    location: Location, config: Model, device: torch.device
) -> tuple[Any, Any, str]:
    """Load a checkpoint's model and tokenizer, and give its identity."""
    settings = _load_settings(location)
    identity = location.identify()  # Before the weights, which take longer.
    tokenizer = _load_tokenizer(location)
    return _load_model(location, settings, config, device), tokenizer, identity


def _load_settings(location: Location) -> Any:
    settings = _read(location, "config.json", transformers.AutoConfig)
    known = type(settings) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    if settings.is_encoder_decoder or not known:
        reason = f"{settings.model_type} is no causal language model of a decoder alone"
        raise location.refuse(reason, "give such a model")
    return settings


def _load_tokenizer(location: Location) -> Any:
    tokenizer = _read(location, "the tokenizer", transformers.AutoTokenizer)
    with loading(location, "the tokenizer"):
        empty = set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens)
    # Without any file transformers makes an empty tokenizer for some architectures.
    if empty:
        raise location.incomplete("no tokenizer in it")
    return tokenizer


def _load_model(
    location: Location, settings: Any, config: Model, device: torch.device
) -> Any:
    """Load a checkpoint's weights, to a device unless `config.device_map` spreads them.

    The model is in evaluation mode, and none of its parameters requires gradients.
    """
    quantised = is_quantised(location, settings, adapted=config.adapter is not None)
    # Quantised weights cannot be moved once they are loaded.
    placement: dict[str, Any] = {"device_map": {"": device}} if quantised else {}
    if config.device_map is not None:
        load_extra("accelerate", "measure", f"model.device_map = {config.device_map}")
        placement = {"device_map": config.device_map}
    # transformers leaves out a generation_config.json that it cannot read, and the end
    # tokens with it.
    if location.has("generation_config.json"):
        _read(location, "the model", transformers.GenerationConfig)
    with _loading_quietly(location, "the model"):
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            str(location.folder),
            dtype=getattr(torch, config.dtype),
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            # Grouped matrix products need rows of a multiple of 16 bytes and no float64.
            **({} if config.dtype == "bfloat16" else {"experts_implementation": "eager"}),
            **OPTIONS,
            **placement,
        )
        model, report = loaded
        if not placement:
            model.to(device)
    # transformers draws missing weights at random.
    mismatched = [key for key, *_ in report["mismatched_keys"]]
    if lacking := sorted({*report["missing_keys"], *mismatched}):
        raise location.refuse(
            f"{len(lacking)} weights are missing or of another shape, such as {lacking[0]}",
            "they would be random; give a whole checkpoint",
        )
    refuse_forward(location, model)
    if config.device_map is not None:
        _refuse_scattered(location, model)
    model.eval().requires_grad_(False)
    return model


def is_quantised(location: Location, settings: Any, *, adapted: bool) -> bool:
    """Tell whether weights are quantised; refuse them if their gradient is needed."""
    # The four bits of bitsandbytes are exact beside an adapter. Its eight bits round
    # activations by a scale that depends on the rest of the batch, and so log pi of a
    # completion depends on the batch. Other methods have not been tested.
    config = getattr(settings, "quantization_config", None)
    if config is None:
        return False
    config = config if isinstance(config, dict) else config.to_dict()
    name = str(getattr(config.get("quant_method"), "value", config.get("quant_method")))
    if not adapted:
        raise location.refuse(
            f"its weights are quantised ({name}) and have no gradient",
            "set model.adapter to measure an adapter on it, or give unquantised weights",
        )
    if not (name.startswith("bitsandbytes") and config.get("load_in_4bit")):
        raise location.refuse(
            f"an adapter on this quantisation ({name}) has no exact score",
            "give unquantised weights, or the four bits of bitsandbytes",
        )
    return True


def refuse_forward(location: Location, model: Any) -> None:
    """Refuse a model that contains an adapter or does not take `logits_to_keep`."""
    # transformers says it by this name, or in an error.
    if getattr(model, "_hf_peft_config_loaded", False):
        raise location.refuse(
            "it is a saved adapter", "give it as model.adapter, and its base as model.path"
        )
    if "logits_to_keep" not in inspect.signature(type(model).forward).parameters:
        raise location.refuse(
            f"{type(model).__name__} takes no logits_to_keep", "give a decoder-only model"
        )


def _refuse_scattered(location: Location, model: Any) -> None:
    what = f"model.device_map = auto: {location.name}"
    outside = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if outside or "disk" in getattr(model, "hf_device_map", {}).values():
        raise InputError(
            f"{what} does not fit on the devices ({len(outside)} weights would stay "
            "outside); use model.dtype=bfloat16, a smaller model or more devices"
        )
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    tied = getattr(model.config.get_text_config(), "tie_word_embeddings", False)
    if tied and head is not None and head.weight is not embedding.weight:
        raise InputError(
            f"{what}: its tied head and embedding are separate on two devices; use "
            "model.device"
        )
