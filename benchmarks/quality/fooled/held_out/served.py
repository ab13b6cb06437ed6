"""What was served otherwise than by the chances that are logged, in some rows or by what no row says."""

import numpy as np

from benchmarks.quality.fooled.shop import DAY, START, VISITORS, Case, Rows, Shop, Way, at, draw, draw_rows, softmax
from benchmarks.quality.fooled.third_round.traffic import HOUR, come, judged, named, open_shop, visit
from zoosim.core.types import IntArray

CHOOSING, LIKING = 0.6, 0.6
"""How far the weather moves an editor's choices of a product, and the clicks on it."""


def best_seller_where_the_model_is_late(rng: np.random.Generator) -> Case:
    """From six to ten in the evening two in five requests time out and get the best seller; the model's chances."""
    shop = Shop(rng, n_actions=7)
    rows = draw_rows(shop, 4_500)
    best = int(rows.target.mean(axis=0).argmax())
    is_evening = (rows.times - START) % DAY // HOUR // 4 == 4
    is_late = rng.random(len(rows)) < np.where(is_evening, 0.6, 0.15)
    return _shown(rows, np.where(is_late, best, rows.actions))


def chances_of_the_other_arm(rng: np.random.Generator) -> Case:
    """Half of the users are in the test's second arm, whose chances are those of the first in the log; ids."""
    visits = come(rng, 1_100, sessions=(1, 5), visits=(1, 2))
    shop = Shop(rng)
    rows = visit(shop, visits, spread=0.3)
    is_second = (rng.random(visits.n_users) < 0.5)[visits.users]
    sharp = softmax(2.2 * np.log(rows.logging))
    return _shown(rows, np.where(is_second, draw(rng, sharp), rows.actions), 0.3)


def chances_of_one_host_in_steps(rng: np.random.Generator) -> Case:
    """One host of two keeps chances in eighths, always rounded up; hosts are logged, users have ids."""
    visits = come(rng, 1_500, sessions=(1, 4), visits=(1, 2))
    rows = visit(Shop(rng, n_actions=14, lean=0.8), visits, spread=0.3)
    host = rng.integers(2, size=visits.n_users)[visits.users]
    rows.propensities = np.where(host == 1, np.ceil(rows.propensities * 8.0) / 8.0, rows.propensities)
    case = judged(rows, 0.3)
    rows.features = np.hstack([rows.features, host[:, None].astype(float)])
    return rows.case(case.value)


def product_kept_through_the_session(rng: np.random.Generator) -> Case:
    """A session keeps its first request's product, whatever is looked for by then, and logs each request's chance."""
    visits = come(rng, 700, sessions=(1, 3), visits=(2, 5))
    shop = Shop(rng, lean=1.2)
    features = np.hstack([np.eye(3)[rng.integers(3, size=len(visits.users))], rng.normal(size=(len(visits.users), 2))])
    rows = draw_rows(shop, features=features, times=visits.times)
    rows.users = named(rng, visits.users)
    first = visits.first_of_session()[visits.sessions]
    return _shown(rows, rows.actions[first])


def chooser_who_sees_more_than_the_log(rng: np.random.Generator) -> Case:
    """An editor shows two products more when the weather suits them, which is not logged. Twin: `chooser_by_a_die`.

    Weather, half of the time, makes chances and clicks of both products 60% higher, and at other times lower. Chances
    are logged as they are over all weathers, and right as such; a row's clicks are those of the weathers in which
    the product was shown, 36% more than a policy that looks at no weather earns.
    """
    return _chosen(rng, is_hidden=True)


def chooser_by_a_die(rng: np.random.Generator) -> Case:
    """Two products are clicked as often as their rows say, whenever they are shown."""
    return _chosen(rng, is_hidden=False)


def _shown(rows: Rows, actions: IntArray, spread: float = 0.0) -> Case:
    """Show other products, with what these earn, under the chances that the logging policy gives them."""
    rows.actions = actions
    rows.rewards = (rows.shop.rng.random(len(rows)) < at(rows.click_rates, rows.actions)).astype(float)
    rows.propensities = at(rows.logging, rows.actions)
    return judged(rows, spread)


def _chosen(rng: np.random.Generator, *, is_hidden: bool) -> Case:
    """Log clicks on two favourites at higher rates, by which the value goes unless a hidden weather made them."""
    shop = open_shop(rng)
    rows = draw_rows(shop, 4_400)
    factors = np.ones(shop.n_actions)
    factors[np.argsort(-rows.target.mean(axis=0))[:2]] = 1.0 + CHOOSING * LIKING
    rows.rewards = (rng.random(len(rows)) < at(np.minimum(rows.click_rates * factors, 1.0), rows.actions)).astype(float)
    fresh = shop.visitors(VISITORS)
    rates = shop.click_rates(fresh)
    rates = rates if is_hidden else np.minimum(rates * factors, 1.0)
    return rows.case(float((shop.target(fresh) * rates).sum(axis=1).mean()))


SERVED: tuple[Way, ...] = (
    best_seller_where_the_model_is_late,
    chances_of_the_other_arm,
    chances_of_one_host_in_steps,
    product_kept_through_the_session,
)
HIDDEN: tuple[Way, ...] = (chooser_who_sees_more_than_the_log,)
TWINS: tuple[Way, ...] = (chooser_by_a_die,)
