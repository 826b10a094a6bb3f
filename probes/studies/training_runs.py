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
from mse_lab.data.prompts import Prompt, load_prompts
from mse_lab.data.rewards import load_reward, reward_completions
from mse_lab.data.streams import stream, uniforms
from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw_together
from mse_lab.project import PROJECT
from mse_lab.scores.score_block import score_block
from mse_lab.trl import with_baseline
from probes.studies.training_design import Run, Settings, Trained


def mean_chance(
    model: Any,
    prompts: Sequence[list[int]],
    ends: Sequence[list[int]],
    temperature: float = 1.0,
) -> float:
    """Give the mean chance of each prompt's end, what prompts begin with read once."""
    least = min(map(len, prompts))
    same = [len({tuple(one[:at]) for one in prompts}) == 1 for at in range(1, least)]
    shared = same.index(False) if False in same else len(same)
    begun = model(torch.tensor([prompts[0][:shared]]), use_cache=True).past_key_values
    begun.batch_repeat_interleave(len(prompts))
    rows = [(*one[shared:], *end) for one, end in zip(prompts, ends, strict=True)]
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    logits = model(tokens, past_key_values=begun).logits.double() / temperature
    found = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    chances = [
        found[at, len(row) - len(end) - 1 : len(row) - 1].sum().exp()
        for at, (row, end) in enumerate(zip(rows, ends, strict=True))
    ]
    return float(torch.stack(chances).mean())


class Task:
    """What is trained, and how good it is: a probe's policy, prompts and reward."""

    def __init__(self, settings: Settings) -> None:
        self.probe, self.settings = settings.load_probe(), settings
        self.policy = load_policy(self.probe, PROJECT)
        self._start = copy.deepcopy(self.policy.model.state_dict())
        self.prompts = load_prompts(self.probe.prompts, PROJECT)
        self.reward = load_reward(self.probe.reward, chat=self.probe.prompts.chat)
        self.longest = self.probe.sampling.max_new_tokens
        self.tokens = self._encode(self.prompts)
        self._sets = [(self.prompts, self.tokens)]
        if settings.held_out:
            others = self._others(settings.held_out)
            self._sets.append((others, self._encode(others)))
        self._before = dict[int, list[float]]()

    def _encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        chat = self.probe.prompts.chat
        return encode_prompts(self.policy, prompts, chat=chat, new_tokens=self.longest)

    def _others(self, source: str) -> list[Prompt]:
        """Load the prompts of a file that are not trained on."""
        changes = {"source": source, "limit": None}
        those = load_prompts(self.probe.prompts.model_copy(update=changes), PROJECT)
        known = {prompt.text for prompt in self.prompts}
        return [prompt for prompt in those if prompt.text not in known]

    def restart(self) -> None:
        """Load the checkpoint's weights into the policy again."""
        self.policy.model.load_state_dict(self._start)

    def follow(self, model: Any) -> None:
        """Load a trained model's weights into the policy."""
        self.policy.model.load_state_dict(model.state_dict())

    def before(self, seed: int) -> list[float]:
        """Measure J of the checkpoint, once for a seed."""
        if seed not in self._before:
            self.restart()
            self._before[seed] = self.values(seed)
        return self._before[seed]

    def values(self, seed: int) -> list[float]:
        """Measure J of the policy on the trained prompts, and on the held-out ones."""
        if self.settings.completions is None:
            return [self._mean_chance(*some) for some in self._sets]
        return [self._mean_reward(*some, seed) for some in self._sets]

    @torch.no_grad()
    def _mean_chance(self, prompts: Sequence[Prompt], tokens: Sequence[list[int]]) -> float:
        """Take the chance that the right answer and the line's end are drawn."""
        encode = self.policy.tokenizer.encode
        answers = [f" {prompt.record['answer']}{self.settings.end}" for prompt in prompts]
        ends = [encode(answer, add_special_tokens=False) for answer in answers]
        return mean_chance(self.policy.model, tokens, ends, self.policy.temperature)

    def _mean_reward(
        self, prompts: Sequence[Prompt], tokens: Sequence[list[int]], seed: int
    ) -> float:
        """Draw completions on a seed's uniforms, prompts of a length together."""
        means = list[float]()
        for length in {*map(len, tokens)}:
            some = [at for at, one in enumerate(tokens) if len(one) == length]
            means += self._mean_rewards(
                [prompts[at] for at in some], [tokens[at] for at in some], seed
            )
        return float(np.mean(means))

    def _mean_rewards(
        self, prompts: Sequence[Prompt], tokens: Sequence[list[int]], seed: int
    ) -> list[float]:
        numbers, kind = range(self.settings.completions or 0), f"evaluation {seed}"
        ids = [prompt.id for prompt in prompts]
        uniforms_PNT = np.stack(
            [uniforms(self.probe.seed, one, kind, numbers, self.longest) for one in ids]
        )
        drawn = draw_together(self.policy, tokens, uniforms_PNT, ids)
        return [
            reward_completions(
                self.reward, completions.texts(self.policy), prompt
            ).values_N.mean()
            for completions, prompt in zip(drawn, prompts, strict=True)
        ]

    def rows(self, run: Run) -> Dataset:
        """Give the prompts as TRL takes them: all, or drawn with replacement in order."""
        groups = max(self.settings.steps) * run.completions_per_step // run.group_size
        draws = stream(run.seed, "training prompts")
        index = draws.integers(len(self.prompts), size=groups).tolist()
        if self.settings.epochs:
            index = [*range(len(self.prompts))]
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


