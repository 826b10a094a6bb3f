"""Named random streams from one seed: what is drawn depends on its name alone.

A stream is a Philox counter generator whose key is a hash of its name. The uniform that
draws token t of completion c of a prompt's pool is number c of counter row t, whatever
the batch, the number of completions or of processes.
"""

import hashlib
import json

import numpy as np
from numpy.typing import NDArray


def _key(seed: int, *name: str) -> int:
    text = json.dumps([seed, *name], ensure_ascii=False)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def stream(seed: int, *name: str) -> np.random.Generator:
    """Open the random stream of a name; other names give independent streams.

    >>> stream(0, "bootstrap").random() == stream(0, "bootstrap").random()
    True
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, *name)))


def uniforms(
    seed: int, prompt_id: str, pool: str, completions: range, positions: int
) -> NDArray[np.float64]:
    """Draw the uniforms that draw a prompt's completions, (N, T) in [0, 1).

    Each is keyed by (seed, prompt id, pool, number of the completion in it, position).

    >>> whole = uniforms(0, "a", "replicate", range(5), 8)
    >>> part = uniforms(0, "a", "replicate", range(3, 5), 2)
    >>> bool((whole[3:, :2] == part).all())
    True
    """
    key = _key(seed, "uniform", prompt_id, pool)
    rows = (np.random.Philox(key=key, counter=[0, t, 0, 0]) for t in range(positions))
    columns = [np.random.Generator(row).random(completions.stop) for row in rows]
    return np.stack(columns, axis=1)[completions.start :]
