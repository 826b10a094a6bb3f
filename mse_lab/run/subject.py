"""The subject of a measurement: prompts, their reward, and the policy that answers them.

`prepare` reads and checks all input but the model, without torch: what is wrong is refused
at once, and a finished run is recognised. `run/context.py` attaches the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numpy import float32
from numpy.typing import NDArray

from mse_lab.config.probe_files import dump_probe
from mse_lab.config.schema import Probe
from mse_lab.console import show_status
from mse_lab.data.first_prompt import describe_first
from mse_lab.data.identity import digest, identify_prompts
from mse_lab.data.prompts import Prompt, read_prompts
from mse_lab.data.rewards import (
    Reward,
    identify_reward,
    load_reward,
    reads_answer,
    reward_kind,
    try_reward,
)
from mse_lab.data.supplied_completions import (
    Supplied,
    find_completions,
    identify_completions,
)
from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimators, identify_estimators
from mse_lab.project import PROJECT
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.processes import SINGLE_PROCESS, Processes

if TYPE_CHECKING:
    from mse_lab.policy.policy import Policy
    from mse_lab.run.memory import Memory
    from mse_lab.scores.reference import Gradient

# The index of a prompt; for a block of its completions also the numbers start and stop.
Item = tuple[int, ...]

# Keys of a probe on which no draw and no score depends.
NOT_DRAWN: Any = {"prompts": {"population"}, "training": True}


@dataclass(kw_only=True, eq=False)
class Subject:
    """What is measured, where its results go, and once it is attached the policy."""

    name: str  # The probe's name, for tables and the progress bar.
    probe: Probe  # The settings: sampling, pool sizes, group sizes, seed.
    prompts: Sequence[Prompt]
    in_source: int = 0  # How many prompts there are beside; 0 where that is not known.
    reward: Reward  # The reward, tried on every prompt.
    # The estimators that will be evaluated; rewards that one cannot take are refused.
    estimators: Sequence[Estimator] = ()
    # The file that completions are read from; None where the policy draws them.
    supplied: Supplied | None = None
    # What must be the same when it is resumed, by part: prompts, supplied completions, the
    # user's own reward and estimators; of an attached policy its files and answers, too.
    identity: dict[str, str] = field(default_factory=dict)
    results: ResultsFolder | None = None  # None where nothing is written.
    root: Path = PROJECT  # The project's folder, which relative paths may start from.
    processes: Processes = SINGLE_PROCESS  # Those that share the prompts.

    policy: "Policy" = field(init=False)
    # Where completions come from, a `run.prompt.Drawn`, which knows this class.
    source: Any = field(init=False)
    tokens: list[list[int]] = field(init=False)  # The token ids of each prompt.
    memory: "Memory" = field(init=False)  # How many completions each pass takes at once.

    @classmethod
    def of(
        cls,
        probe: Probe,
        prompts: Sequence[Prompt],
        reward: Reward,
        own: dict[str, str],
        **others: Any,
    ) -> Self:
        """Make one of input that is read, tried and hashed; `own` is the user's code."""
        estimators = find_estimators(probe.estimators, probe.group_sizes, len(prompts))
        try_reward(reward, prompts)
        identity = identify_prompts(prompts) | own | identify_estimators(estimators)
        given = {"probe": probe, "prompts": prompts, "reward": reward, **others}
        return cls(estimators=estimators, identity=identity, **given)

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each prompt: copies are one kind, but all of a set differ."""
        if self.probe.prompts.population == "these":
            return [prompt.id for prompt in self.prompts]
        return [reward_kind(prompt, self.reward) for prompt in self.prompts]

    @property
    def folder(self) -> ResultsFolder:
        """The folder of the results, of what is written somewhere."""
        assert self.results is not None
        return self.results

    @cached_property
    def _digest(self) -> str:
        probe = self.probe.model_dump(mode="json", exclude=NOT_DRAWN)
        return digest([probe, self.identity])

    def origin(self, item: Item) -> str:
        """Hash all that an item depends on, of a subject with its policy."""
        index, *block = item
        return digest([self._digest, self.prompts[index].id, *block])

    def first_prompt(self) -> list[str]:
        """Show the first prompt, special tokens included, and what is rewarded there."""
        decode, chat = self.policy.tokenizer.decode, self.probe.prompts.chat
        text = str(decode(self.tokens[0], clean_up_tokenization_spaces=False))
        count = self.in_source
        return describe_first(self.prompts, self.reward, text, chat=chat, in_source=count)

    @property
    def keeps_whole(self) -> bool:
        """Whether the prompts' vectors are kept whole, not as sketches."""
        from mse_lab.scores.sketches import vectors_fit

        return vectors_fit(len(self.prompts), self.policy.size)

    def keep(self, gradient: "Gradient") -> NDArray[float32]:
        """Reduce a reference vector to what is kept of it when its prompt is done."""
        from mse_lab.scores.sketches import Sketch, Whole

        parameters, seed = self.policy.parameters, self.probe.seed
        # A prompt may leave out parameters that another uses, such as an expert's.
        kept = Whole(parameters) if self.keeps_whole else Sketch(parameters, seed)
        for name, part in gradient.items():
            kept.add(name, [part])
        return kept.vector


def prepare(
    name: str,
    probe: Probe,
    folder: Path,
    root: Path = PROJECT,
    processes: Processes = SINGLE_PROCESS,
    *,
    fresh: bool = False,
) -> Subject:
    """Read everything that a run needs besides the model; the results go to `folder`.

    What is wrong is refused in a second: torch is not imported yet. So is a folder of
    another probe, unless a `fresh` start is to clear it.
    """
    prompts, in_source = read_prompts(
        probe.prompts, root, seed=probe.seed, answered=reads_answer(probe.reward)
    )
    reward = load_reward(probe.reward, chat=probe.prompts.chat)
    supplied = find_completions(probe, prompts, root)
    subject = Subject.of(
        probe,
        prompts,
        reward,
        identify_completions(probe, root) | identify_reward(reward, probe.reward),
        name=name,
        root=root,
        in_source=in_source,
        supplied=supplied,
        results=ResultsFolder(folder),
        processes=processes,
    )
    here = [dump_probe(probe), subject.identity]
    if processes.agree(lambda: here) != here:
        raise InputError(
            "this process's probe, prompts, completions or code are not those of "
            "process 0; give all machines the same files"
        )
    if not fresh:
        subject.folder.refuse_other(probe)
    if processes.first:
        show_status(f"{name}: loading torch and the model")
    return subject
