"""Words: shares, times and sizes as they are written for a reader."""

from collections.abc import Sequence

BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))

MINUTE, HOUR, DAY = 60, 3600, 86400


def share(value: float, digits: int = 2) -> str:
    """Write a share of known digits in percent.

    >>> share(0.1234), share(0.0312), share(0.0312, 3), share(1.0)
    ('12%', '3.1%', '3.12%', '100%')
    """
    found = 100 * value
    whole = abs(found) >= 10**digits - 0.5
    return f"{found:.0f}%" if whole else f"{found:.{digits}g}%"


def duration(seconds: float) -> str:
    """Write a time with two digits or two units.

    >>> [duration(seconds) for seconds in (0.04, 7.24, 42, 200, 12000, 190000)]
    ['0.04 s', '7.2 s', '42 s', '3 min 20 s', '3 h 20 min', '2 d 5 h']
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    for unit, name, part, small in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            count, rest = divmod(round(whole / part) * part, unit)
            return f"{count} {name} {rest // part} {small}"
    return f"{whole} s"


def in_units(value: float, units: Sequence[tuple[float, str]] = BYTES) -> str:
    """Write a number, bytes if nothing else is said, with a unit to two or three digits.

    >>> in_units(71.4e9), in_units(512)
    ('71 GB', '0.51 kB')
    """
    size, name = next(((size, name) for size, name in units if value >= size), units[-1])
    scaled = value / size
    return f"{scaled:.0f} {name}" if scaled >= 10 else f"{scaled:.2g} {name}"
