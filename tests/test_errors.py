"""Messages: one line that any screen can show, short, with what was meant."""

import pytest

from mse_lab.errors import (
    LONGEST_LINE,
    LONGEST_QUOTE,
    LONGEST_VALUE,
    InputError,
    in_short,
    nearest,
    one_line,
    shorten,
    shown,
)


@pytest.mark.parametrize("length", [0, 99, 100, 101, 10**6])
def test_long_texts_keep_their_ends(length):
    text = "".join(chr(ord("a") + place % 26) for place in range(length))
    short = shorten(text)
    assert len(short) <= LONGEST_VALUE
    assert (short == text) == (length <= LONGEST_VALUE)
    assert short[:40] == text[:40]
    assert short[-40:] == text[-40:]


@pytest.mark.parametrize(
    "text", ["a\r\nb", "\x1b[2Jx", "\udcff", "\u2028\u202e", "\0", "x\n" * 9999]
)
def test_a_message_is_one_line_that_can_be_shown(text):
    message = str(InputError(text))
    assert message == one_line(text)
    assert message.isprintable()
    assert len(message) <= LONGEST_LINE
    assert shown(text).isprintable()


def test_an_error_of_few_words_is_told_with_its_kind():
    assert in_short(ValueError()) == "ValueError"
    assert in_short(IndexError("7")) == "IndexError 7"
    assert in_short(ValueError("two\n  lines")) == "two lines"
    assert len(in_short(ValueError("x y " * 999))) <= LONGEST_QUOTE


def test_a_word_like_no_other_is_answered_with_all_that_are_known():
    assert nearest("zzz", ["mean", "median"]) == "known: mean, median"
    assert nearest("meen", ["median", "mean"]) == "did you mean mean?"
