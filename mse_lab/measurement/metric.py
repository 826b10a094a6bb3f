"""Measure the metric that training feels, on a sample of the prompts.

Vectors of D numbers of every prompt are held, in memory or on the disk (`scores/rows.py`).
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import torch
from torch import Tensor

from mse_lab.arrays import Floats, Ints
from mse_lab.errors import InputError
from mse_lab.measurement.directions import Directions, Multiply, curved, first_order
from mse_lab.measurement.prompt import draw_pool
from mse_lab.measurement.subject import Subject
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.metric_forms import Forms, pair_weights
from mse_lab.probe.streams import stream
from mse_lab.scores.curvature import add_hessian_products, as_vector
from mse_lab.scores.preconditioner import from_gradients, read_optimizer
from mse_lab.scores.reference import leave_one_out, weighted_gradient
from mse_lab.scores.rows import make_rows

# A graph that is differentiated twice takes this many times the memory of one pass.
GRAPH = 8

# Vectors (D,) in memory at once beside those that are held: D, the gradient and its parts.
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
    if subject.supplied is not None:
        raise InputError(
            "metric: needs completions of its own; leave out completions, or metric"
        )
    if count < 4:
        raise InputError(f"metric: {count} prompts; it needs four or more")
    (_, takes), folder = held_bytes(subject), _scratch(subject)
    if takes > (free := shutil.disk_usage(folder).free):
        raise InputError(
            f"metric.prompts = {count}: their vectors take {takes / 1e9:.2g} GB, more than "
            f"model.memory has left and the {free / 1e9:.2g} GB free in {folder}; lower it "
            "or metric.repeats, name fewer parameters, or take another disk (--out, TMPDIR)"
        )
    if subject.probe.metric.optimizer is not None:
        read_optimizer(subject.policy, subject.probe.metric.optimizer)


def _counts(subject: Subject) -> tuple[int, int]:
    """Count the prompts, and the vectors that each one's curvature is multiplied with."""
    settings = subject.probe.metric
    return min(settings.prompts, len(subject.prompts)), 2 * settings.repeats + 4


def held_bytes(subject: Subject) -> tuple[int, int]:
    """Count the bytes of all vectors that are held: in memory, and on the disk.

    They are on the disk if `model.memory` does not suffice for them beside the passes.
    """
    if subject.probe.metric.kind == "plain":
        return 0, 0
    (prompts, products), memory = _counts(subject), subject.memory
    takes = (3 * prompts + 2 * products) * _example(subject).nbytes
    at_once = min(memory.reference.current, subject.probe.metric.completions)
    others = memory.footprint.weights + VECTORS * memory.footprint.gradient
    fits = takes + others + at_once * memory.footprint.reference <= memory.budget
    return (takes, 0) if fits else (0, takes)


def _scratch(subject: Subject) -> Path:
    """Give the folder of the vectors on the disk, or the one that it will be made in."""
    folder = (subject.scratch or Path(gettempdir())).absolute()
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def _example(subject: Subject) -> Tensor:
    """Make a vector (D,) of the device and precision of gradients, of a single number."""
    first = next(iter(subject.policy.parameters.values()))
    dtype = torch.promote_types(first.dtype, torch.float32)
    return torch.zeros(1, dtype=dtype, device=first.device).expand(subject.policy.size)


def _refuse_overflow(subject: Subject, index: int, finite: bool, what: str) -> None:
    """Refuse what is not finite at the prompt where it arises: each takes minutes."""
    if not finite:
        raise InputError(
            f"metric: prompt {subject.prompts[index].id}: a {what} is not finite; check "
            "the checkpoint, or use another model.dtype"
        )


def _make_directions(subject: Subject) -> Directions:
    prompts, products = _counts(subject)
    folder = _scratch(subject) if held_bytes(subject)[1] else None
    counts = (prompts,) * 3 + (products,) * 2
    return Directions(*(make_rows(count, _example(subject), folder) for count in counts))


