"""Does training obey 1/(1 + E)? TRL's trainer over group sizes, step sizes, estimators.

    pip install -e ".[train]"
    python probes/studies/training.py SETTINGS.yaml [--quick] [--out DIR]

A step along an estimate with error E = MSE / ||g||^2 gains, at its own best size, 1/(1 + E)
of what the true gradient would (`mse_lab/mse/progress.py`). With N completions a step

    N ||g||^2 E = c1 G + c2 + c3/(G-1)    for GRPO-type,    c1 G + c_b    for a baseline b,

the constants of a run's `advice.json`, measured before any training. Against the base arm
this predicts the gain in mean reward J and its inverse, the steps to a given J, by the
ratio of 1 + E; the best step size of SGD by the same ratio, of AdamW by its square root.

`prediction.csv` is written first. Each run, one row of `runs.csv`, is appended when it
ends: a start after a kill makes the others. J is over the prompts that are trained on,
which are drawn with replacement, so they are all that there are: of P prompts that an
advice took for a sample, c1 counts (1 - 1/P) times, and ||g||^2 is that of their own mean
gradient, c1/P larger. The step size of an arm is chosen on half of the seeds and judged on
the others, and the other way round (`comparison.csv`, `training.png`).

SGD's step sizes are those of Algorithm 1, theta <- theta + eta g_hat. TRL's `dr_grpo`
descends -(1/(N L)) sum A W, L the longest completion, so its learning rate is eta L with
the estimator's weights in the advantages' place. AdamW's are its learning rates.
"""

import argparse
import copy
import gc
import hashlib
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, model_validator
from scipy import stats
from transformers import PrinterCallback, TrainerCallback
from transformers.cache_utils import DynamicCache
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from mse_lab.arrays import Floats
from mse_lab.commands.process import conclude
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import invert, next_log_probabilities
from mse_lab.probe.plain_text import parse_yaml, read_text
from mse_lab.probe.probe_files import load_probe, parse_as, probe_file
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import load_reward, reward_completions
from mse_lab.probe.schema import Probe, Section
from mse_lab.probe.streams import stream, uniforms
from mse_lab.project import PROJECT
from mse_lab.report.drawing import label_plainly, legend_above, save_figure, styles_of
from mse_lab.results.files import write_table
from mse_lab.run.processes import lock
from mse_lab.scores.score_block import score_block

EXAMPLE = "probes/studies/tiny-base.yaml"
LEVEL = 0.95

# What `advice.json` calls c2 and each c_b. The b* that best-constant-loo plugs in has noise
# of its own, which is left out: its E is a lower bound.
WITHIN = {"grpo": "c2", "vanilla": "vanilla", "best-constant-loo": "best_constant"}

Positive = Annotated[int, Field(ge=1)]
Estimator = Literal["grpo", "vanilla", "best-constant-loo"]


class Base(Section):
    """The arm that all others of its optimiser are compared with; its estimator is grpo."""

    completions_per_step: Positive
    group_size: Annotated[int, Field(ge=2)]


class Grid(Section):
    """Runs of one optimiser and estimator: N x G x step sizes x the study's seeds."""

    optimiser: Literal["sgd", "adamw"]
    estimator: Estimator = "grpo"
    completions_per_step: Annotated[list[Positive], Field(min_length=1)]
    group_sizes: Annotated[list[Positive], Field(min_length=1)]
    step_sizes: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_whole_groups(self) -> Self:
        if self.estimator != "vanilla" and min(self.group_sizes) < 2:
            raise ValueError(f"group_sizes: {self.estimator} needs groups of two or more")
        for count in self.completions_per_step:
            for size in self.group_sizes:
                if count % size:
                    raise ValueError(f"group_sizes: {size} does not divide {count}")
        return self


