"""Copies of checkpoints, to be changed and loaded."""

import json

from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import parse_probe


def load(folder, **model):
    values = {"path": str(folder), "device": "cpu", **model}
    probe = parse_probe({"model": values, "prompts": {"source": "x"}}, "probe")
    return load_policy(probe, folder.parent)


def change_config(folder, name="config.json", **changes):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def keep_sentencepiece_only(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"\x0a\x10 no such model")
