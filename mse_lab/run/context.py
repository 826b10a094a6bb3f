"""A subject gets its model, loaded or lent, and is checked with it.

All that measure go on here from what is read, and refuse the same input.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mse_lab.config.probe_files import parse_probe
from mse_lab.config.schema import Probe
from mse_lab.data.identity import identify_function
from mse_lab.data.prompts import take_prompts
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import Reward, identify_reward, load_reward
from mse_lab.errors import InputError, shown
from mse_lab.policy.answers import identify_answers
from mse_lab.policy.borrowed_model import borrow_policy
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.results.folder import START_OVER_IN_PYTHON, ResultsFolder
from mse_lab.run.memory import plan_memory
from mse_lab.run.prompt import Drawn
from mse_lab.run.subject import Subject
from mse_lab.run.supplied import FromFile


def attach(subject: Subject, policy: Policy, block: int | None) -> Subject:
    """Give a subject with a policy: tokenize prompts, plan memory, check that all fits.

    So many completions are scored in a `block`, by default the largest group size. What is
    written somewhere also gets the identity of the policy, and of what it answers.
    """
    probe, prompts, processes = subject.probe, subject.prompts, subject.processes
    new_tokens = probe.sampling.max_new_tokens
    chat, options = probe.prompts.chat, probe.prompts.chat_template_kwargs
    tokens = encode_prompts(
        policy, prompts, chat=chat, new_tokens=new_tokens, options=options
    )
    memory = plan_memory(probe, policy, tokens, block or probe.largest_group)
    supplied, identity = subject.supplied, subject.identity
    source = Drawn() if supplied is None else FromFile(supplied)
    if subject.results is not None:
        processes.agree(lambda: source.validate(policy, probe))
        # Those of the first process: another machine's may round otherwise.
        answers = processes.agree(lambda: identify_answers(policy, tokens))
        identity = {**policy.identity, **answers, **identity}
    attached = replace(subject, identity=identity)
    attached.policy, attached.tokens = policy, tokens
    attached.source, attached.memory = source, memory
    return attached


def load(subject: Subject, block: int | None = None) -> Subject:
    """Load the model of a subject, and attach it; `block` as in `attach`."""
    probe = subject.processes.assign_device(subject.probe)
    return attach(subject, load_policy(probe, subject.root), block)


def _model_path(model: Any) -> str:
    return str(getattr(model, "name_or_path", "") or type(model).__name__)


def _configure(model: Any, reward: Any, settings: Mapping[str, Any]) -> Probe:
    device, dtype = getattr(model, "device", "cpu"), getattr(model, "dtype", "float32")
    source = reward if hasattr(reward, "__qualname__") else type(reward)
    module = getattr(source, "__module__", "builtins")
    named = reward if isinstance(reward, str) else f"{module}:{source.__qualname__}"
    values = {
        "model": {
            "path": _model_path(model),
            "device": str(device),
            "dtype": str(dtype).removeprefix("torch."),
        },
        "reward": named,
    }
    return parse_probe(values | dict(settings), "measure")


def _take_reward(given: Any, probe: Probe) -> tuple[Reward, dict[str, str]]:
    """Take a reward by its name or as a function; also give its identity."""
    chat = probe.prompts.chat
    if isinstance(given, str):
        reward = load_reward(given, chat=chat)
        return reward, identify_reward(reward, given)
    if not callable(given):
        raise InputError(f"reward = {shown(given)}: give a name or a function")
    own = {"reward": identify_function(given)}
    if isinstance(given, UserReward):
        return given, own
    return UserReward(given, f"reward = {probe.reward}", chat=chat), own


@contextmanager
def borrow_subject(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    reward: Any,
    settings: Mapping[str, Any],
    name: str | None = None,
    folder: Path | None = None,
    *,
    block: int | None = None,
) -> Iterator[Subject]:
    """Make a subject of a model in memory for the body of a `with`; then it is as it was.

    `settings` are keys of a probe. If there is a folder, the results are written there, and
    a later call goes on from them. `block` is as in `attach`.
    """
    if not hasattr(tokenizer, "decode"):
        raise InputError(f"tokenizer: {type(tokenizer).__name__}; give the model's")
    probe = _configure(model, reward, settings)
    rewarded = _take_reward(reward, probe)
    rows = take_prompts(prompts, probe.prompts, answered=isinstance(reward, str))
    subject = Subject.of(
        probe,
        rows,
        *rewarded,
        name=name or Path(_model_path(model)).name,
        results=None if folder is None else ResultsFolder(folder, START_OVER_IN_PYTHON),
    )
    with borrow_policy(probe, model, tokenizer) as policy:
        yield attach(subject, policy, block)