class Settings(Section):
    """A study, as its YAML file has it."""

    probe: str  # Its model, prompts, reward and sampling are what is trained.
    changes: list[str] = Field(default=[])  # To the probe, as `--set` takes them.
    advice: str  # The `advice.json` of a run on this probe.
    steps: Annotated[list[Positive], Field(min_length=1)]  # After which J is measured.
    seeds: Annotated[int, Field(ge=2)]
    completions: Positive  # Of each prompt, for J, on uniforms common to all runs.
    micro_batch: Positive | None = None  # Completions in a backward pass; None for N.
    base: Base
    arms: Annotated[list[Grid], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_rising_steps(self) -> Self:
        if sorted({*self.steps}) != self.steps:
            raise ValueError(f"steps = {self.steps}: each must be larger than the last")
        return self

    def load_probe(self) -> Probe:
        """Read what is trained."""
        probe = load_probe(probe_file(self.probe, PROJECT), self.changes)
        if probe.sampling.stop:
            raise InputError(
                f"{self.probe}: TRL knows no sampling.stop; add changes: "
                "['sampling.stop=[]'], and take an advice of that"
            )
        return probe

    @property
    def digest(self) -> str:
        """What the numbers of a run depend on, beside what names the run."""
        values = [self.load_probe().model_dump(mode="json"), self.steps, self.completions]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]

    def shortened(self) -> "Settings":
        """Two sizes, two step sizes, two seeds and two steps of the first grid."""
        grid, sizes = self.arms[0], {self.base.group_size, *self.arms[0].group_sizes}
        changes = {
            "completions_per_step": [self.base.completions_per_step],
            "group_sizes": [self.base.group_size, max(sizes - {self.base.group_size})],
            "step_sizes": grid.step_sizes[1:3],
        }
        few = {"steps": [1, 2], "seeds": 2, "completions": min(self.completions, 8)}
        return self.model_copy(update={"arms": [grid.model_copy(update=changes)], **few})


class Arm(NamedTuple):
    """What is compared: each arm has its own best step size."""

    optimiser: str
    estimator: str
    completions_per_step: int
    group_size: int


class Run(NamedTuple):
    """One training; these are the columns that name it in `runs.csv`."""

    optimiser: str
    estimator: str
    completions_per_step: int
    group_size: int
    step_size: float
    seed: int

    @property
    def arm(self) -> Arm:
        """Its arm."""
        return Arm(*self[:4])


def base_of(arm: Arm, settings: Settings) -> Arm:
    """Give the arm that an arm is compared with."""
    return arm._replace(estimator="grpo", **settings.base.model_dump())


def load_settings(path: Path) -> Settings:
    """Read a study."""
    return parse_as(Settings, parse_yaml(read_text(path), str(path)), str(path), EXAMPLE)


def runs_of(settings: Settings) -> list[Run]:
    """List all runs, seeds outermost: what is done at any time is balanced over arms."""
    return [
        Run(grid.optimiser, grid.estimator, count, size, step_size, seed)
        for seed in range(settings.seeds)
        for grid in settings.arms
        for count in grid.completions_per_step
        for size in grid.group_sizes
        for step_size in grid.step_sizes
    ]


class Constants(NamedTuple):
    """What predicts E: N ||g||^2 E of a baseline, c3 apart, by estimator."""

    c1: float
    within: dict[str, float]  # c2 of GRPO-type, c_b of others.
    c3: float
    gradient2: float

    def one_plus_error(self, arm: Arm) -> float:
        """1 + E of an arm."""
        size = arm.group_size
        pairs = self.c3 / (size - 1) if arm.estimator == "grpo" else 0.0
        noise = self.c1 * size + self.within[arm.estimator] + pairs
        return 1 + noise / (arm.completions_per_step * self.gradient2)


def read_constants(path: Path, prompts: int) -> Constants:
    """Read an advice, for a training on so many prompts, which it was measured on."""
    advice = json.loads(read_text(path if path.exists() else PROJECT / path))
    try:
        within = {name: advice[key]["value"] for name, key in WITHIN.items()}
        c1, c3, gradient2 = (advice[key]["value"] for key in ("c1", "c3", "gradient2"))
        sample = 0 if advice.get("population") else 1 / prompts
    except (KeyError, TypeError):
        raise InputError(f"{path}: no advice of mse_lab; name an advice.json") from None
    return Constants((1 - sample) * c1, within, c3, gradient2 + sample * c1)


def predict(settings: Settings, constants: Constants) -> pd.DataFrame:
    """Predict for each arm, over the base arm: gain, steps to a J, best step size."""
    rows = []
    for arm in dict.fromkeys(run.arm for run in runs_of(settings)):
        error = constants.one_plus_error(arm)
        ratio = constants.one_plus_error(base_of(arm, settings)) / error
        best = ratio if arm.optimiser == "sgd" else ratio**0.5
        rows.append((*arm, error, ratio, 1 / ratio, best))
    kinds = ("gain_ratio", "steps_ratio", "step_size_ratio")
    names = [*Arm._fields, "one_plus_error", *(f"predicted_{kind}" for kind in kinds)]
    return pd.DataFrame(rows, columns=names)


