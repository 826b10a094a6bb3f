"""A run and its model: loaded, checked against prompts and completions, and begun.

All commands that measure go on here from what `run/prepare.py` has read, and refuse the
same input. `measuring` begins in the folder of results, or goes on there after a kill.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mse_lab.console import show_status
from mse_lab.data.identity import digest
from mse_lab.errors import InputError, shorten
from mse_lab.policy.answers import identify_answers
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.results.files import remove
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.shards import Item, Shards
from mse_lab.run.loop import Measured
from mse_lab.run.memory import plan_memory
from mse_lab.run.prepare import Inputs, RunSpec
from mse_lab.run.subject import Drawn, Subject

if TYPE_CHECKING:
    from mse_lab.policy.supplied_completions import Supplied

# Keys of a probe on which no draw and no score depends.
NOT_DRAWN: Any = {"prompts": {"population"}, "training": True}


def _find_source(supplied: "Supplied | None") -> Drawn:
    """Give the source of completions: the policy, or the file that supplies them."""
    if supplied is None:
        return Drawn()
    from mse_lab.run.supplied import FromFile

    return FromFile(supplied)


def make_subject(inputs: Inputs, policy: Policy, block: int | None = None) -> Subject:
    """Tokenize the prompts for a policy, and plan the memory of its passes.

    So many completions are scored in a `block`, by default the largest group size.
    """
    probe, prompts = inputs.probe, inputs.prompts
    new_tokens = probe.sampling.max_new_tokens
    chat, options = probe.prompts.chat, probe.prompts.chat_template_kwargs
    tokens = encode_prompts(
        policy, prompts, chat=chat, new_tokens=new_tokens, options=options
    )
    return Subject(
        **{field.name: getattr(inputs, field.name) for field in fields(Inputs)},
        policy=policy,
        source=_find_source(inputs.supplied),
        tokens=tokens,
        memory=plan_memory(probe, policy, tokens, block or probe.largest_group),
    )


@dataclass(frozen=True)
class RunContext:
    """A run and its model."""

    spec: RunSpec
    subject: Subject
    answers: Mapping[str, str]  # What the loaded model reads and answers, by part.

    @property
    def identity(self) -> dict[str, str]:
        """Identity of all that is measured: the policy's files, its answers, the rest."""
        return {**self.subject.policy.identity, **self.answers, **self.spec.identity}

    @cached_property
    def _digest(self) -> str:
        probe = self.spec.probe.model_dump(mode="json", exclude=NOT_DRAWN)
        return digest([probe, self.identity])

    def origin(self, item: Item) -> str:
        """Hash all that the measurement of an item depends on."""
        index, *block = item
        return digest([self._digest, self.spec.prompts[index].id, *block])

    def shards(self, kind: type[Measured]) -> Shards[Measured]:
        """Give the measurements of this kind in the folder of results."""
        return Shards(kind, self.spec.results.file("shards"), self.origin)


def load(spec: RunSpec, block: int | None = None) -> RunContext:
    """Load the model, and check that prompts and completions fit it; see `attach_model`."""
    probe = spec.processes.assign_device(spec.probe)
    return attach_model(spec, load_policy(probe, spec.root), block)


def attach_model(spec: RunSpec, policy: Policy, block: int | None = None) -> RunContext:
    """Check that prompts and completions fit a policy; `block` as in `make_subject`."""
    subject = make_subject(spec, policy, block)
    spec.processes.agree(lambda: subject.source.validate(policy, spec.probe))
    # Those of the first process: another machine's may round otherwise.
    answers = spec.processes.agree(lambda: identify_answers(policy, subject.tokens))
    return RunContext(spec, subject, answers)


@contextmanager
def measuring(
    context: RunContext, kind: type[Measured], *, fresh: bool
) -> Iterator[Shards[Measured]]:
    """Keep other starts out of a folder of results, and measure there.

    What an earlier start has begun there is resumed, or with `fresh` removed: only now,
    when all input is known to be usable.
    """
    processes, shards = context.spec.processes, context.shards(kind)
    processes.barrier()
    with processes.locked(context.spec.results.path):
        processes.agree(lambda: _begin(context, shards, fresh=fresh))
        yield shards


def _begin(context: RunContext, shards: Shards[Measured], *, fresh: bool) -> None:
    spec, results = context.spec, context.spec.results
    results.refuse_foreign()
    if fresh:
        results.clear()
    else:
        results.refuse_other(spec.probe, context.identity)
        if results.is_complete():
            # It was not when this start began to load the model.
            raise InputError(f"{results.path}: another start has finished it meanwhile")
    results.begin(spec.probe, context.identity)
    if spoilt := [shards.path(item) for item in shards.items() if item not in shards]:
        _drop(results, spoilt)


def _drop(results: ResultsFolder, spoilt: Sequence[Path]) -> None:
    """Remove the shards that cannot be gone on from, and say which."""
    names = shorten(", ".join(path.name for path in spoilt))
    show_status()
    print(
        f"{results.path}: {len(spoilt)} measurements are made again: what there is of "
        f"them ({names} in shards/) is damaged, or of another run or version",
        file=sys.stderr,
    )
    for path in spoilt:
        remove(path)
