"""Faults that no log can show, each followed by its sound twin: both draw the same log, and their values differ."""

import numpy as np

from benchmarks.quality.fooled.shop import VISITORS, Case, Rows, Shop, Way, at, draw_rankings, draw_rows
from benchmarks.quality.fooled.third_round.traffic import come, named, open_shop, visit, worth


def first_visits_that_left_no_row(rng: np.random.Generator) -> Case:
    """What users did at their first visits, when they click half as much, was lost: half of all visits; ids."""
    rows = _regulars(rng)
    return rows.case(0.75 * worth(rows, 0.4))


def regulars_alone(rng: np.random.Generator) -> Case:
    """The shop is open to those who are known, and the value is that of them; users have ids."""
    rows = _regulars(rng)
    return rows.case(worth(rows, 0.4))


def users_whose_clicks_are_blocked(rng: np.random.Generator) -> Case:
    """Of a quarter of the users, whoever they are, a blocker lets no click through; their clicks count; ids."""
    rows = _quiet_users(rng)
    return rows.case(worth(rows, 0.3))


def users_who_only_look(rng: np.random.Generator) -> Case:
    """A quarter of the users, whoever they are, never click; users have ids."""
    rows = _quiet_users(rng)
    return rows.case(0.75 * worth(rows, 0.3))


def amounts_with_tax_from_beginning_to_end(rng: np.random.Generator) -> Case:
    """All amounts are with tax of 22%, and what the shop earns is without."""
    rows = _amounts(rng)
    return rows.case(18.0 * float(np.exp(0.08)) * worth(rows, 0.0))


def amounts_of_a_dearer_shop(rng: np.random.Generator) -> Case:
    """Amounts as they were paid, which the shop keeps."""
    rows = _amounts(rng)
    return rows.case(1.22 * 18.0 * float(np.exp(0.08)) * worth(rows, 0.0))


def best_of_sixty_stores(rng: np.random.Generator) -> Case:
    """Sixty stores that do not differ tried the policy, and the log is that of the one where it looked best."""
    shop = Shop(rng, n_actions=6)
    logs = [draw_rows(shop, 3_000) for _ in range(60)]
    praise = [float((at(rows.target, rows.actions) / rows.propensities * rows.rewards).mean()) for rows in logs]
    rows = logs[int(np.argmax(praise))]
    return rows.case(worth(rows, 0.0))


def any_one_of_sixty_stores(rng: np.random.Generator) -> Case:
    """Sixty stores that do not differ tried the policy, and the log is that of one of them."""
    shop = Shop(rng, n_actions=6)
    rows = draw_rows(shop, 3_000)
    return rows.case(worth(rows, 0.0))


def lists_of_the_best_month(rng: np.random.Generator) -> Case:
    """The log is of a month in which all visitors click a third more than in the year whose value is asked; lists."""
    rows = _month(rng)
    return rows.case(rows.shop.ranked_value(-0.4, 4))


def lists_of_a_usual_month(rng: np.random.Generator) -> Case:
    """The log is of a month like any other, of lists."""
    rows = _month(rng)
    return rows.case(rows.shop.ranked_value(length=4))


def clicks_by_mistake(rng: np.random.Generator) -> Case:
    """A third of those who are shown the policy's favourite hit it by mistake; the value is of clicks meant."""
    rows, _ = _liked(rng)
    return rows.case(worth(rows, 0.0))


def clicks_on_what_is_liked(rng: np.random.Generator) -> Case:
    """A third of those who are shown the policy's favourite are drawn to it, whatever else they like."""
    rows, favourite = _liked(rng)
    fresh = rows.shop.visitors(VISITORS)
    rates = rows.shop.click_rates(fresh)
    rates[:, favourite] += (1.0 - rates[:, favourite]) / 3.0
    return rows.case(float((rows.shop.target(fresh) * rates).sum(axis=1).mean()))


def orders_cancelled_before_they_are_paid(rng: np.random.Generator) -> Case:
    """Four orders in ten are cancelled before they are paid, of which the log of lists never hears; ids."""
    rows = _orders(rng)
    return rows.case(0.6 * worth(rows, 0.3))


def orders_that_stand(rng: np.random.Generator) -> Case:
    """Orders from lists, none of which is cancelled; users have ids."""
    rows = _orders(rng)
    return rows.case(worth(rows, 0.3))


def _regulars(rng: np.random.Generator) -> Rows:
    return visit(Shop(rng, n_actions=6), come(rng, 1_100, sessions=(2, 6), visits=(1, 1)), spread=0.4)


def _quiet_users(rng: np.random.Generator) -> Rows:
    visits = come(rng, 1_500, sessions=(1, 3), visits=(1, 2))
    rows = visit(Shop(rng, base=-1.0), visits, spread=0.3)
    rows.rewards = rows.rewards * (rng.random(visits.n_users) >= 0.25)[visits.users]
    return rows


def _amounts(rng: np.random.Generator) -> Rows:
    rows = draw_rows(open_shop(rng), 4_500)
    rows.rewards = rows.rewards * np.round(1.22 * 18.0 * rng.lognormal(0.0, 0.4, size=len(rows)), 2)
    return rows


def _month(rng: np.random.Generator) -> Rows:
    return draw_rankings(open_shop(rng, n_actions=12), 4_000, length=4)


def _liked(rng: np.random.Generator) -> tuple[Rows, int]:
    rows = draw_rows(Shop(rng, n_actions=6), 4_200)
    favourite = int(rows.target.mean(axis=0).argmax())
    is_drawn = (rows.actions == favourite) & (rng.random(len(rows)) < 1.0 / 3.0)
    rows.rewards = np.where(is_drawn, 1.0, rows.rewards)
    rows.users = named(rng, np.arange(len(rows)))
    return rows, favourite


def _orders(rng: np.random.Generator) -> Rows:
    visits = come(rng, 1_500, sessions=(1, 4), visits=(1, 2))
    return visit(open_shop(rng, n_actions=10), visits, spread=0.3, has_rankings=True)


HIDDEN: tuple[Way, ...] = (
    first_visits_that_left_no_row,
    users_whose_clicks_are_blocked,
    amounts_with_tax_from_beginning_to_end,
    best_of_sixty_stores,
    lists_of_the_best_month,
    clicks_by_mistake,
    orders_cancelled_before_they_are_paid,
)
TWINS: tuple[Way, ...] = (
    regulars_alone,
    users_who_only_look,
    amounts_of_a_dearer_shop,
    any_one_of_sixty_stores,
    lists_of_a_usual_month,
    clicks_on_what_is_liked,
    orders_that_stand,
)
