"""TRL's GRPOTrainer, set so that one of its steps is one of Algorithm 1's.

Algorithm 1 ascends, with B prompts of G completions, N = B G, and lengths counted in full,

    theta <- theta + eta g_hat,   g_hat = (1/N) sum_x sum_i w_xi W_xi.

TRL's `dr_grpo` descends -(1/(N L)) sum A_xi W_xi, L the longest completion allowed; nothing
is clipped, for every ratio is 1 at one update per batch. Its own advantages
A = Z - mean are (G-1)/G times leave-one-out's weights, so for GRPO-type

    learning rate = eta L G/(G-1),

and for any other estimator eta L, with its weights in the advantages' place. AdamW takes
eta as it is: its steps do not know the gradient's scale.
"""

import copy
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from huggingface_hub import constants
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from mse_lab.errors import InputError
from mse_lab.estimators import Estimator
from mse_lab.estimators.groups import Groups
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.probe.schema import Probe
from mse_lab.scores.score_block import Scoring, score_block
from mse_lab.studies.training.settings import Run, Training, trained_estimator
from mse_lab.studies.training.task import Task

# The estimator whose weights TRL's own advantages are, up to the factor G/(G-1).
TRL_ESTIMATOR = "grpo"


def learning_rate(training: Training, group_size: int, longest: int) -> float:
    """Turn eta, of Algorithm 1, into TRL's learning rate.

    >>> learning_rate(Training(probe="a", eta=0.5), group_size=4, longest=6)
    4.0
    """
    if training.optimiser == "adamw":
        return training.eta
    divided = training.estimator == TRL_ESTIMATOR
    return training.eta * longest * (group_size / (group_size - 1) if divided else 1.0)


def group_weights(
    estimator: Estimator, rewards_PG: Tensor, lengths_PG: Tensor, norms2_PG: Tensor
) -> Tensor:
    """Give an estimator's weights of a batch, (P G,), in the order of its completions."""
    prompts = len(rewards_PG)
    groups = Groups(
        rewards_PRG=rewards_PG.double().cpu().numpy()[:, None],
        lengths_PRG=lengths_PG.cpu().numpy()[:, None],
        norms2_PRG=norms2_PG.double().cpu().numpy()[:, None],
        value_P=np.full(prompts, np.nan),
        best_constant_PR=np.full((prompts, 1), np.nan),
    )
    return torch.from_numpy(estimator.weights(groups).flatten())


def _completions(tokens: Sequence[list[int]]) -> Completions:
    """Pad the completions of a prompt; the probabilities of their draws are unknown."""
    rows = [np.array(row) for row in tokens]
    return Completions.of_each(
        rows, max(map(len, rows)), [0.0] * len(rows), ends=lambda tokens: False
    )


