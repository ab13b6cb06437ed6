"""Sound logs, whose verdicts the checks must leave as they are; and faults that no log can show."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.dependence import segments_for_users
from benchmarks.quality.fooled.shop import (
    DAY,
    DAYS,
    ROWS,
    START,
    VISITORS,
    Case,
    Shop,
    Way,
    at,
    draw_rows,
    softmax,
)
from zoosim.core.types import BoolArray, FloatArray


def plain(rng: np.random.Generator) -> Case:
    """Numbers and segments, times, no users."""
    return _as_drawn(Shop(rng))


def without_times(rng: np.random.Generator) -> Case:
    """No times."""
    rows = draw_rows(Shop(rng))
    rows.has_times = False
    return rows.case(rows.shop.value())


def users_with_ids(rng: np.random.Generator) -> Case:
    """25 to 60 visits of each user, who have ids and tastes of their own."""
    shop = Shop(rng)
    visits = rng.integers(25, 61, size=200)
    users = np.repeat(np.arange(200), visits)
    rng.shuffle(users)
    taste = rng.normal(size=200)
    rows = draw_rows(shop, len(users), shop.visitors(200)[users], taste[users][:, None])
    rows.users = users
    return rows.case(shop.value(rng.normal(size=(VISITORS, 1))))


def users_in_bursts_with_ids(rng: np.random.Generator) -> Case:
    """Ten visits in a row of each of 500 users, who have ids and tastes of their own."""
    shop = Shop(rng)
    users = np.repeat(np.arange(500), 10)
    taste = rng.normal(size=500)
    rows = draw_rows(shop, len(users), shop.visitors(500)[users], taste[users][:, None])
    rows.users = users
    return rows.case(shop.value(rng.normal(size=(VISITORS, 1))))


def thousand_products(rng: np.random.Generator) -> Case:
    """1,000 products, each as likely to be shown; the policy shows a hundred of them twice as often."""
    return _thousand(rng, np.zeros(1_000))


def thousand_products_uneven(rng: np.random.Generator) -> Case:
    """1,000 products, some of which are shown 20 times as often as others."""
    return _thousand(rng, np.log(np.linspace(1.0, 20.0, 1_000)))


def thousand_products_5_000_rows(rng: np.random.Generator) -> Case:
    """1,000 products and 5,000 rows."""
    return _thousand(rng, np.zeros(1_000), 5_000)


def thousand_products_2_000_rows(rng: np.random.Generator) -> Case:
    """1,000 products and 2,000 rows."""
    return _thousand(rng, np.zeros(1_000), 2_000)


def skewed_revenue(rng: np.random.Generator) -> Case:
    """Revenue with a logarithm of standard deviation 1."""
    rows = draw_rows(Shop(rng))
    rows.rewards = rows.rewards * rng.lognormal(0.0, 1.0, size=len(rows))
    return rows.case(rows.shop.value() * float(np.exp(0.5)))


def amounts(rng: np.random.Generator) -> Case:
    """Amounts with normal noise, some below 0."""
    rows = draw_rows(Shop(rng))
    rows.rewards = rows.click_rates[np.arange(len(rows)), rows.actions] + rng.normal(size=len(rows))
    return rows.case(rows.shop.value())


def small(rng: np.random.Generator) -> Case:
    """600 rows."""
    return _as_drawn(Shop(rng), 600)


def large(rng: np.random.Generator) -> Case:
    """30,000 rows."""
    return _as_drawn(Shop(rng), 30_000)


def segments_alone(rng: np.random.Generator) -> Case:
    """Visitors known by one of three segments."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    features[:, 3:] = 0.0
    rows = draw_rows(shop, features=features)
    rows.features = rows.features[:, :3]
    fresh = shop.visitors(VISITORS)
    fresh[:, 3:] = 0.0
    return rows.case(float((shop.target(fresh) * shop.click_rates(fresh)).sum(axis=1).mean()))


def codes_and_days(rng: np.random.Generator) -> Case:
    """Visitors known by whole numbers (an age, a town), and times by their day alone."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    features[:, 3:] = features[:, 3:].round(1)
    rows = draw_rows(shop, features=features)
    rows.times = rows.times // DAY * DAY
    return rows.case(shop.value())


def rare_clicks(rng: np.random.Generator) -> Case:
    """3% of 10,000 visits click."""
    return _as_drawn(Shop(rng, base=-3.6), 10_000)


def sold_out(rng: np.random.Generator) -> Case:
    """A fifth of the products is sold out at any visit, and the log says which."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    available = _available(shop, ROWS)
    logging = shop.logging(features) * available
    rows = draw_rows(shop, features=features, logging=logging / logging.sum(axis=1, keepdims=True))
    target = rows.target * available
    rows.target = target / target.sum(axis=1, keepdims=True)
    rows.available = available
    fresh = shop.visitors(VISITORS)
    target = shop.target(fresh) * _available(shop, VISITORS)
    target /= target.sum(axis=1, keepdims=True)
    return rows.case(float((target * shop.click_rates(fresh)).sum(axis=1).mean()))


