"""Estimate a shop from a log: who comes, what they respond to, what that is worth, and when it changed."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import codes_of
from zoosim.core.durations import DAY, HOUR
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import unknown
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.fitting.drift import ClickChange, design_effect, find_changes
from zoosim.fitting.features import Features, model_features
from zoosim.fitting.sizes import fit_sizes
from zoosim.logs.log import Log
from zoosim.models.glm import FittedGLM, Response, fit_glm
from zoosim.models.row_effects import Family, RowEffects
from zoosim.off_policy.groups import Groups, group_rows
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.worlds.fitted.shop import FittedShop, ResponseChange, VisitorEffects

DRAWS = 200
MOST_ROWS = 200_000
MOST_STEPS = 100_000
MOST_SEGMENTS = 12
MOST_CLUSTERS = 8
CLICKS_A_CLUSTER = 20
LEAST_RESPONSES = 10
HOURS = 24
CHANGED = 1.0
"""Variance of what a change, which was found beyond chance, adds to logits."""

OBJECTIVE = "reward"
"""The column of a log that holds what policies learn: the weighted sum of its rewards."""


class FittedModels(NamedTuple):
    """The models of a log in order of time, and what they need of other rows.

    `hours` and `days` are what these add to logits; of days by their number.
    """

    shop: FittedShop
    clicks: FittedGLM
    features: Features
    segments: Groups
    hours: FloatArray
    days: dict[int, float]


class _Kinds(NamedTuple):
    """The effects that rows share: of visitors, of their tastes, of hours, of days, and of each change."""

    families: tuple[Family, ...]
    users: IntArray
    taste_keys: IntArray
    days: IntArray


def with_reward(log: Log, reward: str | None) -> Log:
    """Return a log whose rewards are those of a column, by default as they are; raises `ConfigError`."""
    if reward is None or reward == OBJECTIVE:
        return log
    if reward not in log.columns:
        raise ConfigError(unknown(f"{log.source}: no reward", reward, [OBJECTIVE, *log.columns]))
    return replace(log, rewards=log.columns[reward])


def fit_shop(
    log: Log, *, reward: str = OBJECTIVE, seed: int = 0, progress: Progress = lambda line: None
) -> FittedModels:
    """Estimate a shop from a log of products.

    Args:
        log: Any rewards; what is not 0 is a response. Taken in order of time where the log has times.
        reward: What the rewards are called.
        seed: Of the draws from the posterior.
        progress: Called with lines about how far it is.

    Raises:
        DataError: the log has too few responses.
    """
    log = log.in_order()
    responses = (log.rewards != 0.0).astype(float)
    _check(log, responses)
    features = model_features(log)
    segments = _segments(log, responses)
    # Before the fit, in which each change has effects of its own beside those of all rows.
    changes = _found_changes(log, responses, features, segments)
    kinds = _kinds(log, features, segments, changes)
    x = features.represent(log.features)
    progress(f"fitting responses: {len(log):,} rows of {log.n_actions:,} products")
    clicks = fit_glm(Response.CLICKS, x, log.actions, responses, features.design, kinds.families)
    progress("drawing shops that the log allows")
    drawn = clicks.draw(DRAWS, rng=stream(seed, "coefficients"))
    responded = responses > 0.0
    rng = stream(seed, "sizes")
    arguments = (x[responded], log.actions[responded], log.rewards[responded])
    sizes = fit_sizes(*arguments, features.design, DRAWS, rng=rng)
    # In the order in which `_kinds` lists the families.
    visitors, tastes, hours, days, *of_changes = clicks.effects
    shop = FittedShop(
        features=log.features,
        users=kinds.users,
        levels=_level_of_rows(kinds, hours, days),
        segments=segments.labels,
        centre=features.centre,
        mixing=features.mixing,
        coefficients=drawn.astype(np.float32),
        visitors=_tastes(np.arange(len(visitors.mean)), visitors),
        tastes=_tastes(kinds.taste_keys, tastes),
        sizes=sizes,
        changes=_change_tables(changes, of_changes, segments.n_groups, len(features.category_names)),
        products=log.products,
        product_ids=log.product_ids,
        categories=features.categories,
        category_names=features.category_names,
        names=log.names,
        fitted=log.fitted,
        facts=_facts(log, reward, responses, kinds, clicks.effects, segments),
    )
    of_days = dict(zip(kinds.days.tolist(), days.mean.tolist(), strict=True))
    return FittedModels(shop, clicks, features, segments, hours.mean, of_days)


def _check(log: Log, responses: FloatArray) -> None:
    count = int(responses.sum())
    if count < LEAST_RESPONSES or count == len(log):
        raise DataError(
            f"{log.source}: {count:,} of {len(log):,} rows earned something, expected at least {LEAST_RESPONSES}, and "
            "not all; nothing else tells what visitors respond to"
        )


def _segments(log: Log, responses: FloatArray) -> Groups:
    """Return segments of visitors, by which changes are looked for and the fit is shown; never by responses."""
    # Clusters, where it takes any, of some `CLICKS_A_CLUSTER` responses each on average: fewer would show no change.
    enough = int(np.clip(responses.sum() // CLICKS_A_CLUSTER, 2, MOST_CLUSTERS))
    return group_rows(log.features, MOST_SEGMENTS, enough).named(log.features, log.visitor_features)


def _found_changes(log: Log, responses: FloatArray, features: Features, segments: Groups) -> list[ClickChange]:
    n_categories = len(features.category_names)
    cells = segments.labels * n_categories + features.categories[log.actions]
    n_cells = segments.n_groups * n_categories
    # A group for each user: the squares that the design effect adds up are the fewer, and the noisier, the more users
    # share one.
    clusters = make_clusters(len(log), log.user_ids, max_groups=len(log))
    return find_changes(cells, responses, n_cells, design_effect(clusters, cells, responses, n_cells))


def _kinds(log: Log, features: Features, segments: Groups, changes: list[ClickChange]) -> _Kinds:
    """Return the effects that rows of a log may share."""
    n = len(log)
    n_categories = len(features.category_names)
    # Where nobody is named every visit is a visitor of its own.
    ids = np.arange(n) if log.user_ids is None else log.user_ids
    users = codes_of(ids)
    category = features.categories[log.actions]
    taste_keys, tastes = np.unique(users * n_categories + category, return_inverse=True)
    times = np.zeros(n, np.int64) if log.times is None else log.times
    days, day_of_row = np.unique(times // DAY, return_inverse=True)
    # What visitors have of their own is kept at any estimate above 0, as worlds draw its variance anew from estimate
    # and error; hours and days are kept only where they are shown.
    families = [
        Family(users, int(users.max()) + 1, optional=False),
        Family(tastes.reshape(-1), len(taste_keys), within=0, optional=False),
        Family(times // HOUR % HOURS, HOURS),
        Family(day_of_row.reshape(-1), len(days)),
    ]
    cells = segments.labels * n_categories + category
    for change in changes:
        place = np.full(segments.n_groups * n_categories, -1)
        place[change.cells] = np.arange(len(change.cells))
        # None before the change, nor in the cells that it leaves alone.
        groups = np.where(np.arange(n) >= change.row, place[cells], -1)
        families.append(Family(groups, len(change.cells), optional=False, spread=CHANGED))
    return _Kinds(tuple(families), users, taste_keys, days)


def _tastes(keys: IntArray, effects: RowEffects) -> VisitorEffects:
    spreads = (effects.spread, effects.estimate, effects.error)
    return VisitorEffects(keys, effects.information, effects.target, *spreads)


def _level_of_rows(kinds: _Kinds, hours: RowEffects, days: RowEffects) -> FloatArray:
    _, _, of_hour, of_day, *_ = kinds.families
    return of_hour.of_rows(hours.mean) + of_day.of_rows(days.mean)


def _change_tables(
    changes: list[ClickChange], effects: list[RowEffects], n_segments: int, n_categories: int
) -> tuple[ResponseChange, ...]:
    tables = []
    for change, of_change in zip(changes, effects, strict=True):
        table = np.zeros(n_segments * n_categories)
        table[change.cells] = of_change.mean
        tables.append(ResponseChange(change.row, table.reshape(n_segments, n_categories)))
    return tuple(tables)


def _facts(
    log: Log,
    reward: str,
    responses: FloatArray,
    kinds: _Kinds,
    effects: tuple[RowEffects, ...],
    segments: Groups,
) -> dict[str, object]:
    """Say what a world rests on."""
    names = ("visitors", "tastes", "hours", "days")
    return {
        "log": log.source,
        "rows": len(log),
        "visitors": int(kinds.users.max()) + 1,
        "reward": reward,
        "responses": int(responses.sum()),
        "mean_reward": float(log.rewards.mean()),
        "steps": min(len(log), MOST_STEPS),
        "skipped": dict(log.skipped),
        "segments": segments.names,
        "segments_how": segments.how,
        "spreads": {name: [of.estimate, of.error] for name, of in zip(names, effects, strict=False)},
    }
