"""Guess what the columns of a shop's table are: their types, and what each is for."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from zoosim.core.parameters import shown
from zoosim.core.types import REWARD
from zoosim.schema.values import UNREADABLE, WORDS, number_of, numbers_of, present, text_of, time_of, truth_of, which

MOSTLY = 0.95
"""Share of the values of a column that must be numbers, or times, for the others to count as unreadable."""

SEPARATORS = ("|", ";", ",")
SPLIT = 0.2
"""Share of the texts of a column that must hold a separator for it to be a list of words."""

SAMPLE = 10_000
"""Distinct values of a column that are looked at to guess its type."""

ROLES: Mapping[str, Sequence[str]] = {
    "action": ("action", "item", "item_id", "product", "product_id", "sku", "article", "article_id", "shown"),
    "propensity": ("propensity", "propensity_score", "pscore", "p", "prob", "probability", "action_prob"),
    "time": ("time", "timestamp", "ts", "at", "date", "datetime", "shown_at", "created_at", "event_time"),
    "user_id": ("user_id", "user", "customer_id", "customer", "visitor_id", "visitor", "client_id", "member_id"),
    "decision_id": ("decision_id", "impression_id", "request_id", "event_id", "visit_id", "ranking_id"),
    "position": ("position", "rank", "slot", "place"),
    "candidates": ("candidates", "eligible", "choices"),
    "unavailable": ("unavailable",),
}
"""Names that columns often have, by what they are for, the likeliest first."""

REWARDS: Mapping[str, Sequence[str]] = {
    "click": ("click", "clicks", "clicked", "is_click", "click_indicator"),
    "purchase": ("purchase", "purchases", "purchased", "bought", "order", "orders", "conversion", "converted"),
    "revenue": ("revenue", "gmv", "sales", "amount", "turnover", "value"),
    "margin": ("margin", "profit", "cm2"),
    REWARD: ("reward", "label", "outcome"),
}
"""Names that columns of rewards often have, the reward that policies learn from by default first."""


class Inferred(NamedTuple):
    """The guess for a column: its `type`, or none where it is no use, and the `reason`."""

    type: str
    reason: str


def infer_type(column: pl.Series) -> Inferred:
    """Guess the type of a column from its values.

    Args:
        column: The column, of words as CSV has them, or of any type.

    Returns:
        The name of the type, as in `COLUMN_TYPES`; empty where all values are missing or all the same, or nearly every
        one that is not missing is another text, as in ids and in free text.
    """
    if isinstance(column.dtype, UNREADABLE):
        return Inferred("", f"holds values of type {column.dtype}")
    if isinstance(column.dtype, pl.List | pl.Array):
        lists = column.drop_nulls()[:SAMPLE].to_list()
        n_of_one_length = max(Counter(map(len, lists)).values(), default=0)
        numeric = 2 * n_of_one_length > len(lists) and all(
            number_of(part) is not None for values in lists for part in values
        )
        return Inferred("vector", "lists of numbers") if numeric else Inferred("words", "lists of words")
    if column.dtype == pl.Boolean:
        return Inferred("yes/no", "true and false")
    if isinstance(column.dtype, pl.Date | pl.Datetime):
        return Inferred("time", "times")
    distinct = column.unique(maintain_order=True)
    held = distinct.filter(present(distinct))
    sample = held[:SAMPLE].to_list()
    if not sample:
        return Inferred("", "holds nothing")
    # A single value beside missing ones says something: whether it is there.
    if len({text_of(value) for value in sample}) == 1 and held.len() == distinct.len():
        return Inferred("", f"holds nothing but {text_of(sample[0])}")
    # From the narrowest type on: 0 and 1 are numbers as well, and numbers are texts.
    if len(sample) <= 6 and all(truth_of(value) is not None for value in sample):
        return Inferred("yes/no", " and ".join(sorted(str(text_of(value)) for value in sample)))
    others = stray_words(column)
    if np.isfinite(numbers_of(pl.Series(sample, strict=False))).mean() >= MOSTLY or _are_few(others, column):
        missing = f"; {others.text}, and count as missing" if others.total else ""
        return Inferred("number", f"{held.len() - others.different:,} different numbers{missing}")
    if np.mean([time_of(value, ZoneInfo("UTC")) is not None for value in sample]) >= MOSTLY:
        return Inferred("time", "times")
    inferred = _infer_words(sample, held.len(), int(present(column).sum()))
    return inferred._replace(reason=f"{inferred.reason}, though {others.text}") if others.total else inferred


class StrayWords(NamedTuple):
    """Values of a column of numbers that are none: their number, that of different ones, `text` on where they are."""

    total: int = 0
    different: int = 0
    text: str = ""


def stray_words(column: pl.Series) -> StrayWords:
    """Return what is no number among values that mostly are; nothing where most are none."""
    if column.dtype not in WORDS:
        return StrayWords()
    held = present(column)
    strays = held & np.isnan(numbers_of(column))
    count = int(strays.sum())
    n_held = int(held.sum())
    if not count or 2 * count >= n_held:
        return StrayWords()
    row = int(strays.argmax())
    text = f"{count:,} of {n_held:,} values are no numbers (row {row}: {shown(column[row])})"
    return StrayWords(count, column.filter(strays).n_unique(), text)


def _are_few(others: StrayWords, column: pl.Series) -> bool:
    return 0 < others.total <= (1.0 - MOSTLY) * int(present(column).sum())


def _infer_words(sample: Sequence[object], levels: int, n: int) -> Inferred:
    """Guess what a column of `n` texts is that are not missing, among them `levels` different ones."""
    texts = [str(text_of(value)) for value in sample]
    for separator in SEPARATORS:
        parts = [text.split(separator) for text in texts]
        words = {word.strip() for split in parts for word in split}
        is_list = np.mean([len(split) > 1 for split in parts]) >= SPLIT
        if is_list and 2 * len(words) < sum(map(len, parts)):
            return Inferred("words", f"words separated by {separator}")
    if levels > 1_000 and 2 * levels > n:
        return Inferred("", f"{levels:,} different texts in {n:,} rows, as in ids and free text")
    return Inferred("category", f"{levels:,} different text{'s' if levels > 1 else ''}")


def infer_roles(names: Sequence[str], table: pl.DataFrame | None = None) -> dict[str, str]:
    """Guess which column has which role.

    Args:
        names: Names of the columns.
        table: The table; its values must fit the role, too. None to go by the names alone.

    Returns:
        Names of columns by role, of the roles that one was found for.
    """
    return _first_match(names, ROLES, table)


def infer_rewards(names: Sequence[str], table: pl.DataFrame | None = None) -> dict[str, str]:
    """Guess which columns are rewards.

    Args:
        names: Names of the columns.
        table: The table; its values must fit a reward, too. None to go by the names alone.

    Returns:
        Names of columns by the name of the reward, of those that one was found for.
    """
    return _first_match(names, REWARDS, table)


def _can_be(what: str, column: pl.Series) -> bool:
    """Return whether most values of a column are as its name says, as far as that takes numbers of a kind."""
    if what not in ("propensity", "position", *REWARDS):
        return True
    some = column.gather_every(max(1, column.len() // SAMPLE))
    held = some.filter(present(some))
    numbers = numbers_of(held)
    if what == "propensity":
        fits = (numbers > 0.0) & (numbers <= 1.0)
    elif what == "position":
        fits = numbers == np.floor(numbers)
    else:
        fits = np.isfinite(numbers)
        if not fits.any():
            fits = which(held, lambda value: truth_of(value) is not None)
    return bool(held.len()) and float(fits.mean()) >= MOSTLY


def likely_meaning(name: str) -> str | None:
    """Return the role or the reward that a column's name stands for, None where it stands for neither."""
    return next((what for what, words in {**ROLES, **REWARDS}.items() if _word(name) in words), None)


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _first_match(
    names: Sequence[str], wanted: Mapping[str, Sequence[str]], table: pl.DataFrame | None
) -> dict[str, str]:
    by_word: dict[str, str] = {}
    for name in names:
        by_word.setdefault(_word(name), name)
    matches: dict[str, str] = {}
    for role, words in wanted.items():
        likely = [by_word[word] for word in words if word in by_word]
        column = next((name for name in likely if table is None or _can_be(role, table[name])), None)
        if column is not None and column not in matches.values():
            matches[role] = column
    return matches
