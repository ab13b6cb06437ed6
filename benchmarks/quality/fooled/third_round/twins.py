"""Sound logs with users: the honest twins of those that fool, whose rewards stand where they were earned."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.fooled.shop import (
    DAY,
    ROWS,
    START,
    VISITORS,
    Case,
    Shop,
    Way,
    draw_rankings,
    draw_rows,
    ranked_clicks,
    softmax,
)
from benchmarks.quality.fooled.third_round.same_rows import FLOOR, greedy, means_by, means_of_cells, noisy, ridge
from benchmarks.quality.fooled.third_round.timing import kept_value, return_rates
from benchmarks.quality.fooled.third_round.traffic import HOUR, SECOND, come, judged, named, open_shop, visit, worth


def sessions_of_users(rng: np.random.Generator) -> Case:
    """Two to six decisions a session, each with the clicks that it earned; users have ids and tastes."""
    return judged(visit(Shop(rng), come(rng, 500, sessions=(1, 3), visits=(2, 6)), spread=0.6), 0.6)


def amounts_of_users(rng: np.random.Generator) -> Case:
    """Each decision has the amount that it earned; users have ids, tastes, and some visits each."""
    rows = visit(open_shop(rng), come(rng, 800, sessions=(1, 3), visits=(1, 4)), spread=0.4)
    rows.rewards = rows.rewards * np.round(20.0 * rng.lognormal(0.0, 0.4, size=len(rows)), 2)
    return judged(rows, 0.4, 20.0 * float(np.exp(0.08)))


def users_who_come_again(rng: np.random.Generator) -> Case:
    """Most users come once, and some ten times, over the whole log; users have ids and tastes."""
    visits = come(rng, 1_700, sessions=(1, 1), visits=(1, 1))
    regular = come(rng, 400, sessions=(2, 10), visits=(1, 1))
    users = np.concatenate([visits.users, regular.users + visits.n_users])
    times = np.concatenate([visits.times, regular.times])
    order = np.argsort(times)
    together = visits._replace(users=users[order], sessions=np.arange(len(users)), times=times[order])
    return judged(visit(Shop(rng), together, spread=0.7), 0.7)


def fans_and_others(rng: np.random.Generator) -> Case:
    """Some users with ids click nearly all they see, others nearly nothing: tastes differ by far."""
    return judged(visit(open_shop(rng), come(rng, 1_300, sessions=(1, 3), visits=(1, 3)), spread=2.0), 2.0)


def lists(rng: np.random.Generator) -> Case:
    """Rankings of three of eight products, and nothing names users."""
    return judged(draw_rankings(open_shop(rng)), 0.0)


def lists_of_users(rng: np.random.Generator) -> Case:
    """Rankings that users with ids and tastes see, some each."""
    visits = come(rng, 800, sessions=(1, 4), visits=(1, 3))
    return judged(visit(open_shop(rng), visits, spread=0.3, has_rankings=True), 0.3)


def amounts_of_lists(rng: np.random.Generator) -> Case:
    """What each position of a ranking earned in money; users have ids."""
    visits = come(rng, 1_000, sessions=(1, 3), visits=(1, 3))
    rows = visit(open_shop(rng, base=-1.0), visits, spread=0.3, has_rankings=True)
    rows.rewards = rows.rewards * np.round(rng.lognormal(3.0, 0.3, size=rows.rewards.shape), 2)
    return judged(rows, 0.3, float(np.exp(3.045)))


def returns_settled(rng: np.random.Generator) -> Case:
    """The log is months old: orders that came back were struck out where they were made; users have ids."""
    rows = visit(Shop(rng, base=-1.0), come(rng, 800, sessions=(1, 4), visits=(1, 3)), spread=0.4)
    is_kept = rng.random(len(rows)) >= return_rates(rows)[rows.actions]
    return replace(rows, rewards=rows.rewards * is_kept).case(kept_value(rows, 0.4))


def refunds_where_they_belong(rng: np.random.Generator) -> Case:
    """A fifth of the orders was refunded, and the shop paid the postage of 3: -3 stands there; users have ids."""
    rows = visit(open_shop(rng), come(rng, 800, sessions=(1, 4), visits=(1, 3)), spread=0.4)
    paid = np.round(20.0 * rng.lognormal(0.0, 0.3, size=len(rows)), 2)
    is_back = rng.random(len(rows)) < 0.2
    rows.rewards = rows.rewards * np.where(is_back, -3.0, paid)
    return judged(rows, 0.4, 0.8 * 20.0 * float(np.exp(0.045)) - 0.2 * 3.0)


def weekdays_that_differ(rng: np.random.Generator) -> Case:
    """The week has a rhythm, whatever is shown, and the value is the week's mean; users have ids."""
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    rhythm = np.array([-0.3, -0.2, -0.1, 0.0, 0.1, 0.3, 0.2])
    rows = visit(Shop(rng), visits, spread=0.3, shift=rhythm[visits.days % 7][:, None])
    week = rng.choice(rhythm, size=(VISITORS, 1))
    return rows.case(rows.shop.value(week + 0.3 * rng.normal(size=(VISITORS, 1))))