def logger_that_learns(rng: np.random.Generator) -> Case:
    """What writes the log leans ever more to what is clicked, and logs its own probabilities."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    share = np.linspace(0.0, 0.7, ROWS)[:, None]
    logging = (1.0 - share) / shop.n_actions + share * shop.target(features)
    rows = draw_rows(shop, features=features, logging=logging)
    return rows.case(shop.value())


def hours_that_differ(rng: np.random.Generator) -> Case:
    """More is clicked at night, whatever is shown."""
    shop = Shop(rng)
    times = START + np.sort(rng.integers(DAYS * DAY, size=ROWS))
    is_night = (times - START) % DAY < DAY // 2
    rows = draw_rows(shop, times=times, shift=np.where(is_night, 0.4, -0.4)[:, None])
    return rows.case((shop.value(0.4) + shop.value(-0.4)) / 2.0)


def weekends_that_differ(rng: np.random.Generator) -> Case:
    """More is clicked on the last two days of each week, whatever is shown; 20,000 rows."""
    shop = Shop(rng)
    times = START + np.sort(rng.integers(DAYS * DAY, size=20_000))
    is_weekend = (times - START) // DAY % 7 >= 5
    rows = draw_rows(shop, len(times), times=times, shift=np.where(is_weekend, 0.8, 0.0)[:, None])
    return rows.case((2.0 * shop.value(0.8) + 5.0 * shop.value()) / 7.0)


def top_of_the_ranking(rng: np.random.Generator) -> Case:
    """What writes the log shows each visitor one of the five products that it ranks highest, as does the policy."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    rows = draw_rows(shop, features=features, logging=_top(shop.logging(features), shop.logging(features)))
    rows.target = _top(rows.target, shop.logging(features))
    fresh = shop.visitors(VISITORS)
    policy = _top(shop.target(fresh), shop.logging(fresh))
    return rows.case(float((policy * shop.click_rates(fresh)).sum(axis=1).mean()))


def price_tiers(rng: np.random.Generator) -> Case:
    """Sales of 20, and a few of 100."""
    rows = draw_rows(Shop(rng))
    rows.rewards = rows.rewards * np.where(rng.random(len(rows)) < 0.05, 100.0, 20.0)
    return rows.case(rows.shop.value() * 24.0)


def sorted_by_product(rng: np.random.Generator) -> Case:
    """Rows sorted by product, in a log without times."""
    rows = draw_rows(Shop(rng))
    value = rows.shop.value()
    rows = rows.take(np.argsort(rows.actions, kind="stable"))
    rows.has_times = False
    return rows.case(value)


def sorted_by_reward(rng: np.random.Generator) -> Case:
    """Rows sorted by reward, in a log without times."""
    rows = draw_rows(Shop(rng))
    value = rows.shop.value()
    rows = rows.take(np.argsort(-rows.rewards, kind="stable"))
    rows.has_times = False
    return rows.case(value)


def answers(rng: np.random.Generator) -> Case:
    """A table of labels: the one right product earns 1, and the policy is right in most cases."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    shop_taste = 8.0 * shop.taste
    scores = np.hstack([np.ones((ROWS, 1)), features]) @ shop_taste
    even = np.full((ROWS, shop.n_actions), 1.0 / shop.n_actions)
    rows = draw_rows(shop, features=features, logging=even)
    is_right = np.arange(shop.n_actions) == scores.argmax(axis=1)[:, None]
    rows.rewards = at(is_right, rows.actions).astype(float)
    rows.target = 0.9 * softmax(scores) + 0.1 * even
    fresh = np.hstack([np.ones((VISITORS, 1)), shop.visitors(VISITORS)]) @ shop_taste
    fresh_target = 0.9 * softmax(fresh) + 0.1 / shop.n_actions
    return rows.case(float(fresh_target.max(axis=1).mean()))


def same_policy(rng: np.random.Generator) -> Case:
    """The policy is the one that wrote the log."""
    rows = draw_rows(Shop(rng))
    rows.target = rows.logging
    fresh = rows.shop.visitors(VISITORS)
    return rows.case(float((rows.shop.logging(fresh) * rows.shop.click_rates(fresh)).sum(axis=1).mean()))


def sure_policy(rng: np.random.Generator) -> Case:
    """The policy always shows its favourite."""
    shop = Shop(rng)
    rows = draw_rows(shop)
    rows.target = _sure(rows.target)
    fresh = shop.visitors(VISITORS)
    return rows.case(float((_sure(shop.target(fresh)) * shop.click_rates(fresh)).sum(axis=1).mean()))


def hidden_confounder(rng: np.random.Generator) -> Case:
    """What writes the log sees a mood that moves clicks, and logs its mean probability: as often as the mood is had."""
    shop = Shop(rng)
    features = shop.visitors(ROWS)
    has_mood = (rng.random(ROWS) < 0.5)[:, None]
    favourites = np.arange(shop.n_actions) < shop.n_actions // 2
    tilts = [np.where(favourites == mood, 1.7, 0.3) * shop.logging(features) for mood in (True, False)]
    tilts = [tilt / tilt.sum(axis=1, keepdims=True) for tilt in tilts]
    rows = draw_rows(shop, features=features, logging=np.where(has_mood, *tilts), shift=np.where(has_mood, 0.8, -0.8))
    rows.propensities = at((tilts[0] + tilts[1]) / 2.0, rows.actions)
    return rows.case((shop.value(0.8) + shop.value(-0.8)) / 2.0)


def rewards_lost_by_product(rng: np.random.Generator) -> Case:
    """Half of the clicks on the policy's favourite were never counted."""
    rows = draw_rows(Shop(rng))
    favourite = rows.target.mean(axis=0).argmax()
    is_lost = (rows.actions == favourite) & (rng.random(len(rows)) < 0.5)
    return replace(rows, rewards=np.where(is_lost, 0.0, rows.rewards)).case(rows.shop.value())


