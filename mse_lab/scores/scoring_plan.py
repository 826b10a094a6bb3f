"""The scoring plan: by which rule each module's parameters are scored.

It is made once for a policy, in a calibration pass, the first one of a model: a few tokens
run forward and backward like a block of completions. Each module that owns parameters takes
the first of `RULES` that fits. Where none does (its rows are not the completions', it is
not called, or it computes something else) completions are differentiated one by one
(`plain_backward.py`). A model whose token changes the logits before it is refused.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.data.location import loading
from mse_lab.errors import InputError, in_short
from mse_lab.policy.policy import Policy
from mse_lab.scores.layer_rules import RULES, Rule
from mse_lab.scores.module_hooks import Call, ModuleHooks, NoRule, is_out_of_memory, no_rule
from mse_lab.scores.reference import gradient_hooks

# Rows and tokens of the calibration pass. Rows are recognised by their number, which other
# sizes of a model are unlikely to have. SCORED_TOKENS tokens of each row get
# log-probabilities.
TRIAL_ROWS, TRIAL_TOKENS, SCORED_TOKENS = 3, 13, 3


class Answer(NamedTuple):
    """Which parameters a module owns (name inside it -> name), and their rule."""

    names: dict[str, str]
    rule: Rule


# Module -> its answer, in the model's order. Parameters that the calibration pass does not
# depend on are in none.
ScoringPlan = dict[str, Answer]


def direct_parameters(policy: Policy, module: nn.Module) -> dict[str, str]:
    """Name a module's own parameters that count: name inside it -> name."""
    names = {id(parameter): name for name, parameter in policy.parameters.items()}
    return {
        local: names[id(parameter)]
        for local, parameter in module.named_parameters(recurse=False)
        if id(parameter) in names
    }


# The plans that were made; or what has no rule.
_PLANS: WeakKeyDictionary[Policy, ScoringPlan | str] = WeakKeyDictionary()


def find_plan(policy: Policy) -> ScoringPlan:
    """Return the plan of a policy, which is made once; NoRule: there is none."""
    if policy not in _PLANS:
        try:
            _PLANS[policy] = _make_plan(policy)
        except NoRule as no:
            _PLANS[policy] = str(no)
    plan = _PLANS[policy]
    if isinstance(plan, str):
        raise NoRule(plan)
    return plan


def _calibrate(policy: Policy) -> None:
    """Run a few tokens forward and backward: rows of different ones, two but for the last.

    Refuse a model in which a token changes the logits before it.
    """
    vocabulary = policy.vocabulary
    context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", 0)
    size = TRIAL_ROWS, min(TRIAL_TOKENS, context or TRIAL_TOKENS)
    numbers = np.random.default_rng(0).integers(vocabulary, size=size)
    numbers[1] = numbers[0]
    numbers[1, -1] = (numbers[0, -1] + 1) % vocabulary
    tokens = torch.from_numpy(numbers).to(policy.device)
    with torch.enable_grad():
        output = policy.model(tokens, use_cache=False, logits_to_keep=SCORED_TOKENS)
        _refuse_acausal(policy, output.logits.detach().float())
        policy.log_probabilities(output.logits)[..., 0].sum().backward()


def _refuse_acausal(policy: Policy, logits_NTV: Tensor) -> None:
    """Refuse logits that are NaN, or differ in two rows before the last token."""
    if logits_NTV.isnan().any():
        raise policy.location.refuse(
            "its logits are NaN", "give a whole checkpoint, or model.dtype=float32"
        )
    change_T = (logits_NTV[0] - logits_NTV[1]).abs().amax(-1)
    # No bit should change; differences in a kernel's rounding are accepted.
    coarse = policy.model.dtype in (torch.bfloat16, torch.float16)
    if change_T[:-1].sum() > (0.02 if coarse else 0.001) * change_T[-1]:
        raise policy.location.refuse(
            f"{type(policy.model).__name__} is not causal: a token changes the predictions "
            "before it",
            "give a decoder-only model",
        )


def _reached(policy: Policy) -> set[str]:
    """Name the parameters that autograd reaches in a plain calibration pass."""
    reached: set[str] = set()
    hooks = gradient_hooks(policy, lambda name, _: reached.add(name))
    with loading(policy.location, "the model"), hooks:
        _calibrate(policy)
    return reached


class _Trial(ModuleHooks):
    """A pass like a block's, which finds each module's rule."""

    def __init__(self, policy: Policy, owned: Mapping[str, dict[str, str]]) -> None:
        super().__init__(policy.model, TRIAL_ROWS)
        self.rules: dict[str, Rule] = {}
        self.unanswered: Counter[str] = Counter()  # Of the calls, by module.
        try:
            with self.hooked(owned):
                _calibrate(policy)
        except Exception as error:  # A model can fail in any way.
            if is_out_of_memory(error):
                raise
            _reached(policy)  # Says what is wrong with the model itself.
            if isinstance(error, InputError):
                raise
            name, reason = type(policy.model).__name__, in_short(error)
            raise NoRule(f"{name} has no rule: watched it fails: {reason}") from None

    def take_call(self, call: Call) -> None:
        """Await the gradient of its result."""
        self.unanswered[call.owner] += 1

    def take_gradient(self, call: Call, d: Tensor) -> None:
        """Take the first rule that fits."""
        self.unanswered[call.owner] -= 1
        for rule in RULES:
            if rule.fits(call):
                self.rules[call.owner] = rule
                return
        reason = "it is no linear map, lookup or norm with weights of its own"
        raise no_rule(call.owner, call.module, reason)


def _make_plan(policy: Policy) -> ScoringPlan:
    owned = {
        owner: names
        for owner, module in policy.model.named_modules()
        if (names := direct_parameters(policy, module))
    }
    trial = _Trial(policy, owned)
    silent = [owner for owner in owned if trial.unanswered.get(owner, 1)]
    reached = _reached(policy) if silent else set()
    for owner in silent:
        if reached & {*owned.pop(owner).values()}:
            called = owner in trial.unanswered
            reason = "no gradient reaches its result" if called else "it is not called"
            raise no_rule(owner, policy.model.get_submodule(owner), reason)
    return {owner: Answer(names, trial.rules[owner]) for owner, names in owned.items()}


def missing_rule(policy: Policy) -> str | None:
    """Say what has no rule; None if all has."""
    try:
        find_plan(policy)
    except NoRule as no:
        return str(no)
    return None
