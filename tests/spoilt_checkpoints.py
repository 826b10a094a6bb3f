"""Copies of checkpoints, to be changed and loaded."""

import json

from mse_lab.config.probe_files import parse_probe
from mse_lab.policy.policy import load_policy


def probe_of(path, **model):
    """A probe of a model, with prompts that are nowhere."""
    values = {"path": str(path), "device": "cpu", **model}
    return parse_probe({"model": values, "prompts": {"source": "x"}}, "probe")


def load(folder, **model):
    return load_policy(probe_of(folder, **model), folder.parent)


def change_config(folder, name="config.json", **changes):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def keep_sentencepiece_only(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"\x0a\x10 no such model")
