"""Where the tables go: the marked part of `results/COST.md`."""

import re
from pathlib import Path

import torch

from benchmarks import tool

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def heading(root: Path) -> tuple[str, str]:
    """Say when, on what and with which versions: the section's title, and a line."""
    found = tool.environment(root)
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    title = f"{found['date']}, {found['device_model']}, commit {found['commit']}"
    threads = f"{torch.get_num_threads()} threads, python {found['python']}"
    return title, f"{threads}, {versions}."


def replace_marked(page: Path, content: str) -> bool:
    """Write content between the markers of a page; return whether it has them."""
    text = page.read_text(encoding="utf-8")
    found = re.compile(f"{BEGIN}.*?{END}", re.DOTALL)
    if not found.search(text):
        return False
    marked = f"{BEGIN}\n{content}\n{END}"
    page.write_text(found.sub(lambda _: marked, text), encoding="utf-8")
    return True