def rewards_counted_twice(rng: np.random.Generator) -> Case:
    """Clicks on the policy's favourite count 2."""
    rows = draw_rows(Shop(rng))
    favourite = rows.target.mean(axis=0).argmax()
    return replace(rows, rewards=rows.rewards * np.where(rows.actions == favourite, 2.0, 1.0)).case(rows.shop.value())


def rewards_of_others(rng: np.random.Generator) -> Case:
    """A third of the rows has the reward of some other row."""
    rows = draw_rows(Shop(rng))
    is_other = rng.random(len(rows)) < 0.33
    rewards = np.where(is_other, rng.permutation(rows.rewards), rows.rewards)
    return replace(rows, rewards=rewards).case(rows.shop.value())


def columns_of_the_policy_swapped(rng: np.random.Generator) -> Case:
    """The policy's probabilities stand in another order than the log's products."""
    rows = draw_rows(Shop(rng))
    return replace(rows, target=rows.target[:, ::-1]).case(rows.shop.value())


def other_visitors(rng: np.random.Generator) -> Case:
    """The policy will meet visitors of the third segment alone."""
    rows = draw_rows(Shop(rng))
    fresh = rows.shop.visitors(VISITORS)
    fresh[:, :3] = (0.0, 0.0, 1.0)
    return rows.case(float((rows.shop.target(fresh) * rows.shop.click_rates(fresh)).sum(axis=1).mean()))


def units_by_product(rng: np.random.Generator) -> Case:
    """Amounts, ten times too high for the policy's favourite."""
    rows = draw_rows(Shop(rng))
    favourite = rows.target.mean(axis=0).argmax()
    amount = rng.lognormal(0.0, 0.5, size=len(rows))
    rewards = rows.rewards * amount * np.where(rows.actions == favourite, 10.0, 1.0)
    return replace(rows, rewards=rewards).case(rows.shop.value() * float(np.exp(0.125)))


def _as_drawn(shop: Shop, n: int = ROWS) -> Case:
    return draw_rows(shop, n).case(shop.value())


def _sure(target: FloatArray) -> FloatArray:
    return np.asarray((target == target.max(axis=1, keepdims=True)).astype(float))


def _top(chances: FloatArray, ranking: FloatArray) -> FloatArray:
    """Return `chances (n, K)` among the five products that a ranking `(n, K)` has highest, the others 0."""
    kept = chances * (ranking >= np.sort(ranking, axis=1)[:, -5:-4])
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def _available(shop: Shop, n: int) -> BoolArray:
    available: BoolArray = shop.rng.random((n, shop.n_actions)) > 0.2
    available[:, 0] = True
    return available


def _thousand(rng: np.random.Generator, leans: FloatArray, n: int = 20_000) -> Case:
    shop = Shop(rng, n_actions=1_000)
    shop.taste *= 0.6
    features = shop.visitors(n)
    logging = softmax(np.broadcast_to(leans, (n, 1_000)))
    rows = draw_rows(shop, n, features, logging=logging)
    quality = shop.taste[0]
    is_better = quality >= np.sort(quality)[-100]
    policy = softmax((leans + np.log(2.0) * is_better)[None])[0]
    rows.target = np.broadcast_to(policy, (n, 1_000))
    fresh = shop.visitors(VISITORS // 4)
    return rows.case(float((shop.click_rates(fresh) @ policy).mean()))


SOUND: tuple[Way, ...] = (
    plain,
    without_times,
    small,
    large,
    segments_alone,
    codes_and_days,
    rare_clicks,
    amounts,
    skewed_revenue,
    users_with_ids,
    users_in_bursts_with_ids,
    sold_out,
    logger_that_learns,
    hours_that_differ,
    weekends_that_differ,
    top_of_the_ranking,
    price_tiers,
    sorted_by_product,
    sorted_by_reward,
    answers,
    same_policy,
    sure_policy,
    thousand_products,
    thousand_products_uneven,
    thousand_products_5_000_rows,
    thousand_products_2_000_rows,
)
HIDDEN: tuple[Way, ...] = (
    hidden_confounder,
    rewards_lost_by_product,
    rewards_counted_twice,
    rewards_of_others,
    columns_of_the_policy_swapped,
    other_visitors,
    units_by_product,
    segments_for_users,
)
