"""A subject gets its model, is checked with it, and begins in its folder of results.

All commands that measure go on here from what `run/subject.py` has read, and refuse the
same input. `measuring` begins in the folder, or goes on there after a kill.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mse_lab.console import show_status
from mse_lab.errors import InputError, shorten
from mse_lab.policy.answers import identify_answers
from mse_lab.policy.policy import Policy, load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.results.files import remove
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.shards import Shards
from mse_lab.run.loop import Measured
from mse_lab.run.memory import plan_memory
from mse_lab.run.source import Drawn
from mse_lab.run.subject import Subject
from mse_lab.run.supplied import FromFile


def attach(subject: Subject, policy: Policy, block: int | None = None) -> Subject:
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


@contextmanager
def measuring(
    subject: Subject, kind: type[Measured], *, fresh: bool
) -> Iterator[Shards[Measured]]:
    """Keep other starts out of a folder of results, and measure there.

    What an earlier start has begun there is resumed, or with `fresh` removed: only now,
    when all input is known to be usable.
    """
    processes, folder = subject.processes, subject.folder
    shards = Shards(kind, folder.file("shards"), subject.origin)
    processes.barrier()
    with processes.locked(folder.path):
        processes.agree(lambda: _begin(subject, shards, fresh=fresh))
        yield shards


def _begin(subject: Subject, shards: Shards[Measured], *, fresh: bool) -> None:
    results = subject.folder
    results.refuse_foreign()
    if fresh:
        results.clear()
    else:
        results.refuse_other(subject.probe, subject.identity)
        if results.is_complete():
            # It was not when this start began to load the model.
            raise InputError(f"{results.path}: another start has finished it meanwhile")
    results.begin(subject.probe, subject.identity)
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
