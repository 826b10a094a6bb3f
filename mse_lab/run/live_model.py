"""Measure the model of TRL's trainer between two of its steps.

The settings of the policy are those of the trainer. What cannot be measured is refused
before any completion is drawn.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.metadata import version
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from mse_lab.errors import InputError, shown
from mse_lab.mse.rule import Question, decide
from mse_lab.policy.borrowed_model import is_part
from mse_lab.probe.training import Setting, interpret
from mse_lab.results.checks import Check, none_failed
from mse_lab.run.advise import Decide, Sampling
from mse_lab.run.in_memory import InMemoryInputs, sample_model
from mse_lab.run.prepare import RunSpec
from mse_lab.run.processes import SINGLE_PROCESS, Processes
from mse_lab.scores.module_hooks import replaced_forward

# The version of TRL whose callbacks are known.
TRL_VERSION = "1.16"

# Settings of the trainer that are read, and arguments that a callback must be given.
SETTINGS = (
    *("num_generations", "num_iterations", "max_completion_length", "temperature"),
    *("chat_template_kwargs", "per_device_train_batch_size", "torch_compile"),
    *("gradient_accumulation_steps", "world_size", "report_to", "seed"),
    *("generation_kwargs", "use_vllm", "mask_truncated_completions"),
)
GIVEN = ("model", "processing_class")

# Settings that change the law of completions, and their values that leave it as it is.
UNCHANGED: dict[str, tuple[Any, ...]] = {
    **{"top_p": (1.0,), "top_k": (0, None), "min_p": (0.0, None)},
    "repetition_penalty": (1.0,),
}

# Keys of `generation_kwargs` that leave the law of completions as it is.
HARMLESS: dict[str, tuple[Any, ...]] = {
    **{"do_sample": (True,), "use_cache": (True, False)},
    **UNCHANGED,
}


def _refuse_version(args: Any, given: Mapping[str, Any]) -> None:
    lacks = [name for name in (*SETTINGS, *UNCHANGED) if not hasattr(args, name)]
    lacks += [name for name in GIVEN if given.get(name) is None]
    if lacks:
        raise InputError(
            f"TRL {version('trl')} gives a callback no {lacks[0]}, as {TRL_VERSION} does; "
            f"use GRPOTrainer of trl=={TRL_VERSION}.*"
        )


def _refuse_model(args: Any, model: Any) -> None:
    zero3 = any(hasattr(one, "ds_id") for one in model.parameters())
    parts = {
        "DeepSpeed ZeRO-3": zero3 or is_deepspeed_zero3_enabled(),
        "FSDP version 1": any(
            isinstance(one, FullyShardedDataParallel) for one in model.modules()
        ),
        "FSDP version 2 or tensor parallelism": is_part(model),
    }
    for name, found in parts.items():
        if found:
            raise InputError(
                f"the model is in parts ({name}), which cannot be measured; save "
                "checkpoints, and measure them by mse-lab advise"
            )
    compiled = getattr(model, "_compiled_call_impl", None) is not None
    if compiled or hasattr(model, "_orig_mod") or args.torch_compile:
        raise InputError("a compiled model cannot be measured; do not compile it")


def _sampling(args: Any) -> dict[str, Any]:
    """Read the settings of the policy; refuse those that change the law of completions."""
    own = {"max_new_tokens": args.max_completion_length, "temperature": args.temperature}
    known = HARMLESS | {name: (value,) for name, value in own.items()}
    given = [(name, getattr(args, name)) for name in UNCHANGED]
    for name, value in [*given, *(args.generation_kwargs or {}).items()]:
        if value not in known.get(name, ()):
            raise InputError(
                f"{name} = {shown(value)}: completions are not of the policy that is "
                "differentiated, and cannot be measured; leave it out"
            )
    return own


def setting_of(args: Any) -> Setting:
    """Say what the trainer's settings amount to."""
    values = {**vars(args), "processes": args.world_size}
    # The trainer has worked both out from one of them.
    return interpret("trl", values | {"generation_batch_size": None})


def decide_on(args: Any, regret: float, awaited: int = 0) -> Decide:
    """Ask whether the trainer's group size is all right; `awaited` as for `decide`."""
    return partial(decide, question=question_of(args, regret), awaited=awaited)


def question_of(args: Any, regret: float) -> Question:
    """Ask about the trainer's group size, at the completions of one of its steps."""
    setting = setting_of(args)
    return Question(setting.estimator, setting.group_size, step_size(args), regret)


def step_size(args: Any) -> int:
    """Count the completions of one step of the optimiser."""
    each = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return int(each * args.world_size)


@contextmanager
def kept_streams() -> Iterator[None]:
    """Leave the random streams of Python, NumPy and torch as they were.

    A measurement has streams of its own, but a reward may draw from these.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    # One device: to look at the others would begin to use them.
    used = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(used):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def unpatched_forward(model: Any) -> AbstractContextManager[None]:
    """Use the model's own `forward`, which mixed precision replaces by a wrapper."""
    return replaced_forward(model, MethodType(type(model).forward, model))


def refuse(args: Any, given: Mapping[str, Any]) -> None:
    """Refuse a version of TRL, a model or settings that cannot be measured.

    `args` are the trainer's settings, `given` the arguments of a callback.
    """
    _refuse_version(args, given)
    _refuse_model(args, given["model"])
    _sampling(args)


def refuse_failed(checks: Sequence[Check]) -> None:
    """Refuse a measurement that fails a built-in check."""
    if not none_failed(checks):
        failed = ", ".join(check.name for check in checks if check.ok is False)
        raise InputError(f"a built-in check failed ({failed}); mse-lab run says more")


def live_inputs(
    given: Mapping[str, Any],
    args: Any,
    rows: Sequence[Mapping[str, Any]],
    reward: Callable[..., Any],
    processes: Processes = SINGLE_PROCESS,
) -> InMemoryInputs:
    """Describe the trainer's model and the settings of its policy.

    The rows are a prompt set, with the texts that the model reads. Refuse settings that
    change the law of completions, and processes with different prompts.
    """
    texts = [(row["id"], row["problem"]) for row in rows]
    if processes.agree(lambda: texts) != texts:
        raise InputError("this process's prompts are not those of process 0")
    prompts = {"source": "memory", "template": "none"}
    settings = {"prompts": prompts, "sampling": _sampling(args), "seed": args.seed}
    model, tokenizer = (given[name] for name in GIVEN)
    return InMemoryInputs(
        model, tokenizer, rows, reward, settings, "the live model", processes=processes
    )


def sample_live(
    inputs: InMemoryInputs, decide: Decide, budget: int
) -> tuple[RunSpec, Sampling]:
    """Sample the trainer's model until its answer is known; refuse a failed check."""
    with unpatched_forward(inputs.model):
        spec, ended = sample_model(inputs, decide, budget, shown=False)
    refuse_failed(ended.checks)
    return spec, ended