def _draw_directions(subject: Subject, index: int) -> Iterator[Tensor]:
    """Draw a prompt's completions; give g_A, g_B and z one after the other."""
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

    halves = slice(half), slice(half, None)
    yield from (gradient(rows, leave_one_out) for rows in halves)
    yield gradient(slice(None), pair_weights)


def _scale(subject: Subject, directions: Directions) -> Tensor:
    settings = subject.probe.metric
    if settings.kind == "curvature":
        return torch.ones_like(_example(subject)[:1]).expand(subject.policy.size)
    if settings.optimizer is None:
        return from_gradients(directions.a_PD, directions.b_PD)
    return read_optimizer(subject.policy, settings.optimizer)


def _signs(subject: Subject, index: int, count: int, repeats: int) -> Tensor:
    """Draw the random signs of the prompts' directions, (R, P)."""
    rng = stream(subject.probe.seed, "metric", str(index))
    signs_RP = 1.0 - 2.0 * rng.integers(0, 2, (repeats, count))
    return torch.from_numpy(signs_RP)


def minus_hessian(subject: Subject, index: int) -> Multiply:
    """Draw completions of a prompt; give the product with minus its value's Hessian."""
    drawn = range(subject.probe.metric.completions)
    pool = draw_pool(subject, index, "metric-curvature", drawn)

    def multiply(vectors_KD: Tensor, products_KD: Tensor) -> None:
        add_hessian_products(
            subject.policy,
            subject.tokens[index],
            pool.completions,
            -leave_one_out(pool.rewards_N),
            vectors_KD,
            products_KD,
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
    most, _ = _counts(subject)
    prompts_P = sample_prompts(subject.probe.seed, len(subject.prompts), most)
    refuse_metric(subject)
    held = _make_directions(subject)
    for place, index in enumerate(map(int, prompts_P)):
        for rows_PD, vector_D in zip(held, _draw_directions(subject, index), strict=False):
            _refuse_overflow(subject, index, bool(vector_D.isfinite().all()), "gradient")
            rows_PD[place] = vector_D
    if scale_D is None:
        scale_D = _scale(subject, held)
    scale_D = scale_D.to(held.a_PD)
    first, forms = first_order(held, scale_D), []
    for place, index in enumerate(map(int, prompts_P)):
        show(place, most)
        signs_RP = _signs(subject, index, most, settings.repeats)
        found = curved(held, scale_D, place, signs_RP, curvature(subject, index))
        finite = all(np.isfinite(part_P).all() for part_P in found)
        _refuse_overflow(subject, index, finite, "second derivative")
        forms.append(found)
    in_curvature = Forms(*(np.stack(column) for column in zip(*forms, strict=True)))
    return MetricPools(
        settings=settings.model_dump_json(),
        prompts_P=prompts_P,
        trained=len(subject.prompts),
        half=settings.completions // 2,
        curved=in_curvature,
        first=first,
    )


def price_metric(subject: Subject) -> float:
    """Predict how many seconds the metric will take, by one prompt of its sample.

    The graph of the gradient is made once for all products, so the time of one more product
    is that of two less that of one. What is computed by slices is timed on zeros.
    """
    most, products = _counts(subject)
    index = int(sample_prompts(subject.probe.seed, len(subject.prompts), most)[0])
    held = _make_directions(subject)
    signs_RP = _signs(subject, index, most, subject.probe.metric.repeats)
    times = [time.monotonic()]
    curved(held, held.z_PD[0], 0, signs_RP, lambda *_: None)
    for vector_D in _draw_directions(subject, index):
        held.asked_KD[:2] = vector_D
    multiply = minus_hessian(subject, index)
    times.append(time.monotonic())
    for count in (2, 1):
        multiply(held.asked_KD[:count], held.products_KD[:count])
        times.append(time.monotonic())
    begun, two, one = np.diff(times)
    return float(most * (begun + one + (products - 1) * max(two - one, 0.0)))
