"""The scoring plan: which module answers for which parameters, and by which rule.

It is made once for a policy, in a calibration pass: a few tokens run forward and backward
like a block of completions. Each module that owns parameters takes the first of `RULES`
that fits; where none does (its rows are not the completions', or it is not called) the
module around it answers, in all layers alike. What no module can answer for has no rule,
and then completions are differentiated one by one (`plain_backward.py`).
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.errors import InputError, in_short
from mse_lab.policy.policy import Policy
from mse_lab.scores.autograd_rule import too_large_for
from mse_lab.scores.layer_rules import RULES, Rule
from mse_lab.scores.module_hooks import Call, ModuleHooks, NoExactScore, is_out_of_memory
from mse_lab.scores.reference import gradient_hooks

# Rows and tokens of the calibration pass. Rows are recognised by these sizes and their
# product, which other sizes of a model are unlikely to have. SCORED_TOKENS tokens of each
# row get log-probabilities.
TRIAL_ROWS, TRIAL_TOKENS, SCORED_TOKENS = 3, 13, 3

_UNCALLED = "it is not called"

# Module -> the parameters it answers for: name inside it -> name.
Owned = dict[str, dict[str, str]]


class Answer(NamedTuple):
    """What a module answers for (name inside it -> name), and by which rule."""

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


class _Survey(ModuleHooks):
    """A plain pass: the parameters that autograd reaches, and modules in doubt."""

    def __init__(self, policy: Policy, modules: Iterable[str]) -> None:
        super().__init__(policy.model, TRIAL_ROWS, shared=0)
        self.reached: set[str] = set()
        self.doubts = dict.fromkeys(modules, _UNCALLED)
        gradients = gradient_hooks(policy, lambda name, _: self.reached.add(name))
        with gradients, self.hooked({name: {} for name in modules}):
            _calibrate(policy)

    def take_call(self, call: Call) -> bool:
        """Check whose rows are whose; await no gradients."""
        if not call.attributed:
            self.doubts[call.owner] = "its batch is not the completions'"
        elif self.doubts.get(call.owner) == _UNCALLED:
            del self.doubts[call.owner]
        return False


class _Trial(ModuleHooks):
    """A pass like a block's: each module's rule, by its index in `RULES`, or a doubt."""

    def __init__(self, policy: Policy, owned: Owned) -> None:
        super().__init__(policy.model, TRIAL_ROWS, shared=0)
        self.rules: dict[str, int] = {}
        self.doubts: dict[str, str] = {}
        self._unanswered: Counter[str] = Counter()
        try:
            with self.hooked(owned):
                _calibrate(policy)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            # The survey's pass did not fail: the model bears no hooks on its results.
            name = next(iter(next(iter(owned.values())).values()))
            raise no_rule(policy, name, f"watched it fails: {in_short(error)}") from None
        for owner in +self._unanswered:
            self.doubts.setdefault(owner, "no gradient reaches its result")

    def take_call(self, call: Call) -> bool:
        """Await the gradient of its results."""
        self._unanswered[call.owner] += 1
        return True

    def take_gradients(self, call: Call, gradients: list[Tensor]) -> None:
        """Take the first rule that fits; for several calls, one that fits them all."""
        self._unanswered[call.owner] -= 1
        if call.changed:
            self.doubts[call.owner] = "its input is changed after the call"
        if call.owner not in self.doubts:
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
                reason = no.reason
        self.doubts[call.owner] = reason
        return len(RULES)


def _hand_up(policy: Policy, owned: Owned, doubts: dict[str, str]) -> Owned:
    """Let surrounding modules answer for those in doubt, and for their like."""
    patterns = {_kind(owner): reason for owner, reason in doubts.items()}
    found: Owned = {}
    for owner, names in owned.items():
        reason = patterns.get(_kind(owner))
        parent, _, last = owner.rpartition(".")
        if reason is None:
            found.setdefault(owner, {}).update(names)
        elif not parent:
            raise no_rule(policy, next(iter(names.values())), reason)
        else:
            inside = {f"{last}.{local}": name for local, name in names.items()}
            found.setdefault(parent, {}).update(inside)
    return found


def _make_plan(policy: Policy) -> ScoringPlan:
    modules = dict(policy.model.named_modules())
    owned = {
        name: names
        for name in modules
        if (names := direct_parameters(policy, modules[name]))
    }
    survey = _Survey(policy, modules)
    while True:
        used = {
            name: names
            for name, names in owned.items()
            if survey.reached & {*names.values()}
        }
        doubts = {name: survey.doubts[name] for name in used if name in survey.doubts}
        if not doubts:
            trial = _Trial(policy, used)
            if not (doubts := trial.doubts):
                break
        owned = _hand_up(policy, owned, doubts)
    return {
        name: Answer(owned[name], RULES[rule])
        for name in modules
        if (rule := trial.rules.get(name)) is not None
    }


def _kind(name: str) -> str:
    """Give a pattern for a name and its like in other layers.

    >>> _kind("layers.10.mlp")
    'layers[.][0-9]+[.]mlp'
    """
    return re.sub(r"\d+", "[0-9]+", name.replace(".", "[.]"))


class NoRule(InputError):
    """Parameters have no rule, or theirs does not hold; says which, and why."""


def no_rule(policy: Policy, name: str, reason: str) -> NoRule:
    """Say that a parameter has no rule."""
    module_name = name.rpartition(".")[0]
    module = policy.model.get_submodule(module_name)
    return NoRule(f"{module_name} ({type(module).__name__}) has no rule: {reason}")


def missing_rule(policy: Policy, block: int) -> str | None:
    """Say what has no rule for a block of so many completions; None if all has."""
    try:
        for answer in find_plan(policy).values():
            names = [*answer.names.values()]
            values = [policy.parameters[name] for name in names]
            if answer.rule is RULES[-1] and (reason := too_large_for(block, values)):
                raise no_rule(policy, names[0], reason)
    except NoRule as no:
        return str(no)
    return None