class Task:
    """What is trained, and how good it is: a probe's policy, prompts and reward."""

    def __init__(self, settings: Settings) -> None:
        self.probe, self.settings = settings.load_probe(), settings
        self.policy = load_policy(self.probe, PROJECT)
        if self.policy.empty_cache() is None:
            raise InputError(f"{settings.probe}: its model keeps no keys and values")
        self._start = copy.deepcopy(self.policy.model.state_dict())
        self._start_values = dict[int, float]()
        self.prompts = load_prompts(self.probe.prompts, PROJECT)
        self.reward = load_reward(self.probe.reward, chat=self.probe.prompts.chat)
        self.longest, chat = self.probe.sampling.max_new_tokens, self.probe.prompts.chat
        self.tokens = encode_prompts(
            self.policy, self.prompts, chat=chat, new_tokens=self.longest
        )

    def follow(self, model: Any) -> None:
        """Load a trained model's weights into the policy."""
        self.policy.model.load_state_dict(model.state_dict())

    def restart(self, seed: int) -> float:
        """Load the checkpoint's weights again; give their J, measured once a seed."""
        self.policy.model.load_state_dict(self._start)
        if seed not in self._start_values:
            self._start_values[seed] = self.value(seed)
        return self._start_values[seed]

    def value(self, seed: int) -> float:
        """Measure J of the policy on a seed's uniforms, prompts of a length together."""
        means = []
        for _, group in groupby(
            sorted(range(len(self.tokens)), key=self._length), self._length
        ):
            some = [*group]
            for index, tokens_NT in zip(some, self._draw(some, seed), strict=True):
                texts, prompt = map(self.policy.decode, tokens_NT), self.prompts[index]
                means.append(
                    reward_completions(self.reward, [*texts], prompt).values_N.mean()
                )
        return float(np.mean(means))

    def _length(self, index: int) -> int:
        return len(self.tokens[index])

    @torch.no_grad()
    def _draw(self, some: list[int], seed: int) -> list[list[list[int]]]:
        """Draw completions of prompts of one length, with what follows their ends."""
        count, policy, cache = (
            self.settings.completions,
            self.policy,
            self.policy.empty_cache(),
        )
        rows = [
            uniforms(
                self.probe.seed,
                self.prompts[one].id,
                f"evaluation {seed}",
                range(count),
                self.longest,
            )
            for one in some
        ]
        draws_NT = torch.from_numpy(np.concatenate(rows)).to(policy.device)
        unread = torch.tensor([self.tokens[one] for one in some], device=policy.device)
        row_N = torch.arange(len(some), device=policy.device).repeat_interleave(count)
        drawn = []
        for draws_N in draws_NT.T:
            logs_RV = next_log_probabilities(policy, unread, cache)
            drawn.append(invert(logs_RV, draws_N, row_N))
            if len(drawn) == 1:
                cache.batch_repeat_interleave(count)
                row_N = torch.arange(len(draws_NT), device=policy.device)
            unread = drawn[-1][:, None]
        return torch.stack(drawn, 1).reshape(len(some), count, -1).tolist()

    def rows(self, run: Run) -> Dataset:
        """Draw the prompts of a run's groups, with replacement, as TRL takes them."""
        groups = max(self.settings.steps) * run.completions_per_step // run.group_size
        draws = stream(run.seed, "training prompts")
        index = draws.integers(len(self.prompts), size=groups).tolist()
        chat = self.probe.prompts.chat
        shown = [one.turns if chat else one.text for one in self.prompts]
        return Dataset.from_dict({"prompt": [shown[one] for one in index], "index": index})

    def norms2(self, index: Sequence[int], tokens: Sequence[list[int]]) -> Floats:
        """Measure ||W||^2 of completions, each of the prompt of its index, (N,)."""
        norms2_N = np.empty(len(index))
        for prompt in {*index}:
            rows = [row for row, one in enumerate(index) if one == prompt]
            drawn, unknown = [np.array(tokens[row]) for row in rows], [0.0] * len(rows)
            block = Completions.of_each(drawn, self.longest, unknown, ends=lambda _: False)
            scores = score_block(self.policy, self.tokens[prompt], block, None)
            norms2_N[rows] = scores.gram_NN.diagonal()
        return norms2_N


