"""Refusals: what has no exact score, by name, and the patterns that leave it out."""

import re
from collections.abc import Iterable, Sequence

from mse_lab.errors import InputError
from mse_lab.policy.policy import Policy

# Where more kinds of parameters are left out already, the patterns are a choice of what to
# keep, and it is shorter to add to them than to write down what is not kept.
_SHORT = 8


def kind(name: str) -> str:
    """Give a pattern for a name and its like in other layers.

    >>> kind("model.layers.10.mlp")
    'model[.]layers[.][0-9]+[.]mlp'
    """
    return re.sub(r"\d+", "[0-9]+", name.replace(".", "[.]"))


def _kinds(names: Iterable[str]) -> set[str]:
    return {kind(name) for name in names}


def refuse(policy: Policy, names: Sequence[str], reason: str) -> InputError:
    """Say that some scores cannot be had, and which patterns leave their parameters out.

    Args:
        policy: The policy.
        names: Parameters that have no exact score; their like in other layers is left out
            by the patterns, too.
        reason: Why, in words.
    """
    module_name = names[0].rpartition(".")[0]
    module = policy.model.get_submodule(module_name)
    refused, kept = _kinds(names), _kinds(policy.parameters)
    everything = dict(policy.model.named_parameters())
    absent = _kinds(name for name in everything if name not in policy.parameters)
    out = "|".join(sorted(refused))
    if absent & kept or len(absent) > _SHORT:
        remedy = f"begin each pattern of parameters with '^(?!(?:{out})$).*'"
    else:
        out = "|".join(sorted(absent | refused))
        remedy = f"leave it out with parameters: ['^(?!(?:{out})$)']"
    return InputError(
        f"no exact score for {module_name} ({type(module).__name__}): {reason}; {remedy}"
    )
