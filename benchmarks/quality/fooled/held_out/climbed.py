"""A policy that climbed its own estimate on the rows that judge it, one that remembers them, and a sound one."""

import numpy as np

from benchmarks.quality.fooled.shop import Case, Rows, Shop, Way, at, draw_rows, softmax
from benchmarks.quality.fooled.third_round.same_rows import same_visitors
from benchmarks.quality.fooled.third_round.traffic import come, open_shop, visit
from zoosim.core.types import FloatArray


def weights_climbed_by_the_estimate(rng: np.random.Generator) -> Case:
    """A linear policy of 60 columns, most of them noise, climbed the slope of its own `ips` on these rows."""
    rows = draw_rows(Shop(rng, n_actions=6))
    rows.features = np.hstack([rows.features, rng.normal(size=(len(rows), 55))])
    return same_visitors(rows, _climbed(rows, rows.features))


def weights_climbed_a_month_before(rng: np.random.Generator) -> Case:
    """The same, where the slope was that of the month before: sound."""
    shop = Shop(rng, n_actions=6)
    earlier, rows = draw_rows(shop), draw_rows(shop)
    for each in (earlier, rows):
        each.features = np.hstack([each.features, rng.normal(size=(len(each), 55))])
    return same_visitors(rows, _climbed(earlier, rows.features))


def last_success_shown_again(rng: np.random.Generator) -> Case:
    """Another system's column: each user sees above all the products the user clicked in this very log; ids."""
    visits = come(rng, 900, sessions=(2, 6), visits=(1, 2))
    rows = visit(open_shop(rng, n_actions=10), visits, spread=0.4)
    clicked = np.zeros((visits.n_users, 10))
    np.maximum.at(clicked, (visits.users, rows.actions), rows.rewards)
    chances = 0.3 / 10.0 + clicked[visits.users]
    return same_visitors(rows, chances / chances.sum(axis=1, keepdims=True))._replace(policy=None)


def _climbed(rows: Rows, visitors: FloatArray, steps: int = 120) -> FloatArray:
    """Return a linear policy's probabilities for `visitors`, after gradient steps up its `ips` less a baseline."""
    slopes = np.zeros((rows.features.shape[1], rows.shop.n_actions))
    gain = (rows.rewards - rows.rewards.mean()) / rows.propensities
    taken = np.eye(rows.shop.n_actions)[rows.actions]
    for _ in range(steps):
        chances = softmax(rows.features @ slopes)
        pull = (gain * at(chances, rows.actions))[:, None] * (taken - chances)
        slopes += 1.0 * rows.features.T @ pull / len(rows)
    return 0.05 / rows.shop.n_actions + 0.95 * softmax(visitors @ slopes)


FITTED: tuple[Way, ...] = (weights_climbed_by_the_estimate, last_success_shown_again)
FITTED_BEFORE: tuple[Way, ...] = (weights_climbed_a_month_before,)