class StudyTrainer(GRPOTrainer):
    """TRL's trainer with an estimator's weights in the place of its advantages."""

    def __init__(self, task: Task, run: Run, **given: Any) -> None:
        super().__init__(reward_funcs=self._reward, train_dataset=task.rows(run), **given)
        # TRL's settings take no groups of one; nothing after them needs two.
        self.num_generations = run.group_size
        self._task, self._run, self._drawn = task, run, dict[str, Any]()

    def _reward(self, index: Any, completion_ids: Any, **_: Any) -> list[float | None]:
        task, rewards = self._task, list[float | None]()
        for prompt, tokens in zip(index, completion_ids, strict=True):
            texts = [task.policy.decode(tokens)]
            one = reward_completions(task.reward, texts, task.prompts[prompt])
            rewards.append(float(one.values_N[0]))
        self._drawn = {"index": index, "tokens": completion_ids, "rewards": rewards}
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        self._refuse_other_tokens(batch)
        weights = torch.from_numpy(self._weights().flatten())
        batch["advantages"] = weights.to(batch["advantages"])
        return batch

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, **_: Any
    ) -> tuple[Any, Any, None]:
        """TRL's log-probabilities, with each prompt processed once and not for each of G.

        The entropies, which are logged and nothing else, are left out.
        """
        prompts = torch.stack([input_ids, attention_mask], 1)[..., :-logits_to_keep]
        prompts_R2T, row_N = torch.unique(prompts, dim=0, return_inverse=True)
        cache, read_NT = DynamicCache(config=model.config), input_ids[:, -logits_to_keep:]
        tokens, mask = prompts_R2T.unbind(1)
        first = model(tokens, mask, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache.batch_select_indices(row_N)
        rest = model(
            read_NT[:, :-1], attention_mask[:, :-1], past_key_values=cache, use_cache=True
        )
        logits_NTV = torch.cat([first.logits[row_N], rest.logits], 1) / self.temperature
        logs_NT = logits_NTV.log_softmax(-1).gather(-1, read_NT[..., None]).squeeze(-1)
        return logs_NT, torch.zeros_like(logs_NT), None

    def _refuse_other_tokens(self, batch: Any) -> None:
        """Refuse prompts of which TRL shows the model other tokens than were measured."""
        shown, mask = batch["prompt_ids"], batch["prompt_mask"].bool()
        for row, seen, index in zip(shown, mask, self._drawn["index"], strict=True):
            if row[seen].tolist() != self._task.tokens[index]:
                raise InputError(
                    f"{self._task.settings.probe}: TRL reads other tokens from its prompts "
                    "than are measured; use another template"
                )

    def _weights(self) -> Floats:
        """The estimator's weights of this batch, (P, G)."""
        size, drawn = self._run.group_size, self._drawn
        rewards_PRG = np.array(drawn["rewards"]).reshape(-1, 1, size)
        lengths = np.array([len(row) for row in drawn["tokens"]])
        norms2 = np.full(lengths.shape, np.nan)
        estimator = find_estimator(self._run.estimator)
        if not estimator.reward_only:
            self._task.follow(self.model)
            norms2 = self._task.norms2(drawn["index"], drawn["tokens"])
        unknown, shape = np.full(len(rewards_PRG), np.nan), rewards_PRG.shape
        shaped = lengths.reshape(shape), norms2.reshape(shape)
        return estimator.weights(Groups(rewards_PRG, *shaped, unknown, unknown[:, None]))


class AfterSteps(TrainerCallback):
    """Call a function with the model after each of some steps."""

    def __init__(self, steps: Sequence[int], look: Callable[[Any], None]) -> None:
        self._steps, self._look = {*steps}, look

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at the model where it is asked for."""
        if state.global_step in self._steps:
            self._look(given["model"])


def trl_settings(task: Task, run: Run, folder: str) -> GRPOConfig:
    """Set TRL so that one of its steps is one of Algorithm 1's."""
    count, settings = run.completions_per_step, task.settings
    micro = settings.micro_batch or count
    scale = task.longest if run.optimiser == "sgd" else 1
    return GRPOConfig(
        output_dir=folder,
        optim="sgd" if run.optimiser == "sgd" else "adamw_torch",
        learning_rate=run.step_size * scale,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=0.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=0.0,
        num_iterations=1,
        disable_dropout=True,
        # N completions a step, of the prompts in the order in which they were drawn.
        max_steps=max(settings.steps),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=count // micro,
        num_generations=max(run.group_size, 2),
        shuffle_dataset=False,
        # The policy that is differentiated: the temperature, and nothing else.
        max_completion_length=task.longest,
        temperature=task.probe.sampling.temperature,
        top_p=1.0,
        top_k=0,
        repetition_penalty=1.0,
        seed=run.seed,
        # Nothing beside the steps.
        use_cpu=task.policy.device.type == "cpu",
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )


def make_trainer(task: Task, run: Run, folder: str, **hooks: Any) -> StudyTrainer:
    """Make the trainer of a run, of a copy of the task's model."""
    policy = task.policy
    model, tokenizer = copy.deepcopy(policy.model), copy.deepcopy(policy.tokenizer)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in policy.parameters)
    # What pads, and is masked, is a token that the model knows.
    if tokenizer.pad_token_id not in range(policy.vocabulary):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(policy.end_tokens[0])
    given = hooks | {"model": model, "processing_class": tokenizer}
    trainer = StudyTrainer(task, run, args=trl_settings(task, run, folder), **given)
    trainer.remove_callback(PrinterCallback)
    return trainer


