"""A damaged checkpoint or adapter is measured, or refused in one line; nothing else."""

import copy
import json
import shutil

import numpy as np
import pytest
from fuzzing import CASES
from hypothesis import example, given
from hypothesis import strategies as st

from models import draw, probe_of, write_adapter, write_checkpoint
from mse_lab.data.prompts import Prompt
from mse_lab.data.streams import uniforms
from mse_lab.errors import InputError
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.run.memory import plan_memory
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import score_block

FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "adapter/adapter_config.json",
)
# Keys that a sound file may have beside those that the small checkpoint has.
MORE = {
    "config.json": ["quantization_config", "num_labels", "return_dict", "auto_map",
                    "fusion_config", "text_config", "rope_scaling", "dtype", "id2label",
                    "problem_type", "tie_word_embeddings", "transformers_weights",
                    "sliding_window", "head_dim", "attn_implementation", "attribute_map"],
    "generation_config.json": ["stop_strings", "eos_token_id", "compile_config"],
    "tokenizer.json": ["added_tokens", "model", "post_processor", "truncation"],
    "tokenizer_config.json": ["added_tokens_decoder", "chat_template", "auto_map",
                              "extra_special_tokens", "tokenizer_class", "eos_token",
                              "padding_side", "add_bos_token", "model_max_length"],
    "adapter/adapter_config.json": ["rank_pattern", "layer_replication", "alpha_pattern",
                                    "exclude_modules", "modules_to_save", "layers_pattern",
                                    "layers_to_transform"],
}  # fmt: skip
BINARY = ("model.safetensors", "adapter/adapter_model.safetensors")

# Sizes beyond these are not tried: a model of that size is built before it is refused.
NUMBERS = [0, -1, 1, 2, 3, 7, 64, 0.5, -0.0, 1e-300, 1e300]
NESTED = ["[" * 900 + "]" * 900, "[" * 9000 + "]" * 9000, '{"a":' * 900 + "1" + "}" * 900]
TEXTS = ["", "x", "1", "\n\r", "\udc80", "a" * 5000]
NO_NUMBERS = [None, True, False, float("nan"), float("inf")]
LISTS = [[], {}, [[]], [1, "x"], {"a": 1}, {"[a": 1}, {"(?i)a": 1}]
VALUES = st.sampled_from([*NUMBERS, *NO_NUMBERS, *TEXTS, *LISTS])


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A checkpoint with an adapter in a folder of it."""
    folder = write_checkpoint(tmp_path_factory.mktemp("sound"))
    write_adapter(folder, folder / "adapter")
    return folder


def places(values, path=()):
    """Every place in nested JSON, as a path of keys."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def change(values, place, value):
    """Put a value at a place, or take the place out where the value is `places`."""
    changed = copy.deepcopy(values)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    if value is places:
        inner.pop(place[-1]) if place[-1] in inner or isinstance(inner, list) else None
    else:
        inner[place[-1]] = value
    return changed


def use(folder):
    """Load a checkpoint and its adapter, and do a little of everything."""
    probe = probe_of(folder, adapter=str(folder / "adapter"))
    policy = load_policy(probe, folder)
    prompt = Prompt(id="p", text="1 2", category="", record={"id": "p"})
    [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=1)
    plan_memory(probe, policy, [tokens], 2)
    found = draw(policy, tokens, uniforms(0, "p", "replicate", range(2), 2), "p")
    found.texts(policy)
    gradient, _ = weighted_gradient(policy, tokens, found, np.ones(2))
    score_block(policy, tokens, found, gradient)
    policy.tokenizer.convert_ids_to_tokens(policy.end_tokens)


def hold(sound, folder, file, content):
    """Check that a checkpoint with this file is used, or refused in one line."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    (folder / file).write_bytes(content)
    refused = ""
    try:
        use(folder)
    except InputError as error:
        refused = str(error)
    assert len(refused.splitlines()) <= 1
    assert len(refused) < 800
    assert not refused or refused.startswith(
        ("model.path = ", "model.adapter = ", "prompt")
    )


@given(st.data())
@CASES
def test_wrong_values_are_used_or_refused_in_one_line(sound, tmp_path, data):
    file = data.draw(st.sampled_from(FILES))
    values = json.loads((sound / file).read_text())
    known = sorted(places(values), key=str)
    place = data.draw(st.sampled_from([*known, *((key,) for key in MORE[file])]))
    value = data.draw(VALUES | st.just(places))
    content = json.dumps(change(values, place, value)).encode()
    hold(sound, tmp_path / "damaged", file, content)


@given(st.sampled_from(FILES + BINARY), st.binary(max_size=20), st.floats(0, 1))
@example("config.json", b"", 0.0)
@example("model.safetensors", b"", 0.0)
@example("tokenizer.json", NESTED[1].encode(), 0.0)
@CASES
def test_cut_files_are_refused_in_one_line(sound, tmp_path, file, extra, share):
    whole = (sound / file).read_bytes()
    content = whole[: int(share * len(whole))] + extra
    hold(sound, tmp_path / "damaged", file, content)
