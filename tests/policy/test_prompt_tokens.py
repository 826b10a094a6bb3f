"""Chat templates: rendered as transformers does, and what they do wrong is one line."""

import pytest

from mse_lab.errors import InputError
from mse_lab.policy.prompt_tokens import encode_prompts, render_chats
from mse_lab.probe.prompts import Prompt
from spoilt_checkpoints import load


def prompt(text):
    return Prompt(id="p", text=text, category="", record={"id": "p"})


TEMPLATES = {
    "raises": ("{{ raise_exception('no user turn') }}", "fails on prompt p: no user turn"),
    "divides by zero": ("{{ 1 / 0 }}", "division by zero"),
    "recurses": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion depth"),
    "leaves the sandbox": ("{{ ''.__class__.__mro__ }}", "__class__.*unsafe"),
    "no text": (["x"], "fails on prompt p: "),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_template_that_fails_is_refused(copy, name):
    policy = load(copy)
    policy.tokenizer.chat_template, expected = TEMPLATES[name]
    with pytest.raises(InputError, match=expected) as refused:
        encode_prompts(policy, [prompt("1")], chat=True, new_tokens=1)
    assert str(refused.value).startswith("prompts.chat = true: ")
    assert "\n" not in str(refused.value)


def test_a_chat_is_what_the_template_makes_of_it(copy):
    policy = load(copy)
    policy.tokenizer.chat_template = (
        "{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %} 3{% endif %}"
    )
    end = policy.tokenizer.eos_token
    prompts = [prompt("1 2"), prompt("3"), prompt("2\n1")]
    assert render_chats(policy.tokenizer, prompts) == [
        f"{end}1 2 3",
        f"{end}3 3",
        f"{end}2\n1 3",
    ]
    encoded = encode_prompts(policy, prompts[:1], chat=True, new_tokens=1)
    assert encoded == [[0, 1, 2, 3]]


def test_a_chat_keeps_its_turns(copy):
    policy = load(copy)
    policy.tokenizer.chat_template = "{% for m in messages %}{{ m.role }}{% endfor %}"
    chat = [{"role": "system", "content": "1"}, {"role": "user", "content": "2"}]
    of_chat = Prompt(id="p", text="2", category="", record={"problem": chat})
    assert render_chats(policy.tokenizer, [of_chat, prompt("2")]) == ["systemuser", "user"]
