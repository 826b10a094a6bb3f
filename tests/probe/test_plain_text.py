"""Plain values: what a user's YAML and JSON may hold, and what is refused in one line."""

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.plain_text import parse_json, parse_yaml, read_text

GROWING = "a0: &a0 [x, x]\na1: &a1 [*a0, *a0]\na2: [*a1, *a1]"


YAML = {
    "aliases": (GROWING, "an alias (*); write its value instead"),
    "an alias to itself": ("a: &a [*a]", "an alias (*)"),
    "a deeper list": ("[" * 900 + "]" * 900, "nested too deeply"),
    "a set": ("!!set {a, b}", "not valid YAML"),
    "a binary": ("!!binary aGk=", "not valid YAML"),
    "a date that is asked for": ("!!timestamp 2026-01-01", "not valid YAML"),
    "a Python object": ("!!python/object/apply:os.getcwd []", "could not determine"),
    "a complex key": ("? [1, 2]\n: 3", "unhashable key"),
    "a long number": ("a: " + "9" * 5000, "not valid YAML"),
    "a long number in hexadecimal": ("a: 0x" + "f" * 5000, "4300 digits"),
    "no digit": ("a: 0x_", "not valid YAML"),
    "half a character": ('a: "\\ud800"', "surrogates not allowed"),
    "beyond all characters": ('a: "\\UFFFFFFFF"', "not valid YAML"),
    "a key twice": (
        "a: 1\nb: 2\na: 3",
        'the key a occurs twice in "<unicode string>", line 3',
    ),
    "a key twice inside": ("a: {b: 1, b: 2}", "the key b occurs twice"),
    "an octal number": ("seed: 010", "010 is no plain number"),
    "an octal zero": ("seed: -00", "-00 is no plain number"),
    "minutes": ("seed: 1:30", "1:30 is no plain number"),
    "minutes in decimals": ("a: 1:30.5", "1:30.5 is no plain number"),
    "two documents": ("a: 1\n---\na: 2", "not valid YAML"),
    "no YAML": ("{", "not valid YAML"),
    "a control character": ("a: \x01", "not valid YAML"),
}

JSON = {
    "half a character": (r'{"id": "\ud800"}', "surrogates not allowed"),
    "half a character in a key": (r'{"\uDFFF": 1}', "surrogates not allowed"),
    "a deep list": ('{"a": ' + "[" * 2000 + "]" * 2000 + "}", "recursion"),
    "a long number": ('{"id": ' + "9" * 5000 + "}", "4300 digits"),
    "a key twice": ('{"a": [{"b": 1, "c": 2, "b": 3}]}', "the key b occurs twice"),
    "no object": ("[1]", "not a JSON object"),
    "no JSON": ("{", "not valid JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "not valid JSON"),
}


@pytest.mark.parametrize("case", YAML)
def test_yaml_that_is_refused(case):
    text, message = YAML[case]
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "mine.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.yaml: ")


@pytest.mark.parametrize("case", JSON)
def test_json_that_is_refused(case):
    raw, message = JSON[case]
    with pytest.raises(InputError) as caught:
        parse_json(raw, "line 3")
    assert message in str(caught.value)
    assert str(caught.value).startswith("line 3: ")


def test_yaml_as_json_has_it():
    """Dates are texts, whatever their time zone."""
    dates = "{x: 2026-13-01, y: 2001-12-14t21:59:43+99:99}"
    rest = "d: [null, true, 0x1f, 1_000, .inf, 0, 0.5, '010']"
    found = parse_yaml(f"b: {dates}\n{rest}", "mine.yaml")
    assert found["b"] == {"x": "2026-13-01", "y": "2001-12-14t21:59:43+99:99"}
    assert found["d"] == [None, True, 31, 1000, float("inf"), 0, 0.5, "010"]


def test_json_in_full():
    """A whole pair of surrogates is a character; line breaks may stand in a text."""
    assert parse_json(r'{"a": "😀\n", "b": [1, null]}', "p") == {
        "a": "😀\n",
        "b": [1, None],
    }
    assert parse_json(r'{"a": "\ud83d\ude00"}', "p") == {"a": "😀"}


@pytest.mark.parametrize("content", [b"\xff", None])
def test_files_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "mine.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine.yaml: cannot be read: "):
        read_text(path)


@pytest.mark.parametrize("text", ["x" * 10**6, "a\nb\r\n\u2028c\x1b[0m", "\ud800"])
def test_a_message_is_one_short_line(text):
    message = str(InputError(f"mine.yaml: {text}; mend it"))
    assert len(message) <= 1000
    assert message.startswith("mine.yaml: ")
    assert message.endswith("; mend it")
    assert len(message.splitlines()) == 1
    assert message.isprintable()
