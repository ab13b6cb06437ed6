"""Logs whose beginning differs from their end, and rewards that are late."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, ROWS, START, Case, Rows, Shop, Way, age, at, draw, draw_rows
from zoosim.core.types import FloatArray

DRIFT_ROWS = 20_000


def value_falls_by_a_quarter(rng: np.random.Generator) -> Case:
    """Click rates fall by 27% over the log; the value is that at its end."""
    return _falls(rng, 0.27, DRIFT_ROWS)


def value_falls_by_half(rng: np.random.Generator) -> Case:
    """Click rates fall by 50% over the log; the value is that at its end."""
    return _falls(rng, 0.5, ROWS)


def value_drops_late(rng: np.random.Generator) -> Case:
    """Click rates drop by 40% in the last fifth; the value is that at the end."""
    rows = _even(rng, 2 * ROWS)
    kept = np.where(age(rows) > 0.8, 0.6, 1.0)
    return _thinned(rows, kept).case(0.6 * rows.shop.value())


def favourite_falls(rng: np.random.Generator) -> Case:
    """The product that the policy likes best loses its clicks over the log; the value is that at its end."""
    rows = _even(rng, 2 * ROWS)
    favourite = int(rows.target.mean(axis=0).argmax())
    kept = np.where(rows.actions == favourite, 1.0 - age(rows), 1.0)
    fresh = rows.shop.visitors(20_000)
    rates = rows.shop.click_rates(fresh)
    rates[:, favourite] = 0.0
    return _thinned(rows, kept).case(float((rows.shop.target(fresh) * rates).sum(axis=1).mean()))


def rewards_not_arrived(rng: np.random.Generator) -> Case:
    """Clicks arrive within a week; those that had not arrived when the log was written are missing."""
    rows = _even(rng)
    delay = rng.exponential(4.0, size=len(rows)) / DAYS
    return _thinned(rows, (age(rows) + delay < 1.0).astype(float)).case(rows.shop.value())


def no_rewards_at_the_end(rng: np.random.Generator) -> Case:
    """None of the last tenth's clicks has arrived."""
    rows = _even(rng)
    return _thinned(rows, (age(rows) < 0.9).astype(float)).case(rows.shop.value())


def half_of_the_rewards_late(rng: np.random.Generator) -> Case:
    """Half of the last quarter's clicks have not arrived."""
    rows = _even(rng)
    return _thinned(rows, np.where(age(rows) < 0.75, 1.0, 0.5)).case(rows.shop.value())


def late_rewards_without_times(rng: np.random.Generator) -> Case:
    """Half of the last quarter's clicks have not arrived, and the log has no times, but is in order."""
    rows = _even(rng)
    rows.has_times = False
    return _thinned(rows, np.where(age(rows) < 0.75, 1.0, 0.5)).case(rows.shop.value())


def late_rewards_of_one_product(rng: np.random.Generator) -> Case:
    """Clicks of the policy's favourite are missing in the last quarter."""
    rows = _even(rng)
    favourite = int(rows.target.mean(axis=0).argmax())
    is_missing = (age(rows) > 0.75) & (rows.actions == favourite)
    return _thinned(rows, np.where(is_missing, 0.0, 1.0)).case(rows.shop.value())


def hour_moves_choice_and_clicks(rng: np.random.Generator) -> Case:
    """Half of the products are shown at night, when more is clicked; what is logged is their mean probability."""
    shop = Shop(rng)
    times = START + np.sort(rng.integers(DAYS * DAY, size=ROWS))
    is_night = ((times - START) % DAY < DAY // 2)[:, None]
    features = shop.visitors(ROWS)
    is_nightly = np.argsort(-shop.target(features).mean(axis=0)).argsort() < shop.n_actions // 2
    usual = shop.logging(features)
    tilted = usual * np.where(is_nightly == is_night, 1.6, 0.4)
    tilted /= tilted.sum(axis=1, keepdims=True)
    rows = draw_rows(shop, features=features, times=times, logging=tilted, shift=np.where(is_night, 0.8, -0.8))
    both = [usual * np.where(is_nightly == night, 1.6, 0.4) for night in (True, False)]
    mean = np.mean([each / each.sum(axis=1, keepdims=True) for each in both], axis=0)
    rows.propensities = at(mean, rows.actions)
    return rows.case((shop.value(0.8) + shop.value(-0.8)) / 2.0)


def old_propensities_after_a_change(rng: np.random.Generator) -> Case:
    """In the log's second half another policy chose, and the first one's probabilities are logged."""
    rows = _even(rng)
    is_late = age(rows) > 0.5
    other = rows.logging[:, ::-1]
    actions = np.where(is_late, draw(rng, other), rows.actions)
    clicks = (rng.random(len(rows)) < at(rows.click_rates, actions)).astype(float)
    changed = replace(rows, actions=actions, rewards=clicks, propensities=at(rows.logging, actions))
    return changed.case(rows.shop.value())


def _even(rng: np.random.Generator, n: int = ROWS) -> Rows:
    return draw_rows(Shop(rng), n)


def _falls(rng: np.random.Generator, share: float, n: int) -> Case:
    """Return a log whose click rates fall by a `share` from beginning to end."""
    rows = _even(rng, n)
    return _thinned(rows, 1.0 - share * age(rows)).case((1.0 - share) * rows.shop.value())


def _thinned(rows: Rows, kept: FloatArray) -> Rows:
    """Keep each reward with probability `kept (n,)`."""
    rows.rewards = rows.rewards * (rows.shop.rng.random(len(rows)) < kept)
    return rows


DRIFT: tuple[Way, ...] = (value_falls_by_a_quarter, value_falls_by_half, value_drops_late, favourite_falls)
LATE: tuple[Way, ...] = (
    rewards_not_arrived,
    no_rewards_at_the_end,
    half_of_the_rewards_late,
    late_rewards_without_times,
    late_rewards_of_one_product,
)
CHANGED: tuple[Way, ...] = (hour_moves_choice_and_clicks, old_propensities_after_a_change)
