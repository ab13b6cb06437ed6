"""Many visitors at once, a row each, one decision after another in compiled code: what the vector environment steps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.decisions import draw_keys, draw_persona, has_gone, is_clicked, is_over
from zoosim.worlds.sessions.laws import laws_of
from zoosim.worlds.sessions.states import LARGE_CLICKS, LARGE_SUM, LARGE_VISITS, REMEMBERED

OBSERVATIONS = ("state", "shop", "anonymous")
"""What is observed of a visitor, in the order of the numbers that compiled code takes."""

STATE, SHOP = OBSERVATIONS.index("state"), OBSERVATIONS.index("shop")


class ShopArrays(NamedTuple):
    """What compiled code reads of a shop.

    With T periods, P personas, C categories, S levels of satisfaction and M + 1 counts of clicks: chances of a click
    `clicks (T, P, C + 1, 2 C)` by the category clicked last, C for none; the visitors `starts (T,)` that periods begin
    with; chances of a return `returns (S, M + 1)`; the chance `goes_on` that a visit goes on; the `first` level of
    satisfaction; `shares (P,)` of each persona and those before it; `observed`, a place in `OBSERVATIONS`.
    """

    clicks: FloatArray
    starts: IntArray
    returns: FloatArray
    goes_on: float
    first: int
    shares: FloatArray
    observed: int


class Visitors(NamedTuple):
    """Visitors at a decision, a row each.

    As in `SessionVisit`, `(N,)` each: number of the `visitor`, `persona`, `last` category, `level` of satisfaction,
    `clicks` of the visit, numbers of `visit` and `step`, and `felt`. Besides the `period (N,)` of their laws, the
    kinds clicked last, `history (N, 5)`, the newest first and -1 for none, and the `keys (N, 4)` of their draws.
    """

    visitor: IntArray
    persona: IntArray
    period: IntArray
    last: IntArray
    level: IntArray
    clicks: IntArray
    visit: IntArray
    step: IntArray
    felt: IntArray
    history: IntArray
    keys: np.ndarray


class Decisions(NamedTuple):
    """What came of a decision in each row, `(N,)` each but observations.

    `rewards`, and whether the decision `ended` the visit of the visitor who stays, and whether the visitor has gone
    (`terminated`) or was cut off (`truncated`). Of visitors who were either, and undefined for others: what is
    `last_observed (N, d)` of them, and in `last_numbers (N, 3)` the visitor, the visit and the step of it; and
    whether that visit had `last_ended`.
    """

    rewards: FloatArray
    ended: BoolArray
    terminated: BoolArray
    truncated: BoolArray
    last_observed: np.ndarray
    last_numbers: IntArray
    last_ended: BoolArray


def shop_arrays(config: SessionConfig) -> ShopArrays:
    """Return what compiled code reads of a shop."""
    tables = config.tables()
    laws = [laws_of(config, table) for table in tables.values()]
    return ShopArrays(
        clicks=np.stack([each.clicks for each in laws]),
        starts=np.array(list(tables)),
        returns=laws[0].returns,
        goes_on=config.go_on,
        first=config.levels,
        shares=np.cumsum(config.shares),
        observed=OBSERVATIONS.index(config.observe),
    )


def first_visitors(shop: ShopArrays, seeds: Sequence[int], numbers: Sequence[int]) -> Visitors:
    """Return visitors at their first decision.

    Args:
        shop: The shop.
        seeds: Seed of each row's draws.
        numbers: Number of each row's visitor.
    """
    count = len(seeds)
    numbers_of = {name: np.zeros(count, np.int64) for name in Visitors._fields[:-2]}
    history = np.empty((count, REMEMBERED), np.int64)
    visitors = Visitors(**numbers_of, history=history, keys=np.stack([draw_keys(seed) for seed in seeds]))
    _all_arrive(shop, visitors, np.asarray(numbers, dtype=np.int64))
    return visitors


def decide(
    shop: ShopArrays, visitors: Visitors, kinds: IntArray, most_steps: int, observations: np.ndarray
) -> Decisions:
    """Show each row's visitor a kind of product; where visitors have gone, bring those with the next numbers.

    Args:
        shop: The shop.
        visitors: Who is waiting; changed in place.
        kinds: What is shown, `(N,)`.
        most_steps: Decisions after which a visitor is cut off.
        observations: Takes what is observed of those who wait afterwards, `(N, d)` of floats.
    """
    count = len(kinds)
    decisions = Decisions(
        rewards=np.empty(count),
        ended=np.empty(count, bool),
        terminated=np.empty(count, bool),
        truncated=np.empty(count, bool),
        last_observed=np.empty_like(observations),
        last_numbers=np.empty((count, 3), np.int64),
        last_ended=np.empty(count, bool),
    )
    _decide(shop, visitors, kinds, most_steps, observations, decisions)
    return decisions


def observe(shop: ShopArrays, visitors: Visitors, observations: np.ndarray) -> None:
    """Write what is observed of each row's visitor, `(N, d)` of floats; see `SessionConfig.observe`."""
    _observe_all(shop, visitors, observations)


