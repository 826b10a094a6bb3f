"""Prompts: encoded as a text, or as a chat through the tokenizer's template."""

import json
from dataclasses import replace

import pytest

from models import change_config, load
from mse_lab.data.prompts import Prompt
from mse_lab.errors import InputError
from mse_lab.policy.prompt_tokens import encode_prompts, render_chats


def prompt(text, **record):
    return Prompt(id="p", text=text, category="", record={"id": "p", **record})


def encode(policy, text, *, chat=False):
    return encode_prompts(policy, [prompt(text)], chat=chat, new_tokens=1)


def test_another_models_tokenizer_is_refused(copy):
    """Its ids would be looked up beyond the embedding; and a panic of it is one line."""
    values = json.loads((copy / "tokenizer.json").read_text())
    values["model"]["vocab"]["9"] = 4
    (copy / "tokenizer.json").write_text(json.dumps(values))
    policy = load(copy)
    assert encode(policy, "1 2") == [[1, 2]]
    with pytest.raises(InputError, match="token 4 is outside the model's vocabulary of 4"):
        encode(policy, "1 9")
    single = [{"SpecialToken": {"id": "q", "type_id": 0}}]
    template = {"single": single, "pair": [], "special_tokens": {}}
    processor = {"type": "TemplateProcessing", **template}
    change_config(copy, "tokenizer.json", post_processor=processor)
    with pytest.raises(InputError, match=r"the tokenizer cannot be loaded: no entry"):
        encode(load(copy), "1")


TEMPLATES = {
    "raises": ("{{ raise_exception('no user turn') }}", "fails on prompt p: no user turn"),
    "divides by zero": ("{{ 1 / 0 }}", "division by zero"),
    "recurses": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion depth"),
    "leaves the sandbox": ("{{ ''.__class__.__mro__ }}", "__class__.*unsafe"),
    "no text": (["x"], "fails on prompt p: "),
    "none": (None, "the tokenizer has no chat template; use false"),
}


def test_a_chat_template_that_fails_is_refused(copy):
    policy = load(copy)
    for template, expected in TEMPLATES.values():
        policy.tokenizer.chat_template = template
        with pytest.raises(InputError, match=expected) as refused:
            encode(policy, "1", chat=True)
        assert str(refused.value).startswith("prompts.chat = true: ")


def test_a_chat_is_what_the_template_makes_of_its_turns(copy):
    policy = load(copy)
    policy.tokenizer.chat_template = (
        "{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %} 3{% endif %}"
    )
    end, texts = policy.tokenizer.eos_token, ("1 2", "3", "2\n1")
    rendered = render_chats(policy.tokenizer, [*map(prompt, texts)])
    assert rendered == [f"{end}{text} 3" for text in texts]
    assert encode(policy, "1 2", chat=True) == [[0, 1, 2, 3]]
    policy.tokenizer.chat_template = "{% for m in messages %}{{ m.role }}{% endfor %}"
    turns = [{"role": "system", "content": "1"}, {"role": "user", "content": "2"}]
    found = render_chats(policy.tokenizer, [replace(prompt("2"), chat=turns), prompt("2")])
    assert found == ["systemuser", "user"]


def test_a_chat_template_is_given_its_arguments(copy):
    policy = load(copy)
    policy.tokenizer.chat_template = "{% if enable_thinking %}1{% else %}2{% endif %}"
    for options, ids in ((None, [2]), ({"enable_thinking": True}, [1])):
        how = {"chat": True, "new_tokens": 1, "options": options}
        assert encode_prompts(policy, [prompt("3")], **how) == [ids]
    said = r"^prompts.chat_template_kwargs = {'tools': 3}: .* fails .*; mend it"
    with pytest.raises(InputError, match=said):
        encode_prompts(policy, [prompt("3")], **how | {"options": {"tools": 3}})
