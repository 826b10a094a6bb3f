"""The scoring plan: by which rule each module's parameters are scored.

It is made once for a policy, in a calibration pass: a few tokens run forward and backward
like a block of completions. Each module that owns parameters takes the first of `RULES`
that fits. Where none does (its rows are not the completions', it is not called, or it does
more than multiply and look up) completions are differentiated one by one
(`plain_backward.py`).
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.errors import in_short
from mse_lab.policy.policy import Policy
from mse_lab.scores.layer_rules import RULES, Rule
from mse_lab.scores.module_hooks import (
    Call,
    ModuleHooks,
    NoExactScore,
    NoRule,
    is_out_of_memory,
    no_rule,
)
from mse_lab.scores.reference import gradient_hooks

# Rows and tokens of the calibration pass. Rows are recognised by these sizes and their
# product, which other sizes of a model are unlikely to have. SCORED_TOKENS tokens of each
# row get log-probabilities.
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
    """Run a few tokens forward and backward, rows of different ones."""
    vocabulary = len(policy.model.get_input_embeddings().weight)
    context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", 0)
    size = TRIAL_ROWS, min(TRIAL_TOKENS, context or TRIAL_TOKENS)
    numbers = np.random.default_rng(0).integers(vocabulary, size=size)
    tokens = torch.from_numpy(numbers).to(policy.device)
    with torch.enable_grad():
        output = policy.model(tokens, use_cache=False, logits_to_keep=SCORED_TOKENS)
        policy.log_probabilities(output.logits)[..., 0].sum().backward()


def _reached(policy: Policy) -> set[str]:
    """Name the parameters that autograd reaches in a plain calibration pass."""
    reached: set[str] = set()
    with gradient_hooks(policy, lambda name, _: reached.add(name)):
        _calibrate(policy)
    return reached


class _Trial(ModuleHooks):
    """A pass like a block's, which finds each module's rule, by its index in `RULES`."""

    def __init__(self, policy: Policy, owned: Mapping[str, dict[str, str]]) -> None:
        super().__init__(policy.model, TRIAL_ROWS, shared=0)
        self.rules: dict[str, int] = {}
        self._unanswered: Counter[str] = Counter()
        try:
            with self.hooked(owned):
                _calibrate(policy)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            # The plain pass did not fail: the model bears no hooks on its results.
            name, reason = type(policy.model).__name__, in_short(error)
            raise NoRule(f"{name} has no rule: watched it fails: {reason}") from None
        for owner in owned:
            if self._unanswered.get(owner, 1):
                called = owner in self._unanswered
                reason = "no gradient reaches its result" if called else "it is not called"
                raise no_rule(owner, policy.model.get_submodule(owner), reason)

    def take_call(self, call: Call) -> None:
        """Await the gradient of its results."""
        self._unanswered[call.owner] += 1

    def take_gradients(self, call: Call, gradients: list[Tensor]) -> None:
        """Take the first rule that fits; for several calls, one that fits them all."""
        self._unanswered[call.owner] -= 1
        first = self.rules.get(call.owner, 0)
        self.rules[call.owner] = max(first, self._find_rule(call, gradients))

    def _find_rule(self, call: Call, gradients: list[Tensor]) -> int:
        for index, rule in enumerate(RULES):
            if not rule.fits(call):
                continue
            try:
                rule.factors(call, gradients)
                return index
            except NoExactScore as no:
                reason = str(no)
        raise NoExactScore(reason)


def _make_plan(policy: Policy) -> ScoringPlan:
    reached, owned = _reached(policy), {}
    for owner, module in policy.model.named_modules():
        names = direct_parameters(policy, module)
        if reached & {*names.values()}:
            owned[owner] = names
    rules = _Trial(policy, owned).rules
    return {owner: Answer(names, RULES[rules[owner]]) for owner, names in owned.items()}


def missing_rule(policy: Policy) -> str | None:
    """Say what has no rule; None if all has."""
    try:
        find_plan(policy)
    except NoRule as no:
        return str(no)
    return None
