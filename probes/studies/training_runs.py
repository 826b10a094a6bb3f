"""One run of a study: TRL's trainer, whose step is made that of Algorithm 1.

SGD's step sizes are those of Algorithm 1, theta <- theta + eta g_hat. TRL's `dr_grpo`
descends -(1/(N L)) sum A W, L the longest completion, so its learning rate is eta L with
the estimator's weights in the advantages' place. AdamW's are its learning rates.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from mse_lab.arrays import Floats
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import load_reward, reward_completions
from mse_lab.data.streams import stream, uniforms
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw_together
from mse_lab.project import PROJECT
from mse_lab.scores.score_block import score_block
from probes.studies.training_design import Run, Settings


class Task:
    """What is trained, and how good it is: a probe's policy, prompts and reward."""

    def __init__(self, settings: Settings) -> None:
        self.probe, self.settings = settings.load_probe(), settings
        self.policy = load_policy(self.probe, PROJECT)
        self._start = copy.deepcopy(self.policy.model.state_dict())
        self.prompts = load_prompts(self.probe.prompts, PROJECT)
        self.reward = load_reward(self.probe.reward, chat=self.probe.prompts.chat)
        self.longest, chat = self.probe.sampling.max_new_tokens, self.probe.prompts.chat
        self.tokens = encode_prompts(
            self.policy, self.prompts, chat=chat, new_tokens=self.longest
        )

    def restart(self) -> None:
        """Load the checkpoint's weights into the policy again."""
        self.policy.model.load_state_dict(self._start)

    def follow(self, model: Any) -> None:
        """Load a trained model's weights into the policy."""
        self.policy.model.load_state_dict(model.state_dict())

    def value(self, seed: int) -> float:
        """Measure J of the policy on a seed's uniforms, prompts of a length together."""
        means = list[float]()
        for length in {*map(len, self.tokens)}:
            some = [at for at, tokens in enumerate(self.tokens) if len(tokens) == length]
            means += self._mean_rewards(some, seed)
        return float(np.mean(means))

    def _mean_rewards(self, some: list[int], seed: int) -> list[float]:
        prompts = [self.prompts[at] for at in some]
        numbers, kind = range(self.settings.completions), f"evaluation {seed}"
        ids = [prompt.id for prompt in prompts]
        uniforms_PNT = np.stack(
            [uniforms(self.probe.seed, one, kind, numbers, self.longest) for one in ids]
        )
        tokens = [self.tokens[at] for at in some]
        drawn = draw_together(self.policy, tokens, uniforms_PNT, ids)
        return [
            reward_completions(
                self.reward, completions.texts(self.policy), prompt
            ).values_N.mean()
            for completions, prompt in zip(drawn, prompts, strict=True)
        ]

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
        max_steps=max(task.settings.steps),
        per_device_train_batch_size=run.completions_per_step,
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


def train(run: Run, task: Task) -> list[float]:
    """Train a run; give J before it and after each of the steps.

    A policy that has diverged, and has no probabilities to draw from, is worth 0.
    """
    task.restart()
    values = [task.value(run.seed)]

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
    return values + [0.0] * (1 + len(task.settings.steps) - len(values))
