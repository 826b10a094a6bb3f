"""Lengths of completions: by reward, cut at the limit, and equal completions of a group."""

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats
from mse_lab.trainer_logs.collect import Columns
from mse_lab.trainer_logs.groups import Groups


def lengths_of(columns: Columns) -> tuple[str, Floats] | None:
    """Return the unit, tokens or else characters, and lengths (N,).

    None where the log gives neither for all completions.
    """
    units = {"tokens": columns.length_N, "characters": columns.characters_N}
    for unit, lengths_N in units.items():
        if (lengths_N >= 0).all():
            return unit, lengths_N.astype(float)
    return None


def truncated_of(columns: Columns, max_tokens: int | None = None) -> Flags | None:
    """Decide whether the limit cut each completion, (N,); None where that is unknown.

    If the log does not say so: completions shorter than the longest have ended, and so
    their last tokens are end tokens; one of the longest was cut if its last token is not
    among these. If `max_tokens` is given, it takes the place of the longest length, and
    suffices where last tokens are unknown.
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
    """Find the completions that equal an earlier one of their group, (N,).

    None where the log gives neither text nor tokens of some completion.
    """
    content = groups.columns.content_N
    if (content == 0).any():
        return None
    pairs = pd.DataFrame({"group": groups.group_N, "content": content})
    return pairs.duplicated().to_numpy()
