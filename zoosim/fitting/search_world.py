"""A search world estimated from a log of searches: its tables, its behaviour, and how well they tell later searches."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.config import read_config
from zoosim.core.errors import DataError
from zoosim.core.search_config import SearchConfig
from zoosim.core.statistics import Interval, mean_interval
from zoosim.core.tables import Table
from zoosim.core.tabular import TabularResult
from zoosim.core.types import IntArray, Progress
from zoosim.fitting.price_response import price_responses
from zoosim.fitting.search_behaviour import FittedBehaviour, fit_behaviour
from zoosim.fitting.search_checks import EarningsCheck, LaterSearches, PartCheck, PositionCheck, check_searches
from zoosim.fitting.search_design import (
    effect_of_products,
    estimate_tastes,
    search_design,
    searches_of,
    shop_sizes,
    worth_of_purchases,
)
from zoosim.fitting.search_tables import shop_env, shop_tables, write_world
from zoosim.logs.log import Log
from zoosim.worlds.search.economics import absurd_economics
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.template_arms import earnings, reward_of
from zoosim.worlds.search.world import build_search_world

LATER = 0.25
"""The share of the searches, the latest, that the fit is checked on."""

MOST_SEARCHES = 20_000
"""The searches, the latest, that behaviour is estimated from: with more, errors are small and time is long."""

LEAST_SEARCHES = 200
LEAST_USERS = 1_000
MOST_USERS = 1_000_000
NAMED = 3
"""Parts that do not fit which a sentence names."""

VISITS = 2_000
"""Visits to the fitted world under each template."""


@dataclass(frozen=True, repr=False)
class FittedSearchWorld(TabularResult):
    """A search world estimated from `n` searches of the log called `source`, of which `used` told of behaviour.

    `checks`, by position, `earned` and `parts` are on the latest quarter of the searches, by a fit to the others.
    `price_responses` are the relative changes of each segment's clicks on a product whose price is 10% higher, by an
    estimate of its own, which does not assume that the world fits.
    `templates` are the rewards of a visit to the fitted world under each template.
    """

    n: int
    used: int
    source: str
    segments: tuple[str, ...]
    query_types: tuple[str, ...]
    categories: tuple[str, ...]
    products: tuple[str, ...]
    behaviour: FittedBehaviour
    price_responses: tuple[Interval, ...]
    checks: tuple[PositionCheck, ...]
    earned: EarningsCheck
    parts: tuple[PartCheck, ...]
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    env: Mapping[str, Any] = field(repr=False)
    templates: Mapping[str, Interval] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @cached_property
    def estimates(self) -> pl.DataFrame:
        """The estimates, one row per number, `of` a segment, category, product, or query type and position."""
        rows = []
        for name, values in self.behaviour.estimates._asdict().items():
            errors = np.asarray(getattr(self.behaviour.errors, name))
            for place, value in np.ndenumerate(np.asarray(values)):
                rows.append((name, self._of(name, place), float(value), float(errors[place])))
        return pl.DataFrame(rows, schema=["parameter", "of", "estimate", "error"], orient="row")

    def _of(self, name: str, place: tuple[int, ...]) -> str:
        if name == "bias":
            return f"{self.query_types[place[0]]}, position {place[1] + 1}"
        if name == "segment_category":
            return f"{self.segments[place[0]]}, {self.categories[place[1]]}"
        names = {"query_type": self.query_types, "product": self.products}.get(name, self.segments)
        return names[place[0]] if place else ""

    @property
    def deviating(self) -> tuple[PartCheck, ...]:
        """The parts of the later searches about whose clicks the fit is wrong beyond chance, the worst first."""
        return tuple(sorted((part for part in self.parts if part.deviates), key=lambda part: part.p))

    @property
    def fit_sentence(self) -> str:
        """A sentence on the parts of the later searches that the fit is wrong about."""
        kinds = "by position, segment, type of query and price"
        whole = f"{len(self.parts)} parts of the later searches ({kinds})"
        if not self.deviating:
            return f"None of {whole} has clicks that differ from the fit's beyond chance."
        worst = "; ".join(
            f"{part.kind} {part.name}: {part.clicks:,} clicks, {part.expected:,.0f} expected"
            for part in self.deviating[:NAMED]
        )
        more = f"; and {len(self.deviating) - NAMED} more" if len(self.deviating) > NAMED else ""
        return f"{len(self.deviating)} of {whole} do not fit, beyond chance: {worst}{more}."

    def to_polars(self) -> pl.DataFrame:
        """Return `estimates`, a row per number."""
        return self.estimates

    def _headline(self) -> str:
        return f"Search world fitted to {self.n:,} searches of {self.source}"

    def _tables(self) -> list[Table]:
        from zoosim.fitting.tables import positions_table

        return [positions_table(self)]

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        responses = zip(self.segments, self.price_responses, strict=True)
        return {
            "schema_version": 2,
            "log": self.source,
            "searches": self.n,
            "used": self.used,
            "log_likelihood": self.behaviour.log_likelihood,
            "price_10_percent_higher": {name: response._asdict() for name, response in responses},
            "estimates": self.estimates.to_dicts(),
            "standard_deviations": self.behaviour.sds,
            "checks": [check._asdict() for check in self.checks],
            "parts": [part._asdict() for part in self.parts],
            "earned": {
                "logged": self.earned.logged._asdict(),
                "fitted": self.earned.fitted,
                "agrees": self.earned.equivalence.agrees,
            },
            "templates": {name: value._asdict() for name, value in self.templates.items()},
            "warnings": list(self.warnings),
        }

    def write(self, folder: Path) -> Path:
        """Write the tables and `world.yaml`, which `zoosim run --config` takes; return its path."""
        return write_world(folder, self.tables, self.env, f"{self.n:,} searches of {' '.join(self.source.split())}")


def fit_search_world(log: Log, folder: Path, *, progress: Progress = lambda line: None) -> FittedSearchWorld:
    """Estimate a search world from a log of searches, and write it to a folder.

    The catalogue is the log's; queries are typed as often as in the log; a candidate's base score is its mean over the
    searches of a query.

    Args:
        log: Searches, in any order; taken in order of time where the log has times.
        folder: Gets `catalogue.parquet`, `queries.parquet`, `scores.parquet` and `world.yaml`.
        progress: Called with lines about how far it is.

    Raises:
        DataError: the log holds no searches, or too few, or none with a click.
    """
    log = log.in_order()
    searches = searches_of(log)
    if len(log) < LEAST_SEARCHES:
        raise DataError(f"{log.source}: {len(log):,} searches, expected {LEAST_SEARCHES} at least to fit a world to")
    # Of all searches, those that checks hold out, too: what is searched for is known before anything is shown or
    # clicked.
    tastes = estimate_tastes(log)
    design = search_design(log, tastes)
    first = max(0, len(log) - MOST_SEARCHES)
    design = design.rows(slice(first, None))
    if not design.clicks.any():
        raise DataError(
            f"{log.source}: none of the latest {len(design.clicks):,} searches has a click, so nothing can be told of "
            "what people like; check the logging of clicks, or give a log that ends before"
        )
    schema = searches.requests.schema
    sizes = shop_sizes(searches)
    used = len(design.segment)
    cut = int((1.0 - LATER) * used)
    earlier = fit_behaviour(design.rows(slice(None, cut)), sizes, progress=progress)
    users = _users(log)
    # `design` begins at search `first`; the arrays of the whole log do not.
    later = LaterSearches(
        cut,
        design.rows(slice(cut, None)),
        worth_of_purchases(searches)[first + cut :],
        schema.reward.clicks,
        users[first + cut :],
        tuple(schema.segments),
        tuple(schema.query_types),
    )
    checks = check_searches(earlier, later)
    # Checks are of a fit to the earlier searches; the world itself is made of all.
    behaviour = fit_behaviour(design, sizes, start=earlier, progress=progress)
    progress("estimating what a price does to clicks")
    n_users = int(np.clip(len(np.unique(users)), LEAST_USERS, MOST_USERS))
    world = FittedSearchWorld(
        n=len(log),
        used=used,
        source=log.source,
        segments=tuple(schema.segments),
        query_types=tuple(schema.query_types),
        categories=tuple(schema.categories),
        products=_names_of_effects(searches.requests.names, effect_of_products(searches)),
        behaviour=behaviour,
        price_responses=price_responses(design, sizes, users[first:]),
        checks=checks.positions,
        earned=checks.earned,
        parts=checks.parts,
        tables=shop_tables(searches, behaviour.estimates),
        env=shop_env(searches, tastes, behaviour.estimates, n_users),
    )
    path = world.write(folder)
    # Read back, so that templates are tried in the world that runs will read, its rounding included.
    config = read_search_config(read_config(path)["env"])
    return replace(world, templates=_template_rewards(config), warnings=absurd_economics(config))


def _users(log: Log) -> IntArray:
    return np.arange(len(log)) if log.user_ids is None else np.asarray(log.user_ids)


def _names_of_effects(names: tuple[str, ...], effect: IntArray) -> tuple[str, ...]:
    """Return what effects of products are called: the products, and those that share an effect."""
    named = ["all other products"] * (int(effect.max()) + 1)
    counts = np.bincount(effect)
    for name, number in zip(names, effect, strict=True):
        if counts[number] == 1:
            named[number] = name
    return tuple(named)


def _template_rewards(config: SearchConfig) -> dict[str, Interval]:
    """Return what visits of seed 0 earn under each template."""
    rewards = reward_of(config, earnings(SearchShop(build_search_world(config, seed=0)), 0, VISITS))
    return {name: mean_interval(column) for name, column in zip(config.templates, rewards.T, strict=True)}
