"""Templates: where the problem and the demonstrations stand in the text."""

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.prompt_templates import PLAIN, TEMPLATES, parse_template
from prompt_sets import FIELDS, load

SHOTS = [
    {"problem": "1 and 1?", "answer": "2"},
    {"problem": "{answer}", "answer": "{problem}"},
]


def test_a_template_with_demonstrations():
    """A demonstration that holds a place's name is text, not a place."""
    template = parse_template(
        "Solve.\n\n{shots}\nQ: {problem}\nA: {answer}\n\n{/shots}\nQ: {problem}\nA:", "t"
    )
    assert template.render("5?", SHOTS) == (
        "Solve.\n\nQ: 1 and 1?\nA: 2\n\nQ: {answer}\nA: {problem}\n\nQ: 5?\nA:"
    )
    assert template.render("{answer} {shots}") == "Solve.\n\nQ: {answer} {shots}\nA:"


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_shows_its_problem_once(name):
    template = parse_template(TEMPLATES[name], name)
    text = template.render("the problem {problem}", SHOTS[:1] if template.shot else [])
    assert text.count("the problem {problem}") == 1
    assert ("1 and 1?" in text) == bool(template.shot)
    assert not any(mark in text for mark in ("{shots}", "{/shots}", "{answer}"))


def test_templates_of_the_paper_are_as_they_were():
    assert parse_template(PLAIN, "plain").render("1 + 1 =") == (
        "Solve the arithmetic problem. Return ONLY the final integer.\n1 + 1 ="
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no place", "no {problem}"),
        ("{shots}{problem}{answer}{/shots}", "no {problem}"),
        (
            "{shots}{problem}{/shots}{problem}",
            "a demonstration needs {problem} and {answer}",
        ),
        ("{shots}{problem}", "must occur once each"),
        ("{/shots}{problem}{shots}", "must occur once each"),
        ("{shots}{problem}{answer}{/shots}" * 2 + "{problem}", "must occur once each"),
    ],
    ids=["bare", "only shots", "no answer", "open", "reversed", "twice"],
)
def test_a_broken_template(text, message, tmp_path, lines):
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(source=lines, fields=FIELDS, template=str(path))
    assert message in str(caught.value)
    assert "prompts.template = " in str(caught.value)