def evenings_that_differ(rng: np.random.Generator) -> Case:
    """The day has a rhythm, whatever is shown, and the value is the day's mean; users have ids."""
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    hour = (visits.times - START) % DAY / HOUR
    rows = visit(Shop(rng), visits, spread=0.3, shift=0.4 * np.sin(hour * np.pi / 12.0)[:, None])
    fresh = 0.4 * np.sin(rng.uniform(0.0, 2.0 * np.pi, size=(VISITORS, 1)))
    return rows.case(rows.shop.value(fresh + 0.3 * rng.normal(size=(VISITORS, 1))))


def stores_that_are_logged(rng: np.random.Generator) -> Case:
    """Ten stores differ, each row says which it was, and the value is that of these ten; users have ids."""
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    store = rng.integers(10, size=visits.n_users)
    mood = 0.5 * rng.normal(size=10)
    rows = visit(Shop(rng), visits, spread=0.3, shift=mood[store][visits.users][:, None])
    rows.features = np.hstack([rows.features, np.eye(10)[store][visits.users]])
    fresh = mood[rng.integers(10, size=(VISITORS, 1))]
    return rows.case(rows.shop.value(fresh + 0.3 * rng.normal(size=(VISITORS, 1))))


def two_hosts_with_one_time(rng: np.random.Generator) -> Case:
    """Two hosts serve 4,000 visits of a morning, by one clock, and each row says which it was."""
    times = START + np.sort(rng.integers(4 * HOUR, size=ROWS)) // SECOND * SECOND
    rows = draw_rows(Shop(rng), times=times)
    value = worth(rows, 0.0)
    rows.features = np.hstack([rows.features, rng.integers(2, size=(ROWS, 1)).astype(float)])
    return rows.case(value)


def rewards_up_to_a_limit(rng: np.random.Generator) -> Case:
    """Points for an order, 50 at most, which every fifth order gets; the value is of points."""
    rows = draw_rows(open_shop(rng))
    points = np.minimum(np.floor(30.0 * rng.lognormal(0.0, 0.6, size=100_000)), 50.0)
    rows.rewards = rows.rewards * points[:ROWS]
    return judged(rows, 0.0, float(points.mean()))


def stars(rng: np.random.Generator) -> Case:
    """Visitors rate what they are shown by one to five stars, most of them by five; users have ids."""
    rows = visit(open_shop(rng), come(rng, 800, sessions=(1, 4), visits=(1, 3)), spread=0.4)
    rows.rewards = np.where(rows.rewards > 0.0, 5.0, rng.integers(1, 5, size=len(rows)))
    return rows.case(2.5 + 2.5 * worth(rows, 0.4))


def prices_of_products(rng: np.random.Generator) -> Case:
    """Each product has its price, such as 9.99, which is what its order earns."""
    rows = draw_rows(open_shop(rng))
    prices = rng.choice([9.99, 14.99, 19.99, 24.99], size=rows.shop.n_actions)
    rows.rewards = rows.rewards * prices[rows.actions]
    fresh = rows.shop.visitors(VISITORS)
    return rows.case(float((rows.shop.target(fresh) * rows.shop.click_rates(fresh) @ prices).mean()))


def product_that_all_like(rng: np.random.Generator) -> Case:
    """Half of those who see it click one seller's product, at all hours; users have ids."""
    liked = np.where(np.arange(8) == 3, 2.0, 0.0)
    visits = come(rng, 1_000, sessions=(1, 3), visits=(1, 3))
    rows = visit(Shop(rng), visits, spread=0.4, shift=liked)
    return rows.case(rows.shop.value(liked + 0.4 * rng.normal(size=(VISITORS, 1))))


def cells_of_earlier_rows(rng: np.random.Generator) -> Case:
    """Each of 12 cells sees what earned most there in an earlier month; the log is of another."""
    shop = Shop(rng)
    earlier, rows = draw_rows(shop), draw_rows(shop)
    rows.target = greedy(means_of_cells(earlier, rows, (3, 2, 2)))
    fresh = draw_rows(shop, VISITORS)
    chances = greedy(means_of_cells(earlier, fresh, (3, 2, 2)))
    return rows.case(float((chances * fresh.click_rates).sum(axis=1).mean()))


