"""One run of a study: TRL's trainer, whose step is made that of Algorithm 1.

SGD's step sizes are those of Algorithm 1, theta <- theta + eta g_hat. TRL's `dr_grpo`
descends -(1/(N L)) sum A W, L the longest completion, so its learning rate is eta L with
the estimator's weights in the advantages' place. AdamW's are its learning rates.
"""

import copy
import gc
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from itertools import groupby, takewhile
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from transformers.cache_utils import DynamicCache
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import SharedPrefix
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import invert, next_log_probabilities
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import load_reward, reward_completions
from mse_lab.probe.streams import stream, uniforms
from mse_lab.project import PROJECT
from mse_lab.scores.score_block import score_block
from probes.studies.training_design import Run, Settings


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
        # What all prompts begin with, such as demonstrations; each has a token more.
        places = takewhile(lambda each: len({*each}) == 1, zip(*self.tokens, strict=False))
        most = min(map(len, self.tokens)) - 1
        self._common = [token for token, *_ in places][:most]

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
        means, shared = list[float](), SharedPrefix(self.policy, [*self._common, 0])
        for _, group in groupby(
            sorted(range(len(self.tokens)), key=self._length), self._length
        ):
            some = [*group]
            for index, tokens_NT in zip(some, self._draw(some, seed, shared), strict=True):
                texts, prompt = map(self.policy.decode, tokens_NT), self.prompts[index]
                means.append(
                    reward_completions(self.reward, [*texts], prompt).values_N.mean()
                )
        return float(np.mean(means))

    def _length(self, index: int) -> int:
        return len(self.tokens[index])

    @torch.no_grad()
    def _draw(
        self, some: list[int], seed: int, shared: SharedPrefix
    ) -> list[list[list[int]]]:
        """Draw completions of prompts of one length, with what follows their ends."""
        count, policy = self.settings.completions, self.policy
        cache = shared.expand(len(some))
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
        read = len(self._common)
        unread = torch.tensor(
            [self.tokens[one][read:] for one in some], device=policy.device
        )
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


@cache
def _begin(settings: str) -> Task:
    """Load what a process trains, once."""
    task = Task(Settings.model_validate_json(settings))
    gc.freeze()  # The trainer collects garbage when a run ends: not among all modules.
    return task


def _train_in_process(run: Run, settings: str) -> Trained:
    return train(run, _begin(settings))


def train_all(runs: Sequence[Run], settings: Settings, processes: int) -> Iterator[Trained]:
    """Train runs, one in each process at a time; yield each when it ends."""
    text = settings.model_dump_json()
    if processes == 1:
        yield from (_train_in_process(run, text) for run in runs)
        return
    # What has begun to use a GPU cannot be forked.
    pool = ProcessPoolExecutor(processes, get_context("spawn"))
    try:
        ended = as_completed([pool.submit(_train_in_process, run, text) for run in runs])
        yield from (one.result() for one in ended)
    finally:
        pool.shutdown(cancel_futures=True)
