"""Errors of the user's input: one line that says what is wrong, and the remedy."""

import difflib
from collections.abc import Sequence
from numbers import Integral, Real

# The most characters of a line, of another library's message in it, and of a value: enough
# to recognise what is meant.
LONGEST_LINE, LONGEST_QUOTE, LONGEST_VALUE = 1000, 240, 100


def shorten(text: str, longest: int = LONGEST_VALUE) -> str:
    """Leave out the middle of a long text.

    >>> shorten("one two three four", 13)
    'one ... four'
    """
    half = (longest - 5) // 2
    if len(text) <= longest:
        return text
    return f"{text[:half].rstrip()} ... {text[-half:].lstrip()}"


def shown(value: object) -> str:
    r"""Show a value in a message.

    >>> shown("a\n")
    "'a\\n'"
    """
    return shorten(repr(value))


def is_share(value: object) -> bool:
    """Whether an argument in Python is a number above 0, at most 1.

    >>> is_share(0.05), is_share(True), is_share("0.05"), is_share(float("nan"))
    (True, False, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) <= 1


LARGEST_SIZE = 4096  # Of groups; a larger one is a typing mistake.


def is_count(value: object) -> bool:
    """Whether an argument in Python is a whole number from 1.

    >>> is_count(1), is_count(0), is_count(True), is_count(1.5), is_count("1")
    (True, False, False, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def one_line(text: str) -> str:
    r"""Make one printable line of any text.

    >>> one_line("first\n  second \x1b[1m")
    'first second \\x1b[1m'
    """
    line = " ".join(part.strip() for part in text.splitlines())
    if not line.isprintable():
        line = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)
    return shorten(line, LONGEST_LINE)


def in_short(error: BaseException) -> str:
    """Give an error's message without line breaks, shortened if it is long.

    >>> in_short(KeyError("rope"))
    "KeyError 'rope'"
    """
    words = str(error).split()
    # A single word says little without the type of the error.
    whole = words if len(words) > 1 else [type(error).__name__, *words]
    return shorten(" ".join(whole), LONGEST_QUOTE)


class InputError(ValueError):
    """The user's input is wrong; the message is one line, with the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class NoAnswer(InputError):
    """What was measured does not tell anything, such as rewards that are all equal."""


class ProcessLost(RuntimeError):
    """Another process of the run, or torchrun, is gone."""


def install(extra: str | None) -> str:
    """Say how this package is installed with an extra, or alone; it is on no index.

    >>> install("measure")
    "pip install '.[measure]' in the clone"
    """
    return f"pip install '.{f'[{extra}]' if extra else ''}' in the clone"


def listed(names: Sequence[str], longest: int = LONGEST_QUOTE) -> str:
    """Join as many names as fit, and count the others.

    >>> listed(["vanilla", "grpo", "oracle"], 14), listed([])
    ('vanilla, grpo and 1 more', 'none')
    """
    shown = list(names)
    while len(text := ", ".join(shown)) > longest:
        shown.pop()
    more = len(names) - len(shown)
    return f"{text} and {more} more" if more else text or "none"


def nearest(name: str, known: Sequence[str]) -> str:
    """Name the known word nearest to a misspelt one, for an error message.

    >>> nearest("grop", ["vanilla", "grpo"])
    'did you mean grpo?'
    """
    close = difflib.get_close_matches(shorten(name), known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {listed(known)}"
