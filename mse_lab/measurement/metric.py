"""Measure the metric that training feels, on a sample of the prompts."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Floats, Ints
from mse_lab.errors import InputError
from mse_lab.measurement.prompt import draw_pool
from mse_lab.measurement.subject import Subject
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.metric_forms import Forms, pair_weights
from mse_lab.policy.sharding import is_sharded
from mse_lab.probe.streams import stream
from mse_lab.scores.curvature import as_vector, hessian_products
from mse_lab.scores.preconditioner import from_gradients, read_optimizer
from mse_lab.scores.reference import leave_one_out, weighted_gradient

# A graph that is differentiated twice takes this many times the memory of one pass.
GRAPH = 8

# A function that multiplies vectors (K, D) by a matrix.
Multiply = Callable[[Tensor], Tensor]

# Vectors (D,) of each prompt in memory at once, scaled ones and others.
VECTORS = 4


def sample_prompts(seed: int, prompts: int, most: int) -> Ints:
    """Choose at most `most` prompts at random by the seed; give them in file order."""
    drawn = stream(seed, "metric").permutation(prompts)[:most]
    return np.sort(drawn)


def refuse_metric(subject: Subject) -> None:
    """Refuse a metric that cannot be measured, before anything is measured."""
    if subject.probe.metric.kind == "plain":
        return
    count = min(subject.probe.metric.prompts, len(subject.prompts))
    if is_sharded(subject.policy.model):
        raise InputError("metric: not of a sharded model; leave out metric, or model.shard")
    if subject.supplied is not None:
        raise InputError(
            "metric: needs completions of its own; leave out completions, or metric"
        )
    if count < 4:
        raise InputError(f"metric: {count} prompts; it needs four or more")
    takes, room = 4 * VECTORS * count * subject.policy.size, subject.memory.budget
    if takes > room:
        raise InputError(
            f"metric.prompts = {count}: their vectors take {takes / 1e9:.2g} GB, more than "
            f"the {room / 1e9:.2g} GB of model.memory; lower it, or name fewer parameters"
        )
    if subject.probe.metric.optimizer is not None:
        read_optimizer(subject.policy, subject.probe.metric.optimizer)


class Directions(NamedTuple):
    """Vectors of every prompt: g_A, g_B and z, as `mse/metric_forms.py` defines them."""

    a_PD: Tensor
    b_PD: Tensor
    z_PD: Tensor


def _draw_directions(subject: Subject, index: int) -> tuple[Tensor, Tensor, Tensor]:
    settings = subject.probe.metric
    pool = draw_pool(subject, index, "metric-directions", range(settings.completions))
    half = settings.completions // 2

    def gradient(rows: slice, weigh: Callable[[Floats], Floats]) -> Tensor:
        weighted, _ = weighted_gradient(
            subject.policy,
            subject.tokens[index],
            pool.completions[rows],
            weigh(pool.rewards_N[rows]),
            subject.memory.reference.current,
        )
        return as_vector(subject.policy, weighted)

    return (
        gradient(slice(half), leave_one_out),
        gradient(slice(half, None), leave_one_out),
        gradient(slice(None), pair_weights),
    )


def _scale(subject: Subject, halves_ND: Tensor) -> Tensor:
    settings = subject.probe.metric
    if settings.kind == "curvature":
        return torch.ones(1, device=halves_ND.device, dtype=halves_ND.dtype)
    if settings.optimizer is None:
        return from_gradients(halves_ND)
    return read_optimizer(subject.policy, settings.optimizer)


def _signs(subject: Subject, index: int, count: int, repeats: int) -> Tensor:
    """Draw the random signs of the prompts' directions, (R, P)."""
    rng = stream(subject.probe.seed, "metric", str(index))
    signs_RP = 1.0 - 2.0 * rng.integers(0, 2, (repeats, count))
    return torch.from_numpy(signs_RP)


def _products(left_ND: Tensor, right_MD: Tensor) -> Floats:
    return (left_ND.double() @ right_MD.double().T).cpu().numpy()


def _own(left_PD: Tensor, right_PD: Tensor) -> Floats:
    return (left_PD.double() * right_PD.double()).sum(-1).cpu().numpy()


def _first_order(vectors: Directions, scale_D: Tensor) -> Forms:
    scaled_PD = vectors.b_PD * scale_D
    halves_PP = _products(vectors.a_PD, scaled_PD)
    gradients_P = np.diag(halves_PP)
    forms = Forms(
        gradients_KP=gradients_P,
        noises_KP=_own(scaled_PD, vectors.b_PD) - gradients_P,
        pairs_KP=_own(vectors.z_PD * scale_D, vectors.z_PD),
        rows_KP=halves_PP.sum(1) - gradients_P,
        columns_KP=halves_PP.sum(0) - gradients_P,
        meetings_KP=np.zeros_like(gradients_P),
    )
    return Forms(*(part[None] for part in vars(forms).values()))


