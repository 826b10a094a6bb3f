"""Named random streams: the numbers depend on the seed and the stream's name alone.

A stream is a Philox counter generator whose key is a hash of its name. The uniform that
draws token t of completion c of a prompt's pool is number c of counter row t, for any batch
size, number of completions and number of processes.
"""

import hashlib
import json

import numpy as np

from mse_lab.arrays import Floats


def _key(seed: int, *name: str) -> int:
    text = json.dumps([seed, *name], ensure_ascii=False)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def stream(seed: int, *name: str) -> np.random.Generator:
    """Open the random stream of a name; streams of different names are independent.

    >>> stream(0, "bootstrap").random() == stream(0, "bootstrap").random()
    True
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, *name)))


def uniforms(
    seed: int, prompt_id: str, pool: str, completions: range, positions: int
) -> Floats:
    """Compute the uniforms for a prompt's completions, (N, T) in [0, 1).

    A uniform depends on (seed, prompt id, pool, number of the completion, position).

    >>> whole = uniforms(0, "a", "replicate", range(5), 8)
    >>> part = uniforms(0, "a", "replicate", range(3, 5), 2)
    >>> bool((whole[3:, :2] == part).all())
    True
    """
    key = _key(seed, "uniform", prompt_id, pool)
    rows = (np.random.Philox(key=key, counter=[0, t, 0, 0]) for t in range(positions))
    columns = [np.random.Generator(row).random(completions.stop) for row in rows]
    return np.stack(columns, axis=1)[completions.start :]