class WeightedTrainer(GRPOTrainer):
    """TRL's trainer with the weights of any estimator in the place of its advantages."""

    def __init__(self, task: Task, estimator: Estimator, group_size: int, **given: Any):
        super().__init__(**given)
        # TRL's settings take no groups of one; nothing after them needs two.
        self.num_generations = group_size
        self._task, self._estimator, self._size = task, estimator, group_size
        self._together = self.args.per_device_train_batch_size

    def _norms2(self, rows: Sequence[Any], tokens: Sequence[list[int]]) -> Tensor:
        """Measure ||W||^2 of every completion, (P, G), by the tool's own scores."""
        policy, how = self._task.follow(self.model), Scoring(self._together)
        nowhere = {
            name: torch.zeros_like(value) for name, value in policy.parameters.items()
        }
        prompt_N = np.array([row["index"] for row in rows])
        norms2_N = np.empty(len(rows))
        # Prompts that were drawn more than once, in one block: equal completions are one.
        for prompt in np.unique(prompt_N):
            rows_N = np.flatnonzero(prompt_N == prompt).tolist()
            completions = _completions([tokens[row] for row in rows_N])
            scores = score_block(
                policy, self._task.tokens[prompt], completions, nowhere, how=how
            )
            norms2_N[rows_N] = sum(scores.norms2.values())
        return torch.from_numpy(norms2_N.reshape(-1, self._size))

    def _calculate_rewards(self, inputs: Any, *args: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(inputs, *args)
        size, tokens = self._size, args[-1]
        lengths = torch.tensor([len(row) for row in tokens]).reshape(-1, size)
        norms2 = torch.full(lengths.shape, torch.nan)
        if not self._estimator.reward_only:
            norms2 = self._norms2(inputs, tokens)
        rewards_PG = rewards[:, 0].reshape(-1, size)
        self._weights = group_weights(self._estimator, rewards_PG, lengths, norms2)
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        batch = super()._generate_and_score_completions(inputs)
        batch["advantages"] = self._weights.to(batch["advantages"])
        return batch


class AfterStep(TrainerCallback):
    """Calls a function with the model at the start and after each of some steps."""

    def __init__(self, steps: Sequence[int], look: Callable[[int, Any], None]) -> None:
        self._steps, self._look = set(steps), look

    def _at(self, step: int, model: Any) -> None:
        if step in self._steps:
            self._look(step, model)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at the model that nothing has changed yet."""
        self._at(0, given["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at the model after a step."""
        self._at(state.global_step, given["model"])


def _settings(run: Run, probe: Probe, cpu: bool, folder: str) -> GRPOConfig:
    training, longest = run.arm.training, probe.sampling.max_new_tokens
    micro = training.micro_batch or training.budget
    return GRPOConfig(
        output_dir=folder,
        # Algorithm 1's update.
        optim="sgd" if training.optimiser == "sgd" else "adamw_torch",
        learning_rate=learning_rate(training, run.group_size, longest),
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=0.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=0.0,
        num_iterations=1,
        disable_dropout=True,
        # N completions a step, of the prompts in the order in which they were drawn.
        max_steps=training.steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=training.budget // micro,
        num_generations=max(run.group_size, 2),
        shuffle_dataset=False,
        # The policy that is differentiated: the temperature, and nothing else.
        max_completion_length=longest,
        temperature=probe.sampling.temperature,
        top_p=1.0,
        top_k=0,
        repetition_penalty=1.0,
        seed=run.seed,
        # Nothing beside the steps.
        use_cpu=cpu,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )


def _inverse(run: Run, model: Any, rate: float) -> tuple[Any, Any]:
    """SGD whose step i, from 1, has the rate / (i + offset)."""
    trained = [value for value in model.parameters() if value.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=rate)
    offset = run.arm.training.offset
    return optimiser, torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda done: 1 / (done + 1 + offset)
    )


def _rows(run: Run, task: Task) -> Dataset:
    index = task.draw_prompts(run)
    return Dataset.from_dict(
        {"prompt": [task.shown[prompt] for prompt in index], "index": index.tolist()}
    )


def _tokenizer(policy: Policy) -> Any:
    """Copy the tokenizer; what pads, and is masked, is a token that the model knows."""
    tokenizer = copy.deepcopy(policy.tokenizer)
    if tokenizer.pad_token_id not in range(policy.vocabulary):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(policy.end_tokens[0])
    return tokenizer


def _trained_copy(policy: Policy) -> Any:
    """Copy the model; of its parameters those require gradients that count."""
    model = copy.deepcopy(policy.model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in policy.parameters)
    return model


def make_trainer(run: Run, task: Task, folder: str, **hooks: Any) -> GRPOTrainer:
    """Make the trainer of a run; it begins at the task's checkpoint.

    Raises:
        InputError: TRL would show the model other tokens than are measured.
    """
    training, model = run.arm.training, _trained_copy(task.policy)
    settings = _settings(run, task.probe, task.policy.device.type == "cpu", folder)
    if training.schedule == "inverse":
        hooks["optimizers"] = _inverse(run, model, settings.learning_rate)
    given = hooks | {
        "model": model,
        "args": settings,
        "reward_funcs": task.rewards,
        "train_dataset": _rows(run, task),
        "processing_class": _tokenizer(task.policy),
    }
    if training.estimator == TRL_ESTIMATOR:
        trainer = GRPOTrainer(**given)
    else:
        estimator = trained_estimator(training)
        trainer = WeightedTrainer(task, estimator, run.group_size, **given)
    if trainer._tokenize_prompts(task.shown)[0] != task.tokens:
        raise InputError(
            f"{training.probe}: TRL reads other tokens from its prompts than are measured; "
            "use another template, or prompts.chat=false"
        )
    return trainer


def train(
    run: Run, task: Task, steps: Sequence[int], look: Callable[[int, Any], None]
) -> None:
    """Train a run; at `steps`, counted from 0, `look` is called with the model.

    Raises:
        InputError: The steps are so large that the policy has no probabilities any more.
    """
    # No telemetry.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # Warnings of the libraries about each other.
        warnings.simplefilter("ignore", FutureWarning)
        trainer = make_trainer(run, task, folder, callbacks=[AfterStep(steps, look)])
        trainer.remove_callback(PrinterCallback)
        try:
            trainer.train()
        except RuntimeError as error:
            if "probability tensor" not in str(error):
                raise
            raise InputError(
                f"{run.name}: eta = {run.arm.training.eta:g}: the training diverged, and "
                "leaves no probabilities to draw from; lower eta"
            ) from None
