"""The estimators by name, and a user's own as `package.module:function`.

An entry of a probe's `estimators` is a name, or a mapping of the name, of parameters and
of the length dial, which all estimators have:

    estimators:
      - grpo
      - {name: pass-at-k, k: 4}
      - {name: grpo-std, eps: 1.0e-6, length: sequence}
      - {name: "my_package.weights:clipped", clip: 2, unbiased: false, reward_only: true}

A user's own is a function `weights(groups: Groups, *, param=default) -> weights_PRG`. It
counts as biased, and as looking at everything, unless its entry says otherwise by
attributes of `Estimator`. A parameter that Python has another use for ends in `_` there:
`lambda` is `lambda_`.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from keyword import iskeyword
from typing import Any

import numpy as np
from pydantic import StrictBool, TypeAdapter, ValidationError

from mse_lab.arrays import LARGEST, Floats
from mse_lab.config.schema import EstimatorEntry, Positive
from mse_lab.data.foreign_code import guard, load_function, protect
from mse_lab.data.identity import identify_named
from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.estimators import baselines, batch, objectives
from mse_lab.estimators.groups import Groups
from mse_lab.estimators.objectives import Length, normalise_length

Declarations = dict[str, Any]


@dataclass(frozen=True)
class Estimator:
    """An estimator as a run uses it."""

    name: str  # As in the probe, with the parameters given there: `pass-at-k(k=4)`.
    weights: Callable[..., Floats]  # Groups -> weights w_i, (P, R, G).
    unbiased: bool = False  # Its mean is the gradient of the mean reward.
    # Its weights depend on the group's rewards and the prompt's value alone.
    reward_only: bool = False
    # It looks at no other prompt, so prompts' errors are independent.
    group_local: bool = False
    # Its weights depend on the prompt's value, whose estimate varies.
    knows_value: bool = False
    # Its weights depend on b*, which is learnt from other groups.
    learns_baseline: bool = False
    binary: bool = False  # It needs rewards in {0, 1}.
    smallest_group: int = 1  # The least G it is defined for.
    smallest_batch: int = 1  # The least P it is defined for.
    # alpha and lambda where its baseline is alpha + lambda times the mean of the others.
    affine: tuple[float, float] | None = None
    # What its parameters, as far as they are given, say of the fields above.
    declare: Callable[[Declarations], Declarations] | None = None
    code: str = ""  # Identity of a user's own function; empty for one of ours.

    @property
    def takes_rewards_alone(self) -> bool:
        """Whether the rewards of a group say its weights, and nothing else does."""
        return self.reward_only and self.group_local and not self.knows_value


# What the weights look at, and whether their mean is the gradient.
_GROUP: Declarations = {"group_local": True}
_REWARDS: Declarations = {"group_local": True, "reward_only": True}
_UNBIASED: Declarations = {"unbiased": True}
_BASELINE: Declarations = {**_REWARDS, **_UNBIASED}
# What they need.
_PAIR: Declarations = {"smallest_group": 2}
_BINARY_PAIR: Declarations = {"smallest_group": 2, "binary": True}
_PROMPTS: Declarations = {"smallest_batch": 2}
_PLUGGED_IN: Declarations = {**_GROUP, **_UNBIASED, **_PAIR}


def _affine(given: Declarations) -> Declarations:
    alpha, factor = given["alpha"], given.get("lambda", 0.0)
    return {"affine": (alpha, factor), "smallest_group": 2 if factor else 1}


def _over_batch(given: Declarations) -> Declarations:
    if given.get("over") != "batch":
        return {}
    return {"group_local": False, "smallest_group": 1, "smallest_batch": 2}


def _pass_at_k(given: Declarations) -> Declarations:
    return {"smallest_group": given["k"]} if "k" in given else {}


_LIST = (
    Estimator("vanilla", baselines.vanilla, affine=(0.0, 0.0), **_BASELINE),
    Estimator("oracle", baselines.oracle, knows_value=True, **_BASELINE),
    Estimator(
        "best-constant",
        baselines.best_constant,
        learns_baseline=True,
        **_GROUP,
        **_UNBIASED,
    ),
    Estimator("grpo", baselines.grpo, affine=(0.0, 1.0), **_BASELINE, **_PAIR),
    Estimator("affine", baselines.affine, declare=_affine, **_BASELINE),
    Estimator("constant", baselines.constant, declare=_affine, **_BASELINE),
    Estimator("centred", baselines.centred, **_REWARDS, **_PAIR),
    Estimator("grpo-std", objectives.grpo_std, **_REWARDS, **_PAIR),
    Estimator("grpo-loo-std", objectives.grpo_loo_std, **_REWARDS, **_PAIR),
    Estimator("median", objectives.median, **_REWARDS, **_PAIR),
    Estimator("quantile", objectives.quantile, **_REWARDS, **_PAIR),
    Estimator("norm-weighted", baselines.norm_weighted, declare=_over_batch, **_PLUGGED_IN),
    Estimator("best-constant-loo", baselines.best_constant_loo, **_PLUGGED_IN),
    Estimator("opo", baselines.opo, **_GROUP, **_PAIR),
    Estimator("opo-loo", baselines.opo_loo, **_PLUGGED_IN),
    Estimator("maxrl", objectives.maxrl, **_REWARDS, **_BINARY_PAIR),
    Estimator(
        "pass-at-k", objectives.pass_at_k, declare=_pass_at_k, **_REWARDS, **_BINARY_PAIR
    ),
    Estimator("global-mean", batch.global_mean, **_UNBIASED, **_PROMPTS),
    Estimator("reinforce++", batch.reinforce_plus_plus),
    Estimator("batch-std", batch.batch_std, **_PAIR),
    Estimator("shrinkage", batch.shrinkage, **_UNBIASED, **_PAIR, **_PROMPTS),
    Estimator("bnpo", batch.bnpo, **_BINARY_PAIR, **_PROMPTS),
)

# Names that trainers and papers give to estimators which have another name here.
_ALIASES = {
    **dict.fromkeys(("rloo", "loo", "leave-one-out"), "grpo"),
    **dict.fromkeys(("reinforce", "none", "no-baseline"), "vanilla"),
    "dr-grpo": "centred",
    "dapo": "{name: grpo-std, length: token-batch}",
}

ESTIMATORS: dict[str, Estimator] = {estimator.name: estimator for estimator in _LIST}

# What the entry of a user's own may say of it.
_DECLARATIONS: dict[str, Any] = {
    **dict.fromkeys(("unbiased", "reward_only", "group_local"), StrictBool),
    **dict.fromkeys(("knows_value", "binary"), StrictBool),
    **dict.fromkeys(("smallest_group", "smallest_batch"), Positive),
}


def _checked(name: str, given: Mapping[str, Any], kinds: Mapping[str, Any]) -> Declarations:
    """Validate values against annotations; one that has none, or a text, is as it is."""
    checked = dict(given)
    for key, value in given.items():
        kind = kinds.get(key, inspect.Parameter.empty)
        if kind is inspect.Parameter.empty or isinstance(kind, str):
            continue
        try:
            checked[key] = TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"].removeprefix("Input ")
            said = f"{name}: {key} = {shown(value)}: {reason}"
            raise InputError(f"estimators: {said}") from None
    return checked


def _key_of(parameter: str) -> str:
    key = parameter.removesuffix("_")
    return key if iskeyword(key) else parameter


def _check_parameters(estimator: Estimator, given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(estimator.weights).parameters.values())
    known = {_key_of(one.name): one for one in parameters[1:]}  # all after the groups
    takes_any = any(one.kind is one.VAR_KEYWORD for one in known.values())
    for key in given:
        if key not in known and not takes_any:
            hint = nearest(key, [*known, "length"])
            raise InputError(f"estimators: {estimator.name} takes no {key}; {hint}")
    for key, one in known.items():
        variadic = one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if one.default is one.empty and key not in given and not variadic:
            raise InputError(f"estimators: {estimator.name} needs {key}; add it")
    kinds = {key: one.annotation for key, one in known.items()}
    return _checked(estimator.name, given, kinds)


def _with_parameters(estimator: Estimator, given: Mapping[str, Any]) -> Estimator:
    values = _check_parameters(estimator, given)
    if not values:
        return estimator
    described = ", ".join(f"{key}={value}" for key, value in values.items())
    named = {f"{key}_" if iskeyword(key) else key: one for key, one in values.items()}
    return replace(
        estimator,
        name=f"{estimator.name}({described})",
        weights=partial(estimator.weights, **named),
        **(estimator.declare(values) if estimator.declare else {}),
    )


def _with_length(estimator: Estimator, length: Length) -> Estimator:

    def weights(groups: Groups) -> Floats:
        return normalise_length(estimator.weights(groups), groups.lengths_PRG, length)

    name = estimator.name.removesuffix(")")
    joint = ", " if name != estimator.name else "("
    return replace(
        estimator,
        name=f"{name}{joint}length={length})",
        weights=weights,
        unbiased=estimator.unbiased and length == "none",
        reward_only=estimator.reward_only and length == "none",
        group_local=estimator.group_local and length != "token-batch",
        affine=estimator.affine if length == "none" else None,
    )


def _from_module(name: str, declared: Mapping[str, Any]) -> Estimator:
    """Load a user's function, guarded; what it returns is checked at every call."""
    function, what = load_function(name, "estimators")

    @wraps(function)
    def weights(groups: Groups, **parameters: Any) -> Floats:
        with guard(f"{what}: failed"):
            raw = np.asarray(function(Groups(**protect(vars(groups))), **parameters))
        shape, numbers = groups.rewards_PRG.shape, raw.dtype.kind in "biuf"
        if raw.shape != shape or not numbers or not (abs(raw) <= LARGEST).all():
            raise InputError(
                f"{what}: gave weights of shape {raw.shape} and type {raw.dtype}; they "
                f"must be finite and of the rewards' shape {shape}, numbers of size "
                f"{LARGEST:g} at most"
            )
        return raw.astype(np.float64)

    flags = _checked(name, declared, _DECLARATIONS)
    return Estimator(name, weights, code=identify_named(function, name), **flags)


