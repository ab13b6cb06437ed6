"""Rows that a finding rests on, in a few words."""

import numpy as np

from zoosim.core.types import IntArray

SHOWN = 3
"""Runs of rows that are named; of more, their number and the last row."""


def rows_in_words(numbers: IntArray, how: str = "") -> str:
    """Return rows of a file as " (rows 3-8, 12 and 40)", or with the first few and how many there are in all.

    Args:
        numbers: The numbers of the rows in the file, from 0, in any order.
        how: Words to put before, such as "most of all".
    """
    if not len(numbers):
        return ""
    numbers = np.unique(numbers)
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    starts = numbers[np.append(0, breaks + 1)]
    ends = numbers[np.append(breaks, len(numbers) - 1)]
    runs = [f"{start}" if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True)][:SHOWN]
    rows = "row" if len(numbers) == 1 else "rows"
    before = f"{how}, " if how else ""
    if len(starts) <= SHOWN:
        return f" ({before}{rows} {', '.join(runs)})"
    return f" ({before}{rows} {', '.join(runs)} and on to {numbers[-1]}, {len(numbers):,} in all)"
