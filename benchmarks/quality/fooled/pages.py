"""Logs of rankings: faults and sound ones. Visits show three of eight products, each clicked on its own."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    ROWS,
    START,
    VISITORS,
    Case,
    Rows,
    Shop,
    Way,
    draw_rankings,
    ranked_clicks,
    softmax,
)
from zoosim.core.types import FloatArray, IntArray


def pages_with_ids(rng: np.random.Generator) -> Case:
    """Users of four visits have ids."""
    rows = _of_users(rng)
    return rows.case(rows.shop.ranked_value())


def pages_without_ids(rng: np.random.Generator) -> Case:
    """Each visit is of another visitor."""
    rows = draw_rankings(_shop(rng))
    return rows.case(rows.shop.ranked_value())


def pages_of_alike_days(rng: np.random.Generator) -> Case:
    """Each day moves all its clicks up or down; users of four visits have ids; the value is that of any day."""
    rows = _of_users(rng, mood=0.6)
    return rows.case(rows.shop.ranked_value(0.6 * rng.normal(size=(VISITORS, 1))))


def user_clicks_on_each_page(rng: np.random.Generator) -> Case:
    """A user's clicks on a position are booked on that position of each of the four pages; users have ids."""
    rows = _of_users(rng)
    assert rows.users is not None
    clicked = np.stack([np.bincount(rows.users, column)[rows.users] > 0.0 for column in rows.rewards.T], axis=1)
    return replace(rows, rewards=clicked.astype(float)).case(rows.shop.ranked_value())


def last_clicked_page_of_a_user(rng: np.random.Generator) -> Case:
    """Of each user's four pages, seen within minutes, only the last one that was clicked keeps its clicks."""
    shop = _shop(rng, base=-0.5)
    users = np.repeat(np.arange(ROWS // 4), 4)
    rows = draw_rankings(shop, features=shop.visitors(ROWS // 4)[users])
    rows.users = users
    is_clicked = np.flatnonzero(rows.rewards.any(axis=1))
    last = np.zeros(ROWS // 4, np.int64)
    last[users[is_clicked]] = is_clicked
    is_last = last[users] == np.arange(ROWS)
    return replace(rows, rewards=rows.rewards * is_last[:, None]).case(shop.ranked_value())


def tops_of_cells_of_these_pages(rng: np.random.Generator) -> Case:
    """In each of 12 cells products are shown by a softmax of the clicks of these pages with them at the top."""
    return _by_cells(rng, from_these=True)


def tops_of_cells_of_other_pages(rng: np.random.Generator) -> Case:
    """The same, by the pages of an earlier log."""
    return _by_cells(rng, from_these=False)


def _shop(rng: np.random.Generator, base: float = -1.5) -> Shop:
    return Shop(rng, base=base, lean=0.2)


def _of_users(rng: np.random.Generator, mood: float = 0.0, base: float = -1.5) -> Rows:
    """Draw rankings of users of four visits at any time; each day moves all clicks by a `mood`."""
    shop = _shop(rng, base)
    users = rng.permutation(np.repeat(np.arange(ROWS // 4), 4))
    times = START + np.sort(rng.integers(DAYS * DAY, size=ROWS))
    moods = mood * rng.normal(size=DAYS)
    shift = moods[(times - START) // DAY][:, None]
    rows = draw_rankings(shop, features=shop.visitors(ROWS // 4)[users], times=times, shift=shift)
    rows.users = users
    return rows


def _by_cells(rng: np.random.Generator, *, from_these: bool) -> Case:
    shop = _shop(rng)
    logs = [draw_rankings(shop) for _ in range(2)]
    learned = logs[0] if from_these else logs[1]
    k = shop.n_actions
    index = _cells(learned.features) * k + learned.actions[:, 0]
    earned = np.bincount(index, learned.rewards.sum(axis=1), 12 * k)
    means = (earned / np.maximum(1, np.bincount(index, minlength=12 * k))).reshape(12, k)
    policy = softmax(4.0 * means)
    logs[0].target = policy[_cells(logs[0].features)]
    fresh = shop.visitors(VISITORS)
    return logs[0].case(ranked_clicks(rng, policy[_cells(fresh)], shop.click_rates(fresh)))


def _cells(features: FloatArray) -> IntArray:
    return np.asarray(features[:, :3].argmax(axis=1) * 4 + 2 * (features[:, 3] > 0.0) + (features[:, 4] > 0.0))


PAGES: tuple[Way, ...] = (
    pages_of_alike_days,
    user_clicks_on_each_page,
    last_clicked_page_of_a_user,
    tops_of_cells_of_these_pages,
)
SOUND_PAGES: tuple[Way, ...] = (pages_with_ids, pages_without_ids, tops_of_cells_of_other_pages)
