"""Decisions of visitors who come back, as models of them need them: what was clicked last, how visits end, who returns.

A visitor's state is made of what any shop sees: a segment by features that stay, the kind of product clicked last in
this visit, and the clicks of the visit; how satisfied a visitor is, is left to `zoosim.fitting.look_ahead`.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import codes_of
from zoosim.core.durations import DAY
from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.groups import group_rows

MOST_KINDS = 25
"""The most kinds of products that are told apart."""

MOST_SEGMENTS, MOST_CLUSTERS = 8, 4
"""The most segments of visitors by patterns of their features, and by clusters where there are more patterns."""

MINUTE = 60 * 1_000_000
"""In microseconds."""


class Kinds(NamedTuple):
    """Kinds of products, which policies choose from: `names (K,)`, `features (K, f)`, and `of_product` of each."""

    names: tuple[str, ...]
    features: FloatArray
    of_product: IntArray


class Visits(NamedTuple):
    """Decisions in the order of visitors' lives, each array `(n,)`.

    `visitor` numbers visitors from 0, `segment` says which they are of. `kind` was shown, `clicked` or not, after a
    click on the kind `last` in this visit, the number of kinds if none; `clicks` are those of the visit up to here.
    `ends` is true at a visit's last decision, where that is known, and `returns` where the visitor then came back;
    `is_open` where nobody knows whether the visitor does, `is_cut` where not even whether the visit goes on.
    """

    visitor: IntArray
    segment: IntArray
    kind: IntArray
    clicked: BoolArray
    last: IntArray
    clicks: IntArray
    ends: BoolArray
    returns: BoolArray
    is_open: BoolArray
    is_cut: BoolArray


class _Order(NamedTuple):
    """Rows of a log in the order of lives: `rows`, `visitor` and `visit` of each, and what `Visits` says is unknown."""

    rows: IntArray
    visitor: IntArray
    visit: IntArray
    is_open: BoolArray
    is_cut: BoolArray


def read_kinds(log: Log) -> Kinds:
    """Return the kinds of a log's products: by category and yes/no columns, else by category, else by all features.

    Raises:
        DataError: there are too many.
    """
    is_binary = np.asarray(np.isin(log.products, (0.0, 1.0)).all(axis=0), bool)
    has_categories = 0 < len(set(log.categories)) <= MOST_KINDS
    codes = codes_of(np.array(log.categories if has_categories else ["" for _ in range(log.n_actions)]))[:, np.newaxis]
    shown = np.unique(log.actions)
    for features in (log.products[:, is_binary], log.products[:, :0]) if has_categories else (log.products,):
        rows = np.hstack([codes, features])
        if not has_categories and not features.shape[1]:
            rows = np.arange(log.n_actions)[:, np.newaxis]
        patterns = np.unique(rows[shown], axis=0)
        if len(patterns) <= MOST_KINDS:
            return _named_kinds(log, rows, patterns)
    raise DataError(
        f"{log.source}: shows {len(patterns)} kinds of products, expected at most {MOST_KINDS} to say whether planning "
        "pays; name the column of their category in the schema (products: {category: ...})"
    )


def _named_kinds(log: Log, rows: FloatArray, patterns: FloatArray) -> Kinds:
    # The nearest pattern, which for those that are shown is their own.
    of_product = np.array([int(np.abs(patterns - row).sum(axis=1).argmin()) for row in rows])
    features = np.array([log.products[of_product == kind].mean(axis=0) for kind in range(len(patterns))])
    varied = features.std(axis=0) > 0.0
    columns = () if log.fitted is None else log.fitted.products.features
    names = []
    for kind in range(len(patterns)):
        product = int(np.flatnonzero(of_product == kind)[0])
        words = [log.categories[product]] if log.categories else []
        same = np.array([not log.categories or log.categories[p] == words[0] for p in range(log.n_actions)])
        differs = log.products[same].std(axis=0) > 0.0
        if differs.any() and len(columns) == len(differs):
            words += [
                name
                for name, tells, value in zip(columns, differs, features[kind], strict=True)
                if tells and value == 1.0
            ]
        alone = (of_product == kind).sum() == 1
        names.append(", ".join(words) or (log.action_name(product) if alone else f"kind {kind + 1}"))
    return Kinds(tuple(names), features[:, varied], of_product)


def read_visits(log: Log, kinds: Kinds, *, gone_after: float | None = None, gap: float = 30.0) -> Visits:
    """Return the decisions of a log in the order of visitors' lives.

    Args:
        log: A log with lives, or one with users and times.
        kinds: Its kinds of products.
        gone_after: Days after which a visitor counts as gone for good, and as new if seen again, where the log tells
            no lives.
        gap: Minutes without a decision that end a visit there.

    Raises:
        DataError: the log tells neither lives nor users and times.
    """
    order = _order_of_lives(log) if log.lives is not None else _order_of_times(log, gone_after, gap)
    n = len(order.rows)
    same_visitor = np.append(order.visitor[1:] == order.visitor[:-1], False)
    same_visit = same_visitor & np.append(order.visit[1:] == order.visit[:-1], False)
    clicked = log.rewards[order.rows] > 0.0
    kind = kinds.of_product[log.actions[order.rows]]
    starts = np.append(True, ~same_visit[:-1])
    visit = np.cumsum(starts) - 1
    up_to = np.cumsum(clicked)
    before_visit: IntArray = (up_to - clicked)[starts]
    clicks: IntArray = up_to - before_visit[visit]
    # The last row with a click before each one, if it lies in the same visit.
    places = np.maximum.accumulate(np.where(clicked, np.arange(n), -1))
    before = np.append(-1, places[:-1])
    is_same = (before >= 0) & (visit[before] == visit)
    return Visits(
        visitor=np.cumsum(np.append(True, ~same_visitor[:-1])) - 1,
        segment=_segments(log, order),
        kind=kind,
        clicked=clicked,
        last=np.where(is_same, kind[before], len(kinds.names)),
        clicks=clicks,
        ends=~same_visit & ~order.is_cut,
        returns=same_visitor & ~same_visit,
        is_open=order.is_open,
        is_cut=order.is_cut,
    )


def _order_of_lives(log: Log) -> _Order:
    assert log.lives is not None
    lives = log.lives
    rows = np.lexsort((lives.step, lives.visit, lives.visitor))
    visitor = lives.visitor[rows]
    is_last = np.append(visitor[1:] != visitor[:-1], True)
    is_cut = is_last & ~lives.ended[rows]
    return _Order(rows, visitor, lives.visit[rows], is_cut, is_cut)


def _order_of_times(log: Log, gone_after: float | None, gap: float) -> _Order:
    """Return the order by users and times; visits near the end of the log leave open whether the visitor returns."""
    if log.user_ids is None or log.times is None or gone_after is None:
        raise DataError(
            f"{log.source}: tells no lives of visitors; expected a column of visitors and one of times in its schema, "
            "and how many days without a visit mean that a visitor has gone (--gone-after)"
        )
    rows = np.lexsort((log.times, log.user_ids))
    times = log.times[rows]
    users = log.user_ids[rows]
    pause = np.append(0, np.diff(times))
    same = np.append(False, users[1:] == users[:-1])
    is_new = ~same | (pause > gone_after * DAY)
    visitor = np.cumsum(is_new) - 1
    visit = np.cumsum(is_new | (pause > gap * MINUTE)) - 1
    end = int(log.times.max())
    ends_visit = np.append(visit[1:] != visit[:-1], True)
    # Also where the visitor did return: to count these alone would make returns look more frequent than they are.
    is_open = ends_visit & (times > end - gone_after * DAY)
    is_cut = np.append(visitor[1:] != visitor[:-1], True) & (times > end - gap * MINUTE)
    return _Order(rows, visitor, visit, is_open, is_cut)


def _segments(log: Log, order: _Order) -> IntArray:
    """Return the segment of each decision's visitor, by the features that never change in a visitor's life."""
    features = log.features[order.rows]
    same = order.visitor[1:] == order.visitor[:-1]
    stays = (
        ~(np.diff(features, axis=0)[same] != 0.0).any(axis=0) if len(features) > 1 else np.ones(features.shape[1], bool)
    )
    return np.asarray(group_rows(features[:, stays], MOST_SEGMENTS, MOST_CLUSTERS).labels)