def _curved(
    vectors: Directions, position: int, signs_RP: Tensor, multiply: Multiply
) -> tuple[Floats, ...]:
    """Give the forms of all prompts in the curvature M of prompt `position`, each (P,).

    `multiply` multiplies vectors (K, D) by M.
    """
    a_PD, b_PD, z_PD = vectors
    signs_RP = signs_RP.to(a_PD)
    signs_RP[:, position] = 0
    repeats, others = len(signs_RP), torch.ones_like(signs_RP[:1])
    others[:, position] = 0
    mine = slice(position, position + 1)
    asked = (signs_RP @ b_PD, signs_RP @ z_PD, others @ b_PD, others @ a_PD,
             b_PD[mine], z_PD[mine])  # fmt: skip
    b_RD, z_RD, all_b, all_a, own_b, own_z = multiply(torch.cat(asked)).split(
        [len(part) for part in asked]
    )
    signs = signs_RP.double().cpu().numpy()
    gradients_P = (signs * _products(b_RD, a_PD)).sum(0) / repeats
    squares_P = (signs * _products(b_RD, b_PD)).sum(0) / repeats
    pairs_P = (signs * _products(z_RD, z_PD)).sum(0) / repeats
    meetings_P = _products(own_b, a_PD)[0]
    gradients_P[position] = meetings_P[position]
    squares_P[position] = _products(own_b, b_PD[mine]).item()
    pairs_P[position] = _products(own_z, z_PD[mine]).item()
    rows_P = _products(all_b, a_PD)[0] - gradients_P
    columns_P = _products(all_a, b_PD)[0] - gradients_P
    rows_P[position] = columns_P[position] = 0
    noises_P = squares_P - gradients_P
    return gradients_P, noises_P, pairs_P, rows_P, columns_P, meetings_P


def minus_hessian(subject: Subject, index: int) -> Multiply:
    """Draw completions of a prompt; give the product with minus its value's Hessian."""
    drawn = range(subject.probe.metric.completions)
    pool = draw_pool(subject, index, "metric-curvature", drawn)

    def multiply(vectors_KD: Tensor) -> Tensor:
        return -hessian_products(
            subject.policy,
            subject.tokens[index],
            pool.completions,
            pool.rewards_N,
            vectors_KD,
            max(1, subject.memory.reference.current // GRAPH),
        )

    return multiply


def measure_metric(
    subject: Subject,
    show: Callable[[int, int], object] = lambda done, all: None,
    curvature: Callable[[Subject, int], Multiply] = minus_hessian,
    scale_D: Tensor | None = None,
) -> MetricPools:
    """Measure the forms of a sample of prompts in the probe's metric.

    Args:
        subject: What is measured.
        show: Called before each prompt with how many are done, and how many there are.
        curvature: Gives the product with minus the Hessian of a prompt's value.
        scale_D: The diagonal of D; by default it is as the probe says.
    """
    settings = subject.probe.metric
    most = min(settings.prompts, len(subject.prompts))
    prompts_P = sample_prompts(subject.probe.seed, len(subject.prompts), most)
    refuse_metric(subject)
    drawn = [_draw_directions(subject, int(index)) for index in prompts_P]
    vectors = Directions(*(torch.stack(column) for column in zip(*drawn, strict=True)))
    if scale_D is None:
        scale_D = _scale(subject, torch.cat([vectors.a_PD, vectors.b_PD]))
    scale_D = scale_D.to(vectors.a_PD)
    first = _first_order(vectors, scale_D)
    for vectors_PD in vectors:
        vectors_PD *= scale_D
    forms = []
    for position, index in enumerate(map(int, prompts_P)):
        show(position, most)
        signs_RP = _signs(subject, index, most, settings.repeats)
        forms.append(_curved(vectors, position, signs_RP, curvature(subject, index)))
    curved = Forms(*(np.stack(column) for column in zip(*forms, strict=True)))
    if not all(np.isfinite(part).all() for part in vars(curved).values()):
        raise InputError(
            "metric: a second derivative is not finite; use model.dtype=float32"
        )
    return MetricPools(
        settings=settings.model_dump_json(),
        prompts_P=prompts_P,
        trained=len(subject.prompts),
        half=settings.completions // 2,
        curved=curved,
        first=first,
    )


def price_metric(subject: Subject) -> float:
    """Predict how many seconds the metric will take, by one prompt of its sample.

    The graph of the gradient is made once for all products, so the time of one more product
    is that of two less that of one.
    """
    settings = subject.probe.metric
    most = min(settings.prompts, len(subject.prompts))
    index = int(sample_prompts(subject.probe.seed, len(subject.prompts), most)[0])
    began = time.monotonic()
    *_, z_D = _draw_directions(subject, index)
    multiply = minus_hessian(subject, index)
    times = [time.monotonic()]
    for count in (2, 1):
        multiply(z_D.expand(count, -1))
        times.append(time.monotonic())
    two, one = np.diff(times)
    further = (2 * settings.repeats + 3) * max(two - one, 0.0)
    return float(most * (times[0] - began + one + further))
