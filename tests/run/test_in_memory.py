"""A model in memory: measured as the command measures its checkpoint."""

import re
from copy import deepcopy
from dataclasses import replace
from functools import partial
from textwrap import dedent

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers.processors import TemplateProcessing

import mse_lab
import run_mse
from models import ROWS, SETTINGS, load_parts, random_model, write_adapter
from mse_lab.api import measure as public_api
from mse_lab.config.probe_files import parse_probe
from mse_lab.errors import InputError
from mse_lab.run import context, run_probe

# Numbers of NumPy's kinds serve, too.
OWN = {"group_sizes": np.array([2, 4]), "pool": {"reference": np.int64(16), "replicate": 8}}


@pytest.fixture(scope="module")
def parts(checkpoint):
    """The model and the tokenizer of the fixture `project`."""
    return load_parts(checkpoint)


def measure(parts, prompts=ROWS, reward="integer", **changes):
    return mse_lab.measure(
        *parts, prompts, reward, **(SETTINGS | OWN | {"progress": False} | changes)
    )


def test_a_tokenizer_is_needed(parts):
    with pytest.raises(InputError, match="tokenizer: NoneType; give the model's"):
        measure((parts[0], None))


@pytest.fixture(scope="module")
def result(parts):
    return measure(parts, name="small")


def test_a_folder_holds_a_finished_run(parts, project, tmp_path, monkeypatch):
    """Which is found when it is done, and not taken for another model's."""
    out = tmp_path / "step-100"

    def reward(text, prompt):
        return float(text.strip() == "2")

    found = measure(parts, reward=reward, out=str(out))
    written = {path.name for path in (project / "results/small").iterdir()}
    assert {path.name for path in out.iterdir()} == written
    with monkeypatch.context() as patched:
        patched.setattr(run_probe, "measure_prompt", None)
        again = measure(parts, reward=reward, out=out)
    assert again.mse.equals(found.mse)
    assert again.warnings == found.warnings
    assert run_mse.main(["claims", str(out)]) == 0
    other = random_model("qwen2", vocabulary=4, eos_token_id=0)
    other.name_or_path = parts[0].name_or_path
    with pytest.raises(InputError, match="another model, answer of the model"):
        measure([other, parts[1]], reward=reward, out=out)


def test_another_function_is_another_reward(parts, tmp_path):
    """Of the same name; also one that cannot be compared."""
    limit = 1
    rewards = [
        lambda text, prompt: len(text) > 1,
        lambda text, prompt: len(text) > 2,
        lambda text, prompt: len(text) > limit,
    ]
    found = measure(parts, reward=rewards[0], out=tmp_path)
    with pytest.raises(InputError, match=r"\(it began with another reward\)"):
        measure(parts, reward=rewards[1], out=tmp_path)
    again = measure(parts, reward=rewards[0], out=tmp_path)
    assert again.mse.equals(found.mse)
    with pytest.raises(InputError, match=r"give a function of a file.*; remove that"):
        measure(parts, reward=rewards[2], out=tmp_path)


