"""Names that trainers and papers give to estimators which have another name here."""

import re
from collections.abc import Iterable

from mse_lab.errors import nearest

ALIASES = {
    **dict.fromkeys(("rloo", "loo", "leave-one-out"), "grpo"),
    **dict.fromkeys(("reinforce", "none", "no-baseline"), "vanilla"),
    "dr-grpo": "centred",
    "dapo": "{name: grpo-std, length: token-batch}",
}


def hint(name: str, known: Iterable[str]) -> str:
    """Say what an unknown estimator is called here, or is nearest to.

    >>> hint("Dr. GRPO", ["grpo"])
    'here it is centred'
    """
    plain = re.sub("[^a-z0-9+]+", "-", name.lower())
    if plain in ALIASES:
        return f"here it is {ALIASES[plain]}"
    return nearest(plain, list(known))
