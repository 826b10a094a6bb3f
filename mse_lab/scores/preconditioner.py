"""A diagonal preconditioner D: what an optimiser such as Adam multiplies gradients by.

Adam's is 1/(sqrt(v) + eps), v the second moments of its gradients, corrected for their
start at zero; Adafactor's has v of rank one for each matrix (arXiv 1804.04235).
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mse_lab.errors import InputError, in_short
from mse_lab.policy.policy import Policy
from mse_lab.scores.rows import columns

EPS = 1e-8  # Adam's usual eps.

FILE = "optimizer.pt"

# Errors of a damaged file, or of one that is not of these parameters.
UNFIT = (pickle.UnpicklingError, EOFError, KeyError, RuntimeError, TypeError, ValueError)


def from_gradients(*gradients: Tensor) -> Tensor:
    """Make Adam's D of the second moments of these gradients themselves, each (N, D)."""
    scale_D = torch.empty_like(gradients[0][0])
    for at in columns(len(scale_D), sum(map(len, gradients))):
        part_ND = torch.cat([one[:, at] for one in gradients])
        scale_D[at] = 1 / (part_ND.square().mean(0).sqrt() + EPS)
    return scale_D


def _second_moments(state: Mapping[str, Any], beta2: float) -> Tensor:
    """Give v of one parameter, of Adam or of Adafactor."""
    if "exp_avg_sq_row" in state:
        rows, columns = state["exp_avg_sq_row"], state["exp_avg_sq_col"]
        share = rows / rows.mean(-1, keepdim=True)
        return Tensor(share[..., None] * columns[..., None, :])
    moments: Tensor = state["exp_avg_sq"]
    # Adafactor keeps whole second moments of vectors, and corrects nothing.
    corrects = "exp_avg" in state
    return moments / (1 - beta2 ** float(state["step"])) if corrects else moments


def _in_order(
    groups: list[dict[str, Any]], parameters: Mapping[str, nn.Parameter]
) -> dict[Any, str]:
    """Match the optimiser's keys with names of parameters.

    transformers' Trainer has two groups, those that decay (matrices) before those that do
    not (vectors); a single group has the model's order.
    """
    keys = [key for group in groups for key in group["params"]]
    names = list(parameters)
    if len([group for group in groups if group["params"]]) > 1:
        names.sort(key=lambda name: parameters[name].dim() < 2)
    return dict(zip(keys, names, strict=True))


# What an optimiser keeps of a parameter, and the settings of the parameter's group.
Kept = tuple[Mapping[str, Any], Mapping[str, Any]]


def _preconditioner(policy: Policy, kept: Mapping[str, Kept]) -> Tensor:
    parts = []
    for name, parameter in policy.parameters.items():
        state, settings = kept[name]
        _, beta2 = settings.get("betas", (0, 0))
        moments = _second_moments(state, beta2)
        if moments.shape != parameter.shape:
            raise ValueError(f"{name} has another shape there")
        eps = settings.get("eps", EPS)
        part = 1 / (moments.float().sqrt() + (eps if type(eps) is float else 0))
        parts.append(part.flatten().cpu())
    return torch.cat(parts)


def _by_name(policy: Policy, saved: Mapping[str, Any]) -> dict[str, Kept]:
    groups, state = saved["param_groups"], saved["state"]
    settings = {key: group for group in groups for key in group["params"]}
    names = _in_order(groups, policy.parameters)
    return {name: (state[key], settings[key]) for key, name in names.items()}


def of_optimizer(policy: Policy, optimizer: Any) -> Tensor:
    """Give D of an optimiser that trains these very parameters, (D,) float32.

    Refuse one without second moments of each: before its first step, or where it keeps
    none (SGD), or keeps them in parts or in few bits.
    """
    groups = {one: group for group in optimizer.param_groups for one in group["params"]}
    try:
        # Indexing would create a state that is not there.
        kept = {
            name: (optimizer.state.get(one, {}), groups[one])
            for name, one in policy.parameters.items()
        }
        return _preconditioner(policy, kept)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"metric: the optimiser has no second moments of all parameters "
            f"({in_short(error)}); train with AdamW or Adafactor, or leave metric out"
        ) from None


def read_optimizer(policy: Policy, folder: str) -> Tensor:
    """Read D from the `optimizer.pt` of a checkpoint that a trainer saved, (D,) float32."""
    path = Path(folder) / FILE
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        return _preconditioner(policy, _by_name(policy, saved))
    except FileNotFoundError:
        raise InputError(
            f"metric.optimizer: {path} is missing; name a trainer's checkpoint folder that "
            "holds one, or use metric=adam"
        ) from None
    except UNFIT as error:
        raise InputError(
            f"metric.optimizer: {path} is damaged, or not of the parameters that count "
            f"({in_short(error)}); name the checkpoint that is measured"
        ) from None
