"""Modules that are run again: as small as they can be, or without a rule."""

import pytest
import torch
from torch import nn

from enumerated import as_completions
from foreign_modules import Experts, H, ScaledTable, weight
from foreign_policies import assert_exact, policy_with
from mse_lab.scores import recorder
from mse_lab.scores.autograd_rule import agree
from mse_lab.scores.factors import Dense, OuterProducts, RowSums
from mse_lab.scores.scoring_plan import NoRule, find_plan


def test_a_subclass_of_an_embedding_has_factors():
    policy = policy_with(ScaledTable, "embedding")
    assert_exact(policy, as_completions([[0, 4, 0, 1], [3, 0, 1], [2]]))


def test_agreement_is_of_shape_and_size():
    one = torch.ones(3, dtype=torch.float64)
    assert agree(one, one * (1 + 1e-6))
    assert not agree(one, one * 1.01)
    assert not agree(one, one[:2])
    assert not agree(one * torch.nan, one)


def test_factors_of_routers_are_small():
    """Not a gradient for each completion, as its parameters would be."""
    policy = policy_with(Experts)
    seen = []
    plain = recorder.Recorder.meet

    def meet(self, name, factor):
        seen.append((name, type(factor)))
        plain(self, name, factor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder.Recorder, "meet", meet)
        assert_exact(policy)
    kinds = {name: kind for name, kind in seen if "mlp.router" in name}
    assert kinds == {
        "model.layers.0.mlp.router.weight": OuterProducts,
        "model.layers.0.mlp.router.bias": Dense,
    }
    embeddings = {kind for name, kind in seen if "embed_tokens" in name}
    assert embeddings == {RowSums}


class FailsAlone(nn.Module):
    """Fails when it is run for one completion, for this reason."""

    def __init__(self, error):
        super().__init__()
        self.gain, self.error = weight(H), error

    def forward(self, x):
        if len(x) == 1:
            raise self.error
        return torch.tanh(self.gain * x)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["device", "host"],
)
def test_too_little_memory_is_no_refusal(error):
    """Raised as it is, so that a run can take smaller passes, or say what it needs."""
    with pytest.raises(type(error), match=str(error)):
        find_plan(policy_with(lambda: FailsAlone(error)))


def test_what_cannot_be_run_alone_has_no_rule():
    with pytest.raises(NoRule, match="has no rule: run for one it fails: odd batch"):
        find_plan(policy_with(lambda: FailsAlone(ValueError("odd batch"))))