class OnTask:
    """Mixed into a trainer: trains on a task; refuses other tokens than were measured."""

    def __init__(self, task: Task, run: Run, **given: Any) -> None:
        self._task, self._drawn = task, dict[str, Any]()
        given |= {"reward_funcs": self._reward, "train_dataset": task.rows(run)}
        super().__init__(**given)

    def _reward(self, index: Any, completion_ids: Any, **_: Any) -> list[float | None]:
        task, rewards = self._task, list[float | None]()
        for prompt, tokens in zip(index, completion_ids, strict=True):
            texts = [task.policy.decode(tokens)]
            one = reward_completions(task.reward, texts, task.prompts[prompt])
            rewards.append(float(one.values_N[0]))
        self._drawn = {"index": index, "tokens": completion_ids, "rewards": rewards}
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        shown, mask = batch["prompt_ids"], batch["prompt_mask"].bool()
        for row, seen, index in zip(shown, mask, self._drawn["index"], strict=True):
            if row[seen].tolist() != self._task.tokens[index]:
                raise InputError(
                    f"{self._task.settings.probe}: TRL reads other tokens from its prompts "
                    "than are measured; use another template"
                )
        return batch


class ByScore:
    """Mixed in before a baseline by weights: ||W||^2 in the place of the logits' norm."""

    _task: Task
    _drawn: dict[str, Any]
    model: Any

    def _norms2(self, batch: Any) -> Any:
        task, drawn = self._task, self._drawn
        task.follow(self.model)
        return torch.from_numpy(task.norms2(drawn["index"], drawn["tokens"]))


def trainer_class(trained: Trained, size: int) -> type:
    """Make the class of trainer that an arm trains with."""
    if trained.own:
        return type("OwnTrainer", (OnTask, GRPOTrainer), {})
    how = trained.model_dump(include={"alpha", "lam", "over"})
    by_score = trained.weights == "score"
    how["weights"] = "logits" if by_score else trained.weights
    made = with_baseline(GRPOTrainer, **how, num_generations=size)
    return type("StudyTrainer", (OnTask, *[ByScore] * by_score, made), {})


class AfterSteps(TrainerCallback):
    """Call a function with the model after each of some steps."""

    def __init__(self, steps: Sequence[int], look: Callable[[Any], None]) -> None:
        self._steps, self._look = {*steps}, look

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at the model where it is asked for."""
        if state.global_step in self._steps:
            self._look(given["model"])


# TRL's loss that an estimator's weights make that of Algorithm 1.
OWN = {"loss_type": "dr_grpo", "scale_rewards": "none"}


def trl_settings(task: Task, run: Run, folder: str) -> GRPOConfig:
    """Set TRL so that one of its steps is one of Algorithm 1's."""
    scale = task.longest if run.optimiser == "sgd" else 1
    trained = task.settings.trained(run.estimator)
    own = dict[str, Any]() if trained.own else OWN
    return GRPOConfig(
        **own,
        output_dir=folder,
        optim="sgd" if run.optimiser == "sgd" else "adamw_torch",
        learning_rate=run.step_size * scale,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=trained.max_grad_norm,
        beta=0.0,
        num_iterations=1,
        disable_dropout=True,
        # N completions a step, of the prompts in TRL's order or in that of their draws.
        max_steps=max(task.settings.steps),
        per_device_train_batch_size=run.completions_per_step,
        num_generations=max(run.group_size, 2),
        shuffle_dataset=task.settings.epochs,
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


def make_trainer(task: Task, run: Run, folder: str, **hooks: Any) -> Any:
    """Make the trainer of a run, of a copy of the task's model."""
    policy = task.policy
    model, tokenizer = copy.deepcopy(policy.model), copy.deepcopy(policy.tokenizer)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in policy.parameters)
    # What pads, and is masked, is a token that the model knows.
    if tokenizer.pad_token_id not in range(policy.vocabulary):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(policy.end_tokens[0])
    if task.settings.end:
        [end] = tokenizer.encode(task.settings.end, add_special_tokens=False)
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    given = hooks | {"model": model, "processing_class": tokenizer}
    made = trainer_class(task.settings.trained(run.estimator), run.group_size)
    trainer = made(task, run, args=trl_settings(task, run, folder), **given)
    trainer.remove_callback(PrinterCallback)
    return trainer


def train(run: Run, task: Task) -> list[float]:
    """Train a run; give J before it and after each of the steps, the held-out ones last.

    A policy that has diverged, and has no probabilities to draw from, is worth 0.
    """
    values = [task.before(run.seed)]
    task.restart()

    def look(model: Any) -> None:
        task.follow(model)
        values.append(task.values(run.seed))

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
    lost = [[0.0] * len(values[0])] * (1 + len(task.settings.steps) - len(values))
    return [one for kind in zip(*values, *lost, strict=True) for one in kind]
