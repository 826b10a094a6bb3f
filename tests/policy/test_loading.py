"""Loading: whatever a library raises is one line, and an error of ours is not damage."""

import pytest
import torch
import transformers

from mse_lab.errors import InputError
from mse_lab.policy.policy import encode_prompts
from mse_lab.probe.prompts import Prompt
from spoilt_checkpoints import change_config, keep_sentencepiece_only, load


def test_a_panic_while_a_prompt_is_read_is_one_line(copy):
    piece = {"SpecialToken": {"id": "q", "type_id": 0}}
    template = {"single": [piece], "pair": [], "special_tokens": {}}
    change_config(
        copy, "tokenizer.json", post_processor={"type": "TemplateProcessing", **template}
    )
    policy, prompt = load(copy), Prompt(id="p", text="1", category="", record={})
    with pytest.raises(InputError, match=r"the tokenizer cannot be loaded: no entry"):
        encode_prompts(policy, [prompt], chat=False, new_tokens=1)


@pytest.mark.parametrize("error", [KeyError("ours"), KeyboardInterrupt()], ids=repr)
def test_an_error_of_ours_or_an_interruption_is_no_damage(copy, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("mse_lab.policy.policy.select_parameters", fail)
    with pytest.raises(type(error)):
        load(copy)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    with pytest.raises(KeyboardInterrupt if error.args == () else InputError):
        load(copy)


def test_missing_converters_are_named(copy, monkeypatch):
    keep_sentencepiece_only(copy)
    for name in ("is_sentencepiece_available", "is_tiktoken_available"):
        for module_ in (transformers.convert_slow_tokenizer, transformers.utils):
            if hasattr(module_, name):
                monkeypatch.setattr(module_, name, lambda: False)
    with pytest.raises(InputError, match="pip install sentencepiece tiktoken"):
        load(copy)


def test_memory_that_runs_out_is_named(copy, monkeypatch):
    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", fail)
    with pytest.raises(InputError, match=r"does not fit into memory.*bfloat16"):
        load(copy)