@jit
def _decide(
    shop: ShopArrays, rows: Visitors, kinds: IntArray, most_steps: int, observations: np.ndarray, out: Decisions
) -> None:
    for n in range(kinds.shape[0]):
        kind = kinds[n]
        visitor = rows.visitor[n]
        is_end = is_over(shop.goes_on, rows.keys[n], visitor, rows.step[n])
        if is_end:
            # Before the click: who then has gone for good is last observed at this decision.
            _observe(shop, rows, n, out.last_observed[n])
        out.rewards[n] = _show(shop, rows, n, kind)
        is_last = is_end and has_gone(shop.returns[rows.level[n], rows.clicks[n]], rows.keys[n], visitor, rows.visit[n])
        if not is_last:
            rows.step[n] += 1
            if is_end:
                rows.visit[n] += 1
                rows.last[n] = shop.clicks.shape[2] - 1
                rows.clicks[n] = 0
        is_cut = not is_last and rows.step[n] >= most_steps
        if is_cut:
            _observe(shop, rows, n, out.last_observed[n])
        out.terminated[n] = is_last
        out.truncated[n] = is_cut
        out.ended[n] = is_end and not is_last and not is_cut
        if is_last or is_cut:
            out.last_ended[n] = is_end
            out.last_numbers[n, 0] = visitor
            out.last_numbers[n, 1] = rows.visit[n]
            out.last_numbers[n, 2] = rows.step[n]
            _arrive(shop, rows, n, visitor + 1)
        _observe(shop, rows, n, observations[n])


@inlined
def _show(shop: ShopArrays, rows: Visitors, n: int, kind: int) -> float:
    """Show row n a kind, and return 1.0 for a click, else 0.0."""
    kinds = shop.clicks.shape[3]
    chance = shop.clicks[rows.period[n], rows.persona[n], rows.last[n], kind]
    if not is_clicked(chance, rows.keys[n], rows.visitor[n], rows.step[n], kind, kinds):
        return 0.0
    sign = -1 if kind % 2 else 1
    rows.last[n] = kind // 2
    rows.level[n] = min(max(rows.level[n] + sign, 0), shop.returns.shape[0] - 1)
    rows.clicks[n] = min(rows.clicks[n] + 1, shop.returns.shape[1] - 1)
    rows.felt[n] += sign
    for place in range(REMEMBERED - 1, 0, -1):
        rows.history[n, place] = rows.history[n, place - 1]
    rows.history[n, 0] = kind
    return 1.0


@jit
def _all_arrive(shop: ShopArrays, rows: Visitors, numbers: IntArray) -> None:
    for n in range(numbers.shape[0]):
        _arrive(shop, rows, n, numbers[n])


@jit
def _arrive(shop: ShopArrays, rows: Visitors, n: int, visitor: int) -> None:
    """Bring a visitor to row n."""
    rows.visitor[n] = visitor
    rows.persona[n] = draw_persona(shop.shares, rows.keys[n], visitor)
    period = 0
    while period < shop.starts.shape[0] - 1 and shop.starts[period + 1] <= visitor:
        period += 1
    rows.period[n] = period
    rows.last[n] = shop.clicks.shape[2] - 1
    rows.level[n] = shop.first
    rows.clicks[n] = 0
    rows.visit[n] = 0
    rows.step[n] = 0
    rows.felt[n] = 0
    rows.history[n] = -1


@jit
def _observe_all(shop: ShopArrays, rows: Visitors, observations: np.ndarray) -> None:
    for n in range(observations.shape[0]):
        _observe(shop, rows, n, observations[n])


@jit
def _observe(shop: ShopArrays, rows: Visitors, n: int, features: Any) -> None:
    """Write the features of row n, laid out as in `Sessions.user_columns`."""
    features[:] = 0.0
    personas, lasts = shop.clicks.shape[1], shop.clicks.shape[2]
    if shop.observed == STATE:
        features[rows.persona[n]] = 1.0
        features[personas + rows.last[n]] = 1.0
        features[personas + lasts + rows.level[n]] = 1.0
        features[personas + lasts + shop.returns.shape[0] + rows.clicks[n]] = 1.0
        return
    start = 0
    if shop.observed == SHOP:
        features[rows.persona[n]] = 1.0
        start = personas
    kinds = shop.clicks.shape[3]
    for place in range(REMEMBERED):
        if rows.history[n, place] >= 0:
            features[start + place * kinds + rows.history[n, place]] = 1.0
    sums = start + REMEMBERED * kinds
    features[sums] = rows.last[n] < lasts - 1
    features[sums + 1] = rows.felt[n] / LARGE_SUM
    features[sums + 2] = rows.clicks[n] / LARGE_CLICKS
    features[sums + 3] = rows.visit[n] / LARGE_VISITS
