"""What a prompt's completions are like, counted in their tokens."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def describe_tokens(
    completions: Sequence[NDArray[np.int64]], ended_N: NDArray[np.bool_]
) -> dict[str, Any]:
    """Count in the tokens of a prompt's completions what `CompletionSummary` needs.

    >>> one, other = np.array([7, 2]), np.array([7, 7])
    >>> counts = describe_tokens([one, one, other], np.array([True, True, False]))
    >>> {name: np.asarray(counts[name]).tolist() for name in ("end_ids", "end_counts")}
    {'end_ids': [2], 'end_counts': [2]}
    """
    times = Counter(tokens.tobytes() for tokens in completions)
    last_N = np.array([tokens[-1] for tokens in completions], dtype=np.int64)
    lengths_N = np.array([len(tokens) for tokens in completions])
    end_ids, end_counts = np.unique(last_N[ended_N], return_counts=True)
    return {
        "distinct": len(times) / len(completions),
        "commonest": max(times.values()) / len(completions),
        "empty": float((ended_N & (lengths_N == 1)).mean()),
        "end_ids": end_ids,
        "end_counts": end_counts,
    }
