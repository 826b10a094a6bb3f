"""Adam's and Adafactor's diagonals, against the optimisers' own steps."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers.optimization import Adafactor

from mse_lab.errors import InputError
from mse_lab.scores import rows
from mse_lab.scores.preconditioner import from_gradients, of_optimizer, read_optimizer


def small_policy():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    return SimpleNamespace(parameters=dict(model.named_parameters())), model


def groups_of(model):
    """As transformers' Trainer groups them: matrices decay, vectors do not."""
    parameters = list(model.parameters())
    return [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": 0.01},
        {"params": [one for one in parameters if one.dim() == 1], "weight_decay": 0.0},
    ]


def train(model, optimizer, folder, steps=3):
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 3, generator=generator)).square().sum().backward()
        optimizer.step()
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")


@pytest.mark.parametrize("grouped", [True, False])
def test_the_step_of_adam_is_the_preconditioned_moment(tmp_path, grouped):
    """Step = lr D m / (1 - beta1^t), with beta2, eps and t as they were trained with."""
    policy, model = small_policy()
    parameters = groups_of(model) if grouped else model.parameters()
    optimizer = torch.optim.Adam(parameters, lr=0.1, betas=(0.8, 0.9), eps=1e-3)
    train(model, optimizer, tmp_path)
    before = {name: one.detach().clone() for name, one in policy.parameters.items()}
    found = read_optimizer(policy, str(tmp_path))
    pieces = found.split([one.numel() for one in before.values()])
    for name, piece in zip(before, pieces, strict=True):
        moments = optimizer.state[policy.parameters[name]]["exp_avg_sq"] / (1 - 0.9**3)
        torch.testing.assert_close(piece, 1 / (moments.sqrt() + 1e-3).flatten())


def test_a_live_optimiser_is_asked_for_each_parameter_itself(tmp_path):
    """In whatever groups they are: here in those of the trainer, the other way round."""
    policy, model = small_policy()
    optimizer = torch.optim.AdamW(groups_of(model), eps=1e-3)
    train(model, optimizer, tmp_path)
    optimizer.param_groups.reverse()
    found = of_optimizer(policy, optimizer)
    assert torch.equal(found, read_optimizer(policy, str(tmp_path)))


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_an_optimiser_without_second_moments_is_refused_and_left_as_it_is(kind):
    """Before its first step, or as it keeps none."""
    policy, model = small_policy()
    optimizer = kind(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match="no second moments of all parameters"):
        of_optimizer(policy, optimizer)
    assert not optimizer.state


def test_adafactor_has_second_moments_of_rank_one(tmp_path):
    policy, model = small_policy()
    optimizer = Adafactor(
        model.parameters(), lr=0.1, relative_step=False, scale_parameter=False
    )
    train(model, optimizer, tmp_path)
    found = read_optimizer(policy, str(tmp_path))
    sizes = [one.numel() for one in policy.parameters.values()]
    state = optimizer.state[next(iter(policy.parameters.values()))]
    inverse = Adafactor._approx_sq_grad(state["exp_avg_sq_row"], state["exp_avg_sq_col"])
    torch.testing.assert_close(found.split(sizes)[0], inverse.flatten())
    bias = optimizer.state[list(policy.parameters.values())[1]]["exp_avg_sq"]
    torch.testing.assert_close(found.split(sizes)[1], bias.rsqrt())


def test_gradients_have_second_moments_of_their_own(monkeypatch):
    """Of all given, column by column."""
    monkeypatch.setattr(rows, "SLICE", 2)
    found = from_gradients(torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0, 0.0]]))
    assert found[0] == pytest.approx(1 / 12.5**0.5)  # (9 + 16) / 2
    assert found[1] == pytest.approx(1e8)


def test_a_state_that_does_not_fit_is_refused(tmp_path):
    policy, model = small_policy()
    with pytest.raises(InputError, match=r"optimizer\.pt is missing"):
        read_optimizer(policy, str(tmp_path))
    train(model, torch.optim.Adam(model.parameters()), tmp_path)
    fewer = SimpleNamespace(parameters=dict(list(policy.parameters.items())[1:]))
    with pytest.raises(InputError, match="damaged, or not of the parameters"):
        read_optimizer(fewer, str(tmp_path))
    turned = SimpleNamespace(parameters=dict(reversed(policy.parameters.items())))
    with pytest.raises(InputError, match="has another shape there"):
        read_optimizer(turned, str(tmp_path))
    (tmp_path / "optimizer.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="damaged"):
        read_optimizer(policy, str(tmp_path))


class Malicious:
    def __reduce__(self):
        return (print, ("run",))


def test_a_file_may_run_no_code(tmp_path, capsys):
    policy, _ = small_policy()
    torch.save(Malicious(), tmp_path / "optimizer.pt")
    with pytest.raises(InputError, match="damaged"):
        read_optimizer(policy, str(tmp_path))
    assert "run" not in capsys.readouterr().out
