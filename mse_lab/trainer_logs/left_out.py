"""What was left out of a log, or read in a way that a reader should know."""

from collections.abc import Iterator

from mse_lab.errors import one_line, shorten
from mse_lab.trainer_logs.find_logs import Source
from mse_lab.trainer_logs.groups import Groups


def left_out(source: Source, groups: Groups) -> Iterator[str]:
    """Say it, a sentence each."""
    listed = (
        (source.evaluations, "evaluation(s): left out"),
        (source.damaged, "line(s) are no whole JSON: left out"),
        (source.unreadable, "file(s) cannot be read: left out"),
    )
    for places, what in listed:
        if places:
            yield f"{len(places)} {what} ({shorten(str(places[0]))})."
    counted = (
        (
            source.copies,
            "{} file(s) or table(s) repeat the batch of the one before (num_iterations or "
            "steps_per_generation): counted once.",
        ),
        (len(source.unknown), "{} file(s) of no known form: left out."),
        (groups.unscored, "{:,} completions have no reward: left out."),
        (
            groups.drawn_twice,
            "{:,} times a prompt came more than once in a step: cut into groups by order.",
        ),
    )
    yield from (text.format(count) for count, text in counted if count)
    if groups.no_rewards:
        names = shorten(one_line(", ".join(groups.no_rewards)), 200)
        yield f"{names}: not among the rewards, left out."