Trained = tuple[Run, list[float], float]


def train(run: Run, task: Task) -> Trained:
    """Train a run; give J before it and after each of the steps, and the seconds.

    A policy that has diverged, and has no probabilities to draw from, is worth 0.
    """
    began, values = time.monotonic(), [task.restart(run.seed)]

    def look(model: Any) -> None:
        task.follow(model)
        values.append(task.value(run.seed))

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Warnings of the libraries about each other.
        warnings.simplefilter("ignore", FutureWarning)
        callbacks = [AfterSteps(task.settings.steps, look)]
        trainer = make_trainer(task, run, folder, callbacks=callbacks)
        try:
            trainer.train()
        except (RuntimeError, InputError) as error:
            if "probability tensor" not in str(error) and "NaN" not in str(error):
                raise
    values += [0.0] * (1 + len(task.settings.steps) - len(values))
    return run, values, time.monotonic() - began


class RunsFile:
    """`runs.csv`: a row is appended when its run ends, and never changed."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self._digest = path, settings.digest
        values = [f"step_{step}" for step in (0, *settings.steps)]
        self._columns = [*Run._fields, *values, "seconds", "digest"]

    def read(self) -> pd.DataFrame:
        """Read the rows that are whole: a kill may have cut the last one."""
        if not self.path.exists():
            return pd.DataFrame(columns=self._columns)
        whole, end, rest = self.path.read_text("utf-8").rpartition("\n")
        if rest:
            self.path.write_text(whole + end, "utf-8")
        table = pd.read_csv(self.path) if whole else pd.DataFrame(columns=self._columns)
        if list(table) != self._columns or (table["digest"] != self._digest).any():
            raise InputError(
                f"{self.path}: of other settings; name another folder with --out"
            )
        return table

    def missing(self, runs: Sequence[Run]) -> list[Run]:
        """List the runs that have no row."""
        done = {Run(*row) for row in self.read()[[*Run._fields]].itertuples(index=False)}
        return [run for run in runs if run not in done]

    def append(self, run: Run, values: Sequence[float], seconds: float) -> None:
        """Append the row of a run."""
        fields = [*map(str, (*run, *values, round(seconds, 1))), self._digest]
        new = not self.path.exists() or not self.path.stat().st_size
        lines = [self._columns, fields] if new else [fields]
        text = "".join(",".join(line) + "\n" for line in lines)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def train_all(runs: Sequence[Run], settings: Settings) -> Iterator[Trained]:
    """Train runs one after another; yield each when it ends."""
    if runs:
        task = Task(settings)
        gc.freeze()  # The trainer collects garbage when a run ends: not among all modules.
        yield from (train(run, task) for run in runs)


def steps_until(values_T: Floats, steps_T: Floats, target: float) -> float:
    """When J first reaches a target, on straight lines between the steps; else NaN.

    >>> steps_until(np.array([0.0, 0.2, 0.6]), np.array([0.0, 5.0, 15.0]), 0.4)
    10.0
    """
    for at in range(1, len(values_T)):
        low, high = values_T[at - 1], values_T[at]
        if low < target <= high:
            share = (target - low) / (high - low)
            return float(steps_T[at - 1] + share * (steps_T[at] - steps_T[at - 1]))
    return float("nan")


class Judged(NamedTuple):
    """J of an arm, seeds by steps, each seed at a step size that the others chose."""

    values: pd.DataFrame
    chosen: tuple[float, ...]  # By either half of the seeds.
    at_edge: bool  # Whether a better one may lie beyond those that were tried.

    @property
    def gains(self) -> pd.Series:
        """Gain in J up to the last step, by seed."""
        return self.values.iloc[:, -1] - self.values.iloc[:, 0]


def judge_arm(table: pd.DataFrame, columns: Sequence[str]) -> Judged | None:
    """Let even and odd seeds choose each other's step size, by the last of the columns."""
    wide = table.pivot(index="step_size", columns="seed", values=columns[-1])
    wide = wide.dropna(axis=1)  # Seeds that have run at every step size.
    halves = [wide.loc[:, wide.columns % 2 == half] for half in (0, 1)]
    if any(half.empty for half in halves):
        return None
    by_even, by_odd = (float(half.mean(axis=1).idxmax()) for half in halves)
    own = np.where(table["seed"] % 2 == 0, by_odd, by_even)
    rows = table[(table["step_size"] == own) & table["seed"].isin(wide.columns)]
    edge = {by_even, by_odd} & {wide.index.min(), wide.index.max()}
    return Judged(rows.set_index("seed")[[*columns]], (by_even, by_odd), bool(edge))


