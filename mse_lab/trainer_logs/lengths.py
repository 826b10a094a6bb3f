"""Lengths of completions: by reward, cut at the limit, and equal completions of a group."""

import numpy as np

from mse_lab.arrays import Flags, Floats
from mse_lab.trainer_logs.collect import Columns
from mse_lab.trainer_logs.groups import Groups


def lengths_of(columns: Columns) -> tuple[str, Floats] | None:
    """Lengths in tokens, or in characters, (N,); None where neither is known of all."""
    for unit, lengths in (
        ("tokens", columns.length_N),
        ("characters", columns.characters_N),
    ):
        if (lengths >= 0).all():
            return unit, lengths.astype(float)
    return None


def truncated_of(columns: Columns, max_tokens: int | None = None) -> Flags | None:
    """Whether the limit cut each completion, (N,); None where the log cannot tell.

    Where the log does not say: completions shorter than the longest have ended, so that
    their last tokens are end tokens; one of the longest was cut if its last token is none
    of these. With `max_tokens`, one of that length was cut.
    """
    if (columns.truncated_N >= 0).all():
        return columns.truncated_N == 1
    if not (columns.length_N >= 0).all():
        return None
    if max_tokens is not None and not (columns.last_token_N >= 0).all():
        return columns.length_N >= max_tokens
    longest = columns.length_N == (max_tokens or columns.length_N.max())
    if longest.all() or not (columns.last_token_N >= 0).all():
        return None
    return longest & ~np.isin(columns.last_token_N, columns.last_token_N[~longest])


def duplicates_of(groups: Groups) -> Flags | None:
    """Whether a completion equals an earlier one of its group, (N,); None if unknown."""
    content = groups.columns.content_N
    if (content == 0).any():
        return None
    order = np.lexsort((content, groups.group_N))
    group, sorted_content = groups.group_N[order], content[order]
    again = np.r_[False, (np.diff(group) == 0) & (np.diff(sorted_content) == 0)]
    out = np.zeros(len(content), dtype=bool)
    out[order] = again
    return out