def _freeze(model, tokenizer):
    """All but the last layer's norm are frozen."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("norm" in name)


def _begin_with_a_token(model, tokenizer):
    """The tokenizer puts its first token before each prompt."""
    begun = TemplateProcessing(single="1 $A", special_tokens=[("1", 1)])
    tokenizer.backend_tokenizer.post_processor = begun


def _scale_adapter(model, tokenizer):
    for module in model.modules():
        if isinstance(getattr(module, "scaling", None), dict):
            module.scaling["default"] *= 2


def _adapted(model, checkpoint, folder):
    """A model with two adapters, the first of which is active."""
    import peft

    first, other = (write_adapter(checkpoint, folder / name) for name in "ab")
    model = peft.PeftModel.from_pretrained(model, first, is_trainable=True)
    model.load_adapter(other, "other", is_trainable=True)
    return model


SILENT = {
    "frozen layers": (_freeze, False, "set of parameters that count"),
    "a token before": (_begin_with_a_token, False, "reading of the prompts"),
    "other end tokens": (
        lambda model, _: setattr(model.generation_config, "eos_token_id", [0, 1]),
        *(False, "reading of the prompts"),
    ),
    # No parameter depends on it.
    "another setting of a layer": (
        lambda model, _: setattr(model.model.norm, "variance_epsilon", 0.5),
        *(False, "answer of the model"),
    ),
    # Nor does the answer, as on a weight of a token that no prompt has.
    "a buffer that nothing reads": (
        lambda model, _: model.register_buffer("extra", torch.ones(1)),
        *(False, r"model\)"),
    ),
    "another scaling": (_scale_adapter, True, "answer of the model"),
    "another active adapter": (
        lambda model, _: model.set_adapter("other"),
        *(True, "set of parameters that count"),
    ),
}


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("case", SILENT)
def test_another_policy_does_not_go_on(case, parts, checkpoint, tmp_path):
    """What files and weights alone do not tell; the same one goes on."""
    change, adapted, line = SILENT[case]
    (model, tokenizer), out = deepcopy(parts), tmp_path / "out"
    model = _adapted(model, checkpoint, tmp_path) if adapted else model
    found = measure([model, tokenizer], out=out)
    assert measure([model, tokenizer], out=out).mse.equals(found.mse)
    change(model, tokenizer)
    with pytest.raises(InputError, match=f"it began with another (.*, )?{line}"):
        measure([model, tokenizer], out=out)


def reward_of_parity(text, prompt):
    return len(text) % 2


def test_texts_need_no_answers(parts, result):
    """With a function as the reward; their ids are their places."""
    texts = [row["problem"] for row in ROWS]
    found = measure(parts, texts, reward_of_parity, name="small")
    assert list(found.prompts["prompt"]) == ["prompt-0000", "prompt-0001", "prompt-0002"]
    rows = pd.DataFrame({"id": found.prompts["prompt"], "problem": texts})
    assert measure(parts, rows, reward_of_parity, name="small").mse.equals(found.mse)


def test_a_reward_gets_messages_in_a_chat(tmp_path, monkeypatch):
    """Named, too, as a probe names it."""
    text = "def reward(completions):\n    return [len(completions[0])]\n"
    (tmp_path / "of_turns.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    chat = {"prompts": {"source": "memory", "chat": True}, "model": {"path": "x"}}
    for reward in ("of_turns:reward", lambda completions: [len(completions[0])]):
        rewarded, _ = context._take_reward(reward, parse_probe(chat, "p"))
        assert rewarded("four", {}) == 1  # One message.


def fails(text, prompt):
    return 1 / 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"prompts": one}, f"prompts = {re.escape(repr(one))}: give texts, mappings")
            for one in ("1 2", None, [], [3])
        ),
        ({"prompts": ["1 2"]}, r"prompts\[0\]: answer is missing or empty"),
        ({"prompts": [{"question": "1"}]}, r"prompts\[0\]: problem is missing"),
        ({"prompts": ROWS * 2}, r"prompts\[3\]: id 1 occurs twice"),
        ({"reward": "intger"}, "reward = intger: no such reward; did you mean integer"),
        ({"reward": fails}, "reward = .*:fails: failed on prompt 1: ZeroDivisionError"),
        ({"reward": str.isdigit}, "reward = builtins:str.isdigit: "),
        ({"reward": 3}, "reward = 3: give a name or a function"),
        ({"pool": {"replicat": 8}}, r"measure: unknown key pool.replicat; did you mean"),
        ({"group_sizes": [3]}, "measure: pool.replicate = 8: must be a multiple"),
        ({"template": "plan"}, "prompts.template = plan: neither a template nor a file"),
        ({"estimators": ["grop"]}, "unknown grop; did you mean grpo"),
        ({"estimators": 5}, "measure: estimators = 5: should be a valid list"),
        ({"name": [1]}, r"name = \[1\]: give a text, or None"),
        ({"parameters": ["none"]}, "'none' matches no parameter"),
        ({"seed": None}, "measure: seed = None: should be"),
        ({"chat": True}, "the tokenizer has no chat template"),
    ],
    # Not a function's own name, which is another one in every process.
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_used_is_one_line(parts, changes, message):
    with pytest.raises(InputError, match=message):
        measure(parts, **changes)


def test_a_figure_says_that_a_check_failed(result):
    failed = replace(result, noted=replace(result.noted, ok=False))
    assert "A CHECK FAILED" in failed.plot().axes[0].get_title()


def test_the_lines_that_are_shown(parts, tmp_path, monkeypatch):
    """Those of the module's docstring, on a model that is there, of few completions."""
    monkeypatch.chdir(tmp_path)
    few = partial(mse_lab.measure, pool={"reference": 64, "replicate": 128})
    monkeypatch.setattr(mse_lab, "measure", few)
    lines = re.search(r"(    .+\n)+", public_api.__doc__)[0]
    names = dict(zip(("model", "tokenizer"), parts, strict=True))
    exec(dedent(lines), names | {"prompts": ["1", "2 1", "3"], "reward": reward_of_parity})
    assert (tmp_path / "advice.png").stat().st_size > 5000