def find_estimator(entry: EstimatorEntry) -> Estimator:
    """Look up an entry of a probe's `estimators`, a name or a mapping as above.

    >>> find_estimator({"name": "pass-at-k", "k": 4}).name
    'pass-at-k(k=4)'
    """
    estimator = _LOADED.get(repr(entry)) or _find(entry)
    if ":" not in estimator.name:  # A user's file may change.
        _LOADED[repr(entry)] = estimator
    return estimator


# Built-in estimators by their entries: equal entries give one object, by which laws are
# tabulated once.
_LOADED: dict[str, Estimator] = {}


def _find(entry: EstimatorEntry) -> Estimator:
    given = {"name": entry} if isinstance(entry, str) else dict(entry)
    name, length = given.pop("name"), given.pop("length", None)
    if ":" in name:
        declared = {key: given.pop(key) for key in _DECLARATIONS if key in given}
        estimator = _from_module(name, declared)
        # Its signature and its annotations are the user's, too.
        with guard(f"estimators = {name}: cannot read its parameters"):
            estimator = _with_parameters(estimator, given)
    elif name in ESTIMATORS:
        estimator = _with_parameters(ESTIMATORS[name], given)
    else:
        plain = re.sub("[^a-z0-9+]+", "-", name.lower())
        here = f"here it is {_ALIASES[plain]}" if plain in _ALIASES else ""
        hint = here or nearest(plain, [*ESTIMATORS])
        raise InputError(f"estimators: unknown {shorten(name)}; {hint}")
    if length is None:
        return estimator
    return _with_length(estimator, **_checked(name, {"length": length}, {"length": Length}))


def find_estimators(
    entries: Sequence[EstimatorEntry],
    group_sizes: Sequence[int],
    prompts: int | None = None,
) -> list[Estimator]:
    """Look up all of a probe's `estimators`; see that its sizes and `prompts` suit them."""
    estimators = [find_estimator(entry) for entry in entries]
    names = [estimator.name for estimator in estimators]
    for estimator in estimators:
        if names.count(estimator.name) > 1:
            raise InputError(f"estimators: {estimator.name} stands twice; name it once")
        if min(group_sizes) < estimator.smallest_group:
            raise InputError(
                f"group_sizes = {list(group_sizes)}: {estimator.name} needs groups of "
                f"{estimator.smallest_group} or more; remove {min(group_sizes)}"
            )
        if prompts is not None and prompts < estimator.smallest_batch:
            raise InputError(
                f"estimators: {estimator.name} needs {estimator.smallest_batch} prompts or "
                f"more, not {prompts}; remove it"
            )
    return estimators


def identify_estimators(estimators: Sequence[Estimator]) -> dict[str, str]:
    """Identify the code of the user's own ones among estimators."""
    return {f"estimator {one.name}": one.code for one in estimators if one.code}
