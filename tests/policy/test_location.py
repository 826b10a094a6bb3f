"""Where a checkpoint lies: the cache, a Hub that refuses, and no network at all."""

import huggingface_hub
import pytest
import torch
import transformers

from mse_lab.errors import InputError
from mse_lab.policy.fingerprint import identify_model
from mse_lab.policy.location import locate
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.prompts import Prompt
from served_hub import COMMIT, NOWHERE, ModelHub
from spoilt_checkpoints import change_config, keep_sentencepiece_only, load


@pytest.fixture
def hub(monkeypatch, tmp_path, checkpoint):
    with ModelHub(monkeypatch, tmp_path / "cache", checkpoint) as served:
        yield served


def probe(**model):
    values = {"model": {"device": "cpu", **model}, "prompts": {"source": "x"}}
    return parse_probe(values, "probe")


def test_what_is_neither_a_folder_nor_a_hub_name(hub, tmp_path):
    with pytest.raises(InputError, match=r"no such folder; give a .* folder or a Hub name"):
        locate("model.path", "a/b/c", None, tmp_path)
    assert hub.asked == []


@pytest.mark.parametrize("obstacle", ["unreachable", "offline", "slow"])
def test_without_network_and_cache_the_line_says_how_to_fetch_it(
    hub, monkeypatch, tmp_path, obstacle
):
    """The Hub client's own retries, 23 seconds of them, are not made."""
    expected = "the Hub cannot be reached"
    if obstacle == "unreachable":
        hub.move(NOWHERE)
    elif obstacle == "offline":
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        expected = "HF_HUB_OFFLINE is set"
    else:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
        expected = "does not answer within 0.2 s (HF_HUB_ETAG_TIMEOUT)"
    with pytest.raises(InputError, match=r"not in the local cache") as refused:
        load_policy(probe(path="slow/model", revision="v1"), tmp_path)
    assert len(hub.asked) <= 1
    assert expected in str(refused.value)
    assert str(refused.value).endswith("hf download slow/model --revision v1")


def test_a_hub_model_is_fetched_once_and_then_found_without_a_network(hub, tmp_path):
    config = probe(path="tiny/model")
    assert identify_model(config.model, tmp_path) == {"model": ""}
    fetched = load_policy(config, tmp_path)
    assert fetched.identity == {"model": COMMIT}
    hub.move(NOWHERE)
    hub.asked.clear()
    for revision in (None, "main", COMMIT):
        found = load_policy(probe(path="tiny/model", revision=revision), tmp_path)
        assert found.identity == fetched.identity
        assert identify_model(config.model, tmp_path) == {"model": COMMIT}
    assert hub.asked == []
    with pytest.raises(InputError, match=r"not in the local cache.*--revision v1"):
        load_policy(probe(path="tiny/model", revision="v1"), tmp_path)


def test_a_cache_that_lacks_the_weights_is_not_enough_without_a_network(hub, tmp_path):
    huggingface_hub.hf_hub_download("tiny/model", "config.json")
    hub.move(NOWHERE)
    with pytest.raises(InputError, match=r"incomplete in the local cache.*hf download"):
        load_policy(probe(path="tiny/model"), tmp_path)


def test_a_model_that_is_closed_later_is_still_found_in_the_cache(
    hub, monkeypatch, tmp_path
):
    """A login that has run out does not stop a run whose files are all there."""
    from served_hub import REFUSALS

    load_policy(probe(path="tiny/model"), tmp_path)
    monkeypatch.setitem(REFUSALS, "tiny", (403, "GatedRepo"))
    assert load_policy(probe(path="tiny/model"), tmp_path).identity == {"model": COMMIT}


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