def shares_by_cells_of_earlier_rows(rng: np.random.Generator) -> Case:
    """Products are shown in proportion to their mean clicks in 75 cells of an earlier month; users have ids."""
    shop = Shop(rng)
    earlier = draw_rows(shop)
    rows = visit(shop, come(rng, 600, sessions=(2, 6), visits=(1, 3)), spread=0.3)
    fresh = draw_rows(shop, VISITORS, shift=0.3 * rng.normal(size=(VISITORS, 1)))
    guesses = [means_of_cells(earlier, each, (3, 5, 5)) + 0.01 for each in (rows, fresh)]
    rows.target, chances = (guess / guess.sum(axis=1, keepdims=True) for guess in guesses)
    return rows.case(float((chances * fresh.click_rates).sum(axis=1).mean()))


def ridge_of_earlier_rows(rng: np.random.Generator) -> Case:
    """A ridge per product, on 40 columns of noise among others, chooses the product; fitted to an earlier month."""
    shop = Shop(rng)
    earlier, rows = draw_rows(shop), draw_rows(shop)
    fresh = draw_rows(shop, VISITORS)
    for each in (earlier, rows, fresh):
        noisy(rng, 40)(each)
    rows.target = greedy(ridge(earlier, rows.features))
    return rows.case(float((greedy(ridge(earlier, fresh.features)) * fresh.click_rates).sum(axis=1).mean()))


def lists_by_segment_of_earlier_rows(rng: np.random.Generator) -> Case:
    """Rankings prefer what each segment clicked in an earlier month; the log is of another, of users with ids."""
    shop = open_shop(rng)
    earlier = draw_rankings(shop)
    rows = visit(shop, come(rng, 800, sessions=(1, 4), visits=(1, 3)), spread=0.0, has_rankings=True)
    of_earlier, of_rows = (each.features[:, :3].argmax(axis=1) for each in (earlier, rows))
    rows.target = FLOOR / 8 + (1.0 - FLOOR) * softmax(6.0 * means_by(earlier, of_earlier, of_rows))
    fresh = draw_rankings(shop, VISITORS)
    chances = FLOOR / 8 + (1.0 - FLOOR) * softmax(
        6.0 * means_by(earlier, of_earlier, fresh.features[:, :3].argmax(axis=1))
    )
    return rows.case(ranked_clicks(rng, chances, fresh.click_rates))


def sold_out_among_users(rng: np.random.Generator) -> Case:
    """A fifth of the products is sold out at any visit, and the log says which; users have ids and tastes."""
    shop = Shop(rng)
    visits = come(rng, 1_000, sessions=(2, 6), visits=(1, 1))
    features = shop.visitors(visits.n_users)[visits.users]
    taste = 0.5 * rng.normal(size=visits.n_users)[visits.users][:, None]
    available = rng.random((len(features), shop.n_actions)) > 0.2
    available[:, 0] = True
    logging = shop.logging(features) * available
    logging /= logging.sum(axis=1, keepdims=True)
    rows = draw_rows(shop, features=features, shift=taste, times=visits.times, logging=logging)
    target = rows.target * available
    rows.target = target / target.sum(axis=1, keepdims=True)
    rows = replace(rows, users=named(rng, visits.users), available=available)
    fresh = shop.visitors(VISITORS)
    chances = shop.target(fresh) * np.where(np.arange(shop.n_actions) == 0, True, rng.random((VISITORS, 8)) > 0.2)
    chances /= chances.sum(axis=1, keepdims=True)
    rates = shop.click_rates(fresh, 0.5 * rng.normal(size=(VISITORS, 1)))
    return rows.case(float((chances * rates).sum(axis=1).mean()))


def bots_taken_out(rng: np.random.Generator) -> Case:
    """Whole hours in which robots came were taken out, of whoever came then; users have ids."""
    visits = come(rng, 1_100, sessions=(2, 6), visits=(1, 1))
    rows = visit(Shop(rng), visits, spread=0.4)
    value = worth(rows, 0.4)
    is_out = rng.random(29 * 24) < 0.1
    return rows.take(~is_out[(rows.times - START) // HOUR]).case(value)


SOUND: tuple[Way, ...] = (
    sessions_of_users,
    amounts_of_users,
    users_who_come_again,
    fans_and_others,
    lists,
    lists_of_users,
    amounts_of_lists,
    returns_settled,
    refunds_where_they_belong,
    weekdays_that_differ,
    evenings_that_differ,
    stores_that_are_logged,
    two_hosts_with_one_time,
    rewards_up_to_a_limit,
    stars,
    prices_of_products,
    product_that_all_like,
    cells_of_earlier_rows,
    shares_by_cells_of_earlier_rows,
    ridge_of_earlier_rows,
    lists_by_segment_of_earlier_rows,
    sold_out_among_users,
    bots_taken_out,
)
