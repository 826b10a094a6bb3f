"""Plain data: answers as JSON has them."""

import math
from collections.abc import Mapping
from typing import Any


def as_data(value: Any) -> Any:
    """Turn named tuples into mappings, and numbers that JSON does not have into words."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_data(value._asdict())
    if isinstance(value, Mapping):
        return {key: as_data(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [as_data(entry) for entry in value]
    if isinstance(value, float):
        # So that it is the same where only the rounding of a processor differs.
        return float(f"{value:.5g}") if math.isfinite(value) else str(value)
    return value