def ratio_over_seeds(tops: pd.Series, bases: pd.Series) -> tuple[float, float, float]:
    """Ratio of two means, with Student's interval of its logarithm by the jackknife.

    Seeds are paired; without an interval where there are fewer than three, or a mean of
    some is not above zero.
    """
    both = pd.concat([tops, bases], axis=1, join="inner").to_numpy(float)
    means, count = both.mean(0), len(both)
    ratio = float(means[0] / means[1]) if means[1] else float("nan")
    others = (both.sum(0) - both) / max(count - 1, 1)
    if count < 3 or others.min() <= 0 or means.min() <= 0:
        return ratio, float("nan"), float("nan")
    logs = np.log(others[:, 0] / others[:, 1])
    error = np.sqrt((count - 1) / count * ((logs - logs.mean()) ** 2).sum())
    reach = stats.t.ppf((1 + LEVEL) / 2, count - 1) * error
    return ratio, ratio * float(np.exp(-reach)), ratio * float(np.exp(reach))


def compare_two(own: Judged, base: Judged, steps_T: Floats) -> dict[str, float]:
    """Compare an arm with the base: gain, steps to the same J, best step size."""
    ratio, low, high = ratio_over_seeds(own.gains, base.gains)
    curve_T, base_T = (one.values.mean().to_numpy(float) for one in (own, base))
    if curve_T[-1] <= base_T[-1]:
        taken = steps_T[-1] / steps_until(base_T, steps_T, curve_T[-1])
    else:
        taken = steps_until(curve_T, steps_T, base_T[-1]) / steps_T[-1]
    best, base_best = (float(stats.gmean(one.chosen)) for one in (own, base))
    return {
        "seeds": len(own.values),
        "at_edge": own.at_edge,
        "gain": float(own.gains.mean()),
        "gain_ratio": ratio,
        "gain_ratio_low": low,
        "gain_ratio_high": high,
        "steps_ratio": taken,
        "step_size": best,
        "step_size_ratio": best / base_best,
    }


def compare(
    table: pd.DataFrame, settings: Settings, predicted: pd.DataFrame
) -> pd.DataFrame:
    """Compare each arm with the base arm of its optimiser, after each of the steps."""
    groups = {Arm(*key): rows for key, rows in table.groupby([*Arm._fields])}
    rows = []
    for step in settings.steps:
        steps = [0, *(one for one in settings.steps if one <= step)]
        columns = [f"step_{one}" for one in steps]
        judged = {arm: judge_arm(group, columns) for arm, group in groups.items()}
        for expected in predicted.to_dict("records"):
            arm = Arm(*(expected[name] for name in Arm._fields))
            own, base = judged.get(arm), judged.get(base_of(arm, settings))
            if own and base:
                found = compare_two(own, base, np.array(steps, dtype=float))
                rows.append({**expected, "step": step, **found})
    return pd.DataFrame(rows)


