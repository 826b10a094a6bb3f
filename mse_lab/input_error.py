"""The user's input is at fault: one line that says what, and the remedy."""

# Characters of a line, and of a value in it: enough to recognise what was meant.
LONGEST_LINE, LONGEST_VALUE = 1000, 100


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


def one_line(text: str) -> str:
    r"""Make one line of a text that can be shown anywhere, whatever it holds.

    >>> one_line("first\n  second \x1b[1m")
    'first second \\x1b[1m'
    """
    line = " ".join(part.strip() for part in text.splitlines())
    escaped = (char if char.isprintable() else ascii(char)[1:-1] for char in line)
    return shorten("".join(escaped), LONGEST_LINE)


class InputError(ValueError):
    """The user's input is at fault; the message is one line with the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))
