"""Measure the model of TRL's trainer between two of its steps.

What the trainer's settings say of the policy is taken from them, and what cannot be
measured is refused before anything is drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.integrations.fsdp import is_fsdp_enabled

from mse_lab.errors import InputError, shown
from mse_lab.measurement.metric import measure_metric
from mse_lab.measurement.subject import make_subject
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.samples import Blocks
from mse_lab.results.checks import Check, none_failed
from mse_lab.run.advise import D, Sampling
from mse_lab.run.in_memory import Lent, borrowing, sample_model
from mse_lab.run.prepare import RunSpec
from mse_lab.scores.preconditioner import of_optimizer

WRITTEN_FOR = "1.16"

# Settings of the trainer that are read, and what a callback is given.
SETTINGS = (
    *("num_generations", "num_iterations", "max_completion_length", "temperature"),
    *("chat_template_kwargs", "per_device_train_batch_size", "torch_compile", "fsdp"),
    *("gradient_accumulation_steps", "world_size", "report_to", "seed"),
    *("generation_kwargs", "reward_weights", "use_vllm"),
)
GIVEN = ("model", "processing_class")

# Settings that change the distribution of completions, and what leaves it as it is.
UNCHANGED: dict[str, tuple[Any, ...]] = {
    **{"top_p": (1.0,), "top_k": (0, None), "min_p": (0.0, None)},
    "repetition_penalty": (1.0,),
}


def _refuse_version(args: Any, given: Mapping[str, Any]) -> None:
    gone = [name for name in (*SETTINGS, *UNCHANGED) if not hasattr(args, name)]
    gone += [name for name in GIVEN if given.get(name) is None]
    if gone:
        raise InputError(
            f"TRL {version('trl')} gives a callback no {gone[0]}, as {WRITTEN_FOR} does; "
            f"use GRPOTrainer of trl=={WRITTEN_FOR}.*"
        )


def _refuse_model(args: Any, model: Any) -> None:
    parts = any(
        hasattr(one, "ds_id") or hasattr(one, "full_tensor") for one in model.parameters()
    )
    if parts or args.fsdp or is_fsdp_enabled() or is_deepspeed_zero3_enabled():
        raise InputError(
            "the model is in parts (FSDP or ZeRO-3), which cannot be measured; save "
            "checkpoints, and measure them by mse-lab along"
        )
    compiled = getattr(model, "_compiled_call_impl", None) is not None
    if compiled or hasattr(model, "_orig_mod") or args.torch_compile:
        raise InputError(
            "the model is compiled, which cannot be measured; do not compile it"
        )


def _sampling(args: Any) -> dict[str, Any]:
    for name, values in UNCHANGED.items():
        if getattr(args, name) not in values:
            raise InputError(
                f"{name} = {shown(getattr(args, name))}: completions are not of the policy "
                "that is differentiated, and cannot be measured; leave it out"
            )
    return {"max_new_tokens": args.max_completion_length, "temperature": args.temperature}


def step_size(args: Any) -> int:
    """Completions of one step of the optimiser."""
    each = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return int(each * args.world_size)


@contextmanager
def own_forward(model: Any) -> Iterator[None]:
    """Leave out what mixed precision puts in the place of a model's own forward."""
    forward = vars(model).pop("forward", None)
    try:
        yield
    finally:
        if forward is not None:
            model.forward = forward


def refuse(args: Any, given: Mapping[str, Any]) -> None:
    """Refuse what cannot be measured.

    Args:
        args: The trainer's settings.
        given: What a callback is given beside them.

    Raises:
        InputError: The version of TRL, or the model, is not one that can be measured.
    """
    _refuse_version(args, given)
    _refuse_model(args, given["model"])


def refuse_failed(checks: Sequence[Check]) -> None:
    """Refuse what a built-in check says is wrong.

    Raises:
        InputError: One failed.
    """
    if not none_failed(checks):
        failed = ", ".join(check.name for check in checks if check.ok is False)
        raise InputError(f"a built-in check failed ({failed}); mse-lab run says more")


def lend(
    given: Mapping[str, Any],
    args: Any,
    rows: Sequence[Mapping[str, Any]],
    reward: Callable[..., Any],
    **more: Any,
) -> Lent:
    """Lend the trainer's model, with the settings of its policy; see `sample_live`.

    `more` are further keys of a probe.
    """
    prompts = {"source": "memory", "template": "none"}
    settings = {"prompts": prompts, "sampling": _sampling(args), "seed": args.seed}
    settings |= more
    model, tokenizer = (given[name] for name in GIVEN)
    return Lent(model, tokenizer, rows, reward, settings, "the live model")


def sample_live(
    given: Mapping[str, Any],
    args: Any,
    rows: Sequence[Mapping[str, Any]],
    reward: Callable[..., Any],
    decide: Callable[[Sequence[Blocks]], D],
    budget: int,
) -> tuple[RunSpec, Sampling[D]]:
    """Sample the trainer's model until its answer is known; see `sample_model`.

    Args:
        given: What a callback is given.
        args: The trainer's settings.
        rows: A prompt set, with the texts that the model reads.
        reward: `(text, row) -> float`.
        decide: Looks at the samples.
        budget: The most completions that are drawn.

    Raises:
        InputError: Something of the user's is at fault, or a built-in check failed.
    """
    lent = lend(given, args, rows, reward)
    with own_forward(lent.model):
        spec, ended = sample_model(lent, decide, budget, shown=False)
    refuse_failed(ended.checks)
    return spec, ended


def measure_live_metric(
    given: Mapping[str, Any],
    args: Any,
    rows: Sequence[Mapping[str, Any]],
    reward: Callable[..., Any],
    metric: Any,
) -> MetricPools:
    """Measure the trainer's model in a metric, D that of the optimiser that trains it.

    Args:
        given: What a callback is given, its optimiser after a step.
        args: The trainer's settings.
        rows: As in `sample_live`.
        reward: The same.
        metric: The key `metric` of a probe, of the kind `adam`.

    Raises:
        InputError: It cannot be measured, or the optimiser keeps no second moments.
    """
    lent = lend(given, args, rows, reward, metric=metric)
    with own_forward(lent.model), borrowing(lent) as (spec, policy):
        scale_D = of_optimizer(policy, given["optimizer"])
        return measure_metric(make_subject(spec, policy), scale_D=scale_D)
