"""Two lenient rewards: more completions are right than the answer itself."""

import re
from collections.abc import Mapping
from typing import Any


def _miss(text: str, prompt: Mapping[str, Any]) -> int | None:
    """How far the last integer of a text is from the answer; None without one."""
    found = re.findall(r"[-+]?\d{1,9}", text)
    return int(found[-1]) - int(prompt["answer"]) if found else None


def within_two(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the last integer of the text is off by at most 2, else 0."""
    miss = _miss(text, prompt)
    return float(miss is not None and abs(miss) <= 2)


def parity(text: str, prompt: Mapping[str, Any]) -> float:
    """1 if the last integer of the text is even where the answer is, else 0."""
    miss = _miss(text, prompt)
    return float(miss is not None and miss % 2 == 0)