def draw_arms(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw gain over 1 + E, both over the base arm's, with the law."""
    rows = rows.sort_values("one_plus_error")
    law = rows["one_plus_error"], rows["predicted_gain_ratio"]
    axes.plot(*law, color="0.3", lw=1.2, label="the law, 1/(1 + E)")
    styles = styles_of(["grpo", *rows["estimator"].unique()])
    for (estimator, count), arms in rows.groupby(["estimator", "completions_per_step"]):
        ends = arms[["gain_ratio_low", "gain_ratio_high"]].sub(arms["gain_ratio"], axis=0)
        style, mark = styles[estimator], "osD^v<>"[int(np.log2(count)) % 7]
        axes.errorbar(
            arms["one_plus_error"],
            arms["gain_ratio"],
            ends.abs().fillna(0).T,
            fmt=mark,
            color=style.colour,
            ms=4,
            lw=0.8,
            label=f"{style.label}, N = {count}",
        )
    axes.set(xlabel="1 + E, measured before training", xscale="log", yscale="log")
    label_plainly(axes.xaxis)
    label_plainly(axes.yaxis)


def compose(comparison: pd.DataFrame) -> Figure:
    """Compose the figure: a panel for each optimiser and step, a mark an arm."""
    optimisers, steps = (comparison[name].unique() for name in ("optimiser", "step"))
    shape = len(optimisers), len(steps)
    figure = Figure(figsize=(3.4 * shape[1], 3.2 * shape[0] + 0.5), layout="constrained")
    grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    for axes, (optimiser, step) in zip(grid.flat, product(optimisers, steps), strict=True):
        here = (comparison["optimiser"] == optimiser) & (comparison["step"] == step)
        draw_arms(axes, comparison[here])
        axes.set(title=f"{optimiser}, {step} steps", ylabel="gain over the base arm's")
        axes.label_outer()
    legend_above(figure, 4)
    return figure


def study(settings: Settings, folder: Path, so_far: bool) -> None:
    """Predict, train what is missing, compare, draw."""
    prompts = len(load_prompts(settings.load_probe().prompts, PROJECT))
    predicted = predict(settings, read_constants(Path(settings.advice), prompts))
    file, runs = RunsFile(folder / "runs.csv", settings), runs_of(settings)
    with lock(folder):
        todo = [] if so_far else file.missing(runs)
        write_table(folder / "prediction.csv", predicted)
        for left, trained in enumerate(train_all(todo, settings), 1 - len(todo)):
            file.append(*trained)
            print(f"{' '.join(map(str, trained[0]))}: {-left} left", flush=True)
        comparison = compare(file.read(), settings, predicted)
        if comparison.empty:
            raise InputError(f"{file.path}: no arm has run with two seeds beside its base")
        write_table(folder / "comparison.csv", comparison)
        for name in ("training.png", "training.pdf"):
            save_figure(lambda: compose(comparison), folder / name)
    shown = ["optimiser", "estimator", "completions_per_step", "group_size", "step"]
    shown += ["one_plus_error", "gain_ratio", "predicted_gain_ratio"]
    print(comparison[shown].to_string(index=False, float_format="{:.2f}".format))


def main(words: Sequence[str] | None = None) -> int:
    """Run a study from the command line."""
    parser = argparse.ArgumentParser(description="Does training obey 1/(1 + E)?")
    parser.add_argument("settings", type=Path, metavar="SETTINGS.yaml")
    parser.add_argument("--quick", action="store_true", help="eight short runs, a minute")
    parser.add_argument("--so-far", action="store_true", help="train nothing; compare")
    parser.add_argument("--out", type=Path, metavar="DIR")
    given = parser.parse_args(words)

    def command() -> int:
        settings = load_settings(given.settings)
        settings = settings.shortened() if given.quick else settings
        default = Path("results") / f"{given.settings.stem}{'-quick' * given.quick}"
        study(settings, given.out or default, given.so_far)
        return 0

    return conclude(command)


if __name__ == "__main__":
    sys.exit(main())
