"""Rollouts that cannot be measured: a line each, counted, and the training goes on."""

import pytest
import torch
import transformers

from mse_lab.errors import InputError
from mse_lab.run import live_rollouts, rollout_groups
from mse_lab.trl import MSECallback
from trl_training import BASE, ROWS, right, settings, state

pytest.importorskip("trl", reason="needs the extra train")

SIZE, BUDGET = 4, 12
OPEN = [9, 9, 9, 9]  # No end token; four are the most.


def drawn():
    """Draw for three prompts, four of each, as a trainer does."""
    model = transformers.AutoModelForCausalLM.from_pretrained(BASE)
    tokenizer = transformers.AutoTokenizer.from_pretrained(BASE)
    prompts = [row["prompt"] for row in ROWS[:3] for _ in range(SIZE)]
    ids = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    with torch.random.fork_rng():
        made = model.generate(**ids, do_sample=True, top_k=0, max_new_tokens=len(OPEN))
    for tokens in made[:, ids.input_ids.shape[1] :].tolist():
        ends = [at for at, token in enumerate(tokens) if token in (0, 2)]
        yield tokens[: ends[0] + 1] if ends else tokens


@pytest.fixture
def given(monkeypatch):
    """What a callback is given; three groups are a first look."""
    for module in (live_rollouts, rollout_groups):
        monkeypatch.setattr(module, "FIRST_PROMPTS", BUDGET // SIZE)
    return {
        "model": transformers.AutoModelForCausalLM.from_pretrained(BASE).train(),
        "processing_class": transformers.AutoTokenizer.from_pretrained(BASE),
    }


IDS = list(drawn())


def rollouts(**changes):
    """Three groups, one of each four right."""
    found = {
        "prompts": [row["prompt"] for row in ROWS[:3] for _ in range(SIZE)],
        "completions": ["1", "2", "3", "4"] * 3,
        "completion_ids": IDS,
        "answer": ["1"] * 12,
    }
    return found | changes


def step(callback, watched, given, args, seen, *, at=0, between=lambda model: None):
    """Play a step of the trainer."""
    of_trainer = {"args": args, "control": None, "state": state(at), **given}
    callback.on_step_begin(**of_trainer)
    for one in seen:
        watched(**one)
    between(given["model"])
    callback.on_pre_optimizer_step(**of_trainer)


def measure(given, *, args=None, seen=None, reward=right, **more):
    callback = MSECallback(every=1, budget=BUDGET, share=1)
    watched = callback.watch(reward)
    step(callback, watched, given, args or settings(), seen or [rollouts()], **more)
    return callback


def test_what_the_others_differ_from_is_measured(given, capsys):
    callback = measure(given)
    assert (callback.measured, callback.skipped) == (1, 0), capsys.readouterr().out


def moved(model):
    """As an optimiser does."""
    with torch.no_grad():
        next(model.parameters()).add_(1e-3)


def none(completions, **columns):
    return [None, *right(completions, columns["answer"])[1:]]


def nan(completions, **columns):
    return [1.0, float("nan"), *right(completions, columns["answer"])[2:]]


PROMPTS = rollouts()["prompts"]
TURNS = [[{"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}]] * 12
BAD = {
    "shuffled": ({"prompts": PROMPTS[1:] + PROMPTS[:1]}, "0 to 3 are not of one prompt"),
    "after the end": ({"completion_ids": [[9, 2, 9], *IDS[1:]]}, "end token 2 is number 2"),
    "no end": ({"completion_ids": [[9, 9], *IDS[1:]]}, "2 tokens without an end token"),
    "too long": ({"completion_ids": [OPEN + OPEN, *IDS[1:]]}, "8 tokens, and sampling."),
    "turns": ({"completions": TURNS}, "rollouts of several turns"),
    "environments": ({"environments": [None] * 12}, "rollouts of several turns"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_bad_rollouts_are_a_line_and_counted(given, changes, words, capsys):
    def blind(**columns):
        return [1.0, 0.0, 1.0, 0.0] * 3

    callback = measure(given, seen=[rollouts(**changes)], reward=blind)
    assert (callback.measured, callback.skipped) == (0, 1)
    assert callback._rollouts.measurement is None
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("mse_lab: step 0 is not measured: ")
    assert words in said


SETTINGS = {
    "few": ({"num_generations": 2}, "num_generations = 2: the constants take 4"),
    "generation": ({"generation_kwargs": {"top_p": 0.5}}, "top_p = 0.5"),
    "budget": ({"num_generations": 8}, "budget = 12: the first look takes 24 rollouts"),
    "top-p": ({"top_p": 0.9}, "top_p = 0.9"),
}


@pytest.mark.parametrize(("changes", "words"), SETTINGS.values(), ids=SETTINGS)
def test_settings_that_cannot_be_measured(given, changes, words, capsys):
    callback = measure(given, args=settings(**changes))
    assert (callback.measured, callback.skipped) == (0, 1)
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("reward", [none, nan])
def test_a_reward_that_is_no_number(given, reward, capsys):
    assert measure(given, reward=reward).skipped == 1
    assert ": no number" in capsys.readouterr().out


def test_weights_that_changed_since_the_rollouts_were_drawn(given, capsys):
    """As under DeepSpeed, whose backward pass ends in the optimiser's step."""
    assert measure(given, between=moved).skipped == 1
    assert "the weights have changed since" in capsys.readouterr().out


def test_rollouts_of_another_policy(given, capsys):
    assert measure(given, seen=[rollouts(completion_ids=[OPEN] * 12)]).skipped == 1
    said = capsys.readouterr().out
    assert "a built-in check failed (completions are the policy's)" in said


def test_dropout(given, capsys):
    given["model"].config.attention_dropout = 0.1
    assert measure(given).skipped == 1
    assert "draws with dropout" in capsys.readouterr().out
    assert measure(given, args=settings(use_vllm=True)).measured == 1
    assert "by vLLM, whose probabilities may differ." in capsys.readouterr().out


def test_a_part_of_a_group_is_left_out(given, capsys):
    """As where a process has 6 rollouts of groups of 4; of 3 none is left."""
    six = {name: column[:6] for name, column in rollouts().items()}
    callback = measure(given, seen=[six])
    assert (callback.measured, callback.skipped) == (0, 0)
    assert callback._rollouts.measurement
    three = {name: column[:3] for name, column in rollouts().items()}
    assert measure(given, seen=[three]).skipped == 1
    assert "fewer than 4 rollouts of a prompt" in capsys.readouterr().out


def test_rollouts_of_an_evaluation_are_not_the_steps(given):
    """Their order in a training: an evaluation, a step that draws, one that does not."""
    callback = MSECallback(every=1, budget=BUDGET, share=1)
    watched = callback.watch(right)
    watched(**rollouts())
    step(callback, watched, given, settings(), [])
    watched(**rollouts())
    step(callback, watched, given, settings(), [], at=1)
    assert (callback.measured, callback.skipped) == (0, 0)
    step(callback, watched, given, settings(), [rollouts()], at=2)
    assert callback.measured == 1


def test_gradients_and_modes_stay_as_they_are(given):
    model = given["model"]
    for one in model.parameters():
        one.grad = torch.full_like(one, 0.25)
    kept = [one.grad for one in model.parameters()]
    assert measure(given).measured == 1
    assert all(one.grad is grad for one, grad in zip(model.parameters(), kept, strict=True))
    assert all((grad == 0.25).all() for grad in kept)
    assert model.training


def test_rollouts_of_groups_that_another_process_shares_are_counted(given, capsys):
    """Of groups of 8 this process has 4 rollouts each, 12 in all."""
    callback = MSECallback(every=1, budget=24, share=1)
    watched = callback.watch(right)
    for at, first in enumerate(range(0, 12, SIZE)):
        seen = {name: column[first : first + SIZE] for name, column in rollouts().items()}
        step(callback, watched, given, settings(num_generations=8), [seen], at=at)
    assert callback.measured == 1
    assert "Of 12 rollouts, 4 a prompt, at the" in capsys.readouterr().out


class Trainer:
    """One of two reward functions, as far as a reward function can see it."""

    reward_funcs = (right, right)

    def log_extra(self, column, values):
        """Log."""


def test_one_of_several_reward_functions(given, capsys):
    seen = rollouts() | {"log_extra": Trainer().log_extra}
    assert measure(given, seen=[seen]).skipped == 1
    assert "2 reward functions, of which one is watched" in capsys.readouterr().out


async def later(completions, **columns):
    return []


def test_what_cannot_be_watched():
    with pytest.raises(InputError, match="a function that is not async"):
        MSECallback().watch(later)
    with pytest.raises(InputError, match="give a function"):
        MSECallback().watch("a/reward-model")
    with pytest.raises(InputError, match="leave them out"):
        MSECallback(ROWS, right).watch(right)
    callback = MSECallback()
    callback.watch(right)
    with pytest.raises(InputError, match="one with their sum"):
        callback.watch(right)


def test_a_callback_with_nothing_to_measure_by_says_so(given, capsys):
    MSECallback().on_step_begin(settings(), state(), None, **given)
    assert "reward_funcs=callback.watch(reward)" in capsys.readouterr().out
