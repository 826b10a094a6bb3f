"""A subject that differs in something, whether its policy is attached or not."""

from copy import copy


def changed(subject, **changes):
    """Copy a subject, without what it has worked out, and change it."""
    other = copy(subject)
    for name in ("kinds", "_digest"):
        vars(other).pop(name, None)
    vars(other).update(changes)
    return other
