"""Chat templates: rendered as transformers does, and what they do wrong is one line."""

import pytest

from mse_lab.errors import InputError
from mse_lab.policy.chat_template import render_chats
from mse_lab.policy.policy import encode_prompts
from mse_lab.probe.prompts import Prompt
from spoilt_checkpoints import load


def prompt(text):
    return Prompt(id="p", text=text, category="", record={"id": "p"})


TEMPLATES = {
    "raises": ("{{ raise_exception('no user turn') }}", "fails on prompt p: no user turn"),
    "divides by zero": ("{{ 1 / 0 }}", "division by zero"),
    "recurses": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion depth"),
    "towers": ("{{ 9 ** (9 ** (9 ** 9)) }}", "not done after 3 s of the processor"),
    "long": ("{{ 'a' * 5000000 }}", "makes 5000000 characters"),
    "no memory": ("{{ 'a' * 100000000000 }}", "MemoryError"),
    "no text": (["x"], "fails on prompt p: "),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_template_that_fails_is_refused(copy, monkeypatch, capfd, name):
    """Nothing that it does hangs, or reaches this process."""
    if name == "towers":
        monkeypatch.setattr("mse_lab.policy.chat_template.SECONDS", 2.0)
    policy = load(copy)
    policy.tokenizer.chat_template, expected = TEMPLATES[name]
    with pytest.raises(InputError, match=expected) as refused:
        encode_prompts(policy, [prompt("1")], chat=True, new_tokens=1)
    assert str(refused.value).startswith("prompts.chat = true: ")
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_a_chat_is_what_transformers_makes_of_it(copy):
    policy = load(copy)
    policy.tokenizer.chat_template = (
        "{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %} 3{% endif %}"
    )
    texts = ["1 2", "3", "2\n1"]
    expected = [
        policy.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for text in texts
    ]
    assert render_chats(policy.tokenizer, ["a", "b", "c"], texts) == expected
    found = encode_prompts(policy, [prompt("1 2")], chat=True, new_tokens=1)
    assert found == [[0, 1, 2, 3]]
