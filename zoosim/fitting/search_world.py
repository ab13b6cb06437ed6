"""A search world estimated from a log of searches: its tables, its behaviour, and how well they tell later searches."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml

from zoosim.core.config import read_config
from zoosim.core.errors import DataError, one_line
from zoosim.core.files import write_text
from zoosim.core.parquet import write_parquet
from zoosim.core.rng import stream
from zoosim.core.search_config import TEMPLATES, Behaviour, SearchConfig
from zoosim.core.statistics import Interval, mean_interval
from zoosim.core.tables import Table
from zoosim.core.tabular import TabularResult
from zoosim.core.types import FloatArray, Progress
from zoosim.fitting.search_behaviour import BehaviourParameters, FittedBehaviour, fit_behaviour
from zoosim.fitting.search_design import (
    SearchDesign,
    Tastes,
    estimate_tastes,
    query_categories,
    search_design,
    searches_of,
    worth_of_purchases,
)
from zoosim.logs.log import Log
from zoosim.logs.searches import Searches
from zoosim.ranking.product_table import ProductTable
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
DIGITS = 4
VISITS = 2_000
"""Visits to the fitted world under each template."""

REPEATS = 20
"""How often later searches are simulated for the check."""


class PositionCheck(NamedTuple):
    """Clicks and purchases per search at a `position`, from 1: in the log's later searches, and simulated by the fit.

    `click_error` and `purchase_error` are standard errors of the log's figures.
    """

    position: int
    shown: int
    clicks: float
    fitted_clicks: float
    click_error: float
    purchases: float
    fitted_purchases: float
    purchase_error: float


class EarningsCheck(NamedTuple):
    """What clicks and purchases of a search earn on average: in the log's later searches, and simulated by the fit."""

    logged: Interval
    fitted: float

    @property
    def agrees(self) -> bool:
        """Whether the fit lies within the interval of the log."""
        low, high = self.logged.low, self.logged.high
        return low is not None and high is not None and low <= self.fitted <= high


@dataclass(frozen=True, repr=False)
class FittedSearchWorld(TabularResult):
    """A search world estimated from `n` searches of the log called `source`, of which `used` told of behaviour.

    `checks`, by position, and `earned` are on the latest quarter of the searches, by a fit to the others. `templates`
    are the rewards of a visit to the fitted world under each template.
    """

    n: int
    used: int
    source: str
    segments: tuple[str, ...]
    query_types: tuple[str, ...]
    behaviour: FittedBehaviour
    checks: tuple[PositionCheck, ...]
    earned: EarningsCheck
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    env: Mapping[str, Any] = field(repr=False)
    templates: Mapping[str, Interval] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @cached_property
    def estimates(self) -> pl.DataFrame:
        """Return what was estimated, one row per number, `of` a segment, or a query type and position."""
        rows = []
        for name, values in self.behaviour.estimates._asdict().items():
            errors = np.asarray(getattr(self.behaviour.errors, name))
            for place, value in np.ndenumerate(np.asarray(values)):
                rows.append((name, self._of(name, place), float(value), float(errors[place])))
        return pl.DataFrame(rows, schema=["parameter", "of", "estimate", "error"], orient="row")

    def _of(self, name: str, place: tuple[int, ...]) -> str:
        if name == "bias":
            return f"{self.query_types[place[0]]}, position {place[1] + 1}"
        return self.segments[place[0]] if place else ""

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
        """Return all figures as plain values for JSON."""
        return {
            "schema_version": 1,
            "log": self.source,
            "searches": self.n,
            "used": self.used,
            "log_likelihood": self.behaviour.log_likelihood,
            "estimates": self.estimates.to_dicts(),
            "checks": [check._asdict() for check in self.checks],
            "earned": {"logged": self.earned.logged._asdict(), "fitted": self.earned.fitted},
            "templates": {name: value._asdict() for name, value in self.templates.items()},
            "warnings": list(self.warnings),
        }

    def write(self, folder: Path) -> Path:
        """Write the tables and `world.yaml`, which `zoosim run --config` takes; return its path."""
        return _write_world(folder, self.tables, self.env, f"{self.n:,} searches of {' '.join(self.source.split())}")


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
    tastes = estimate_tastes(log)
    design = search_design(log, tastes)
    design = design.rows(slice(max(0, len(log) - MOST_SEARCHES), None))
    schema = searches.requests.schema
    sizes = (len(schema.segments), len(schema.query_types))
    used = len(design.segment)
    cut = int((1.0 - LATER) * used)
    earlier = fit_behaviour(design.rows(slice(None, cut)), *sizes, errors=False, progress=progress)
    worth = worth_of_purchases(searches)[-(used - cut) :]
    checks, earned = _check(earlier.estimates, design.rows(slice(cut, None)), worth, schema.reward.clicks)
    behaviour = fit_behaviour(design, *sizes, start=earlier.estimates, progress=progress)
    n_users = len(log) if log.user_ids is None else len(np.unique(log.user_ids))
    world = FittedSearchWorld(
        n=len(log),
        used=used,
        source=log.source,
        segments=tuple(schema.segments),
        query_types=tuple(schema.query_types),
        behaviour=behaviour,
        checks=checks,
        earned=earned,
        tables=_tables(searches),
        env=_env(searches, tastes, behaviour.estimates, int(np.clip(n_users, LEAST_USERS, MOST_USERS))),
    )
    path = world.write(folder)
    config = read_search_config(read_config(path)["env"])
    return replace(world, templates=_template_rewards(config), warnings=absurd_economics(config))


def _template_rewards(config: SearchConfig) -> dict[str, Interval]:
    """Return what visits of seed 0 earn under each template."""
    rewards = reward_of(config, earnings(SearchShop(build_search_world(config, seed=0)), 0, VISITS))
    return {name: mean_interval(column) for name, column in zip(TEMPLATES, rewards.T, strict=True)}


def _tables(searches: Searches) -> dict[str, pl.DataFrame]:
    """Return the shop's tables as a search world reads them."""
    requests = searches.requests
    schema = requests.schema
    columns = {name: getattr(requests.table, name) for name in ProductTable._fields if name != "category"}
    names = np.array(schema.categories)[requests.table.category]
    catalogue = pl.DataFrame({"id": requests.names, "category": names, **columns}).rename({"label": "private_label"})
    typed = searches.frame.group_by("query", maintain_order=True).agg(
        pl.col("query_type").mode().first().alias("type"), pl.len().cast(pl.Float64).alias("weight")
    )
    categories = query_categories(searches)
    category_names = np.array(schema.categories)[categories["category"].to_numpy()]
    queries = typed.join(categories.with_columns(category=pl.Series(category_names)), on="query", maintain_order="left")
    pairs = searches.frame.select("query", "candidates", "base_scores").explode("candidates", "base_scores")
    by_pair = pairs.group_by("query", "candidates", maintain_order=True)
    scores = by_pair.agg(pl.col("base_scores").mean().alias("score"))
    product_names = pl.Series("product", requests.names)[scores["candidates"].to_numpy()]
    return {
        "catalogue": catalogue,
        "queries": queries,
        "scores": scores.select("query", product_names, "score"),
    }


def _env(searches: Searches, tastes: Tastes, estimates: BehaviourParameters, n_users: int) -> dict[str, Any]:
    """Return the configuration of the world but for its files."""
    schema = searches.requests.schema
    usual = Behaviour()
    counts = searches.frame["segment"].value_counts()
    searched = dict(zip(counts["segment"], counts["count"] / counts["count"].sum(), strict=True))
    types = searches.frame["query_type"].value_counts()
    typed = dict(zip(types["query_type"], types["count"] / types["count"].sum(), strict=True))
    strategic = searches.requests.table.strategic
    in_category = searches.requests.table.category
    segments = {
        name: {
            "share": share,
            "price_taste_mean": _rounded(estimates.price[number] / usual.price),
            "price_taste_sd": _rounded(estimates.price_sd / usual.price),
            "label_taste_mean": _rounded(estimates.label[number] / usual.private_label),
            "category_tastes": {
                category: _rounded(value)
                for category, value in zip(schema.categories, tastes.concentrations[number], strict=True)
            },
        }
        for number, (name, share) in enumerate(_shares(schema.segments, searched).items())
    }
    query_types = {
        name: {
            "share": share,
            "specificity": schema.query_types[name],
            "bias": [_rounded(value) for value in estimates.bias[number]],
        }
        for number, (name, share) in enumerate(_shares(list(schema.query_types), typed).items())
    }
    counts_of = np.bincount(in_category, minlength=len(schema.categories)) / len(in_category)
    products = _shares(schema.categories, dict(zip(schema.categories, counts_of.tolist(), strict=True)))
    categories = {
        name: {"share": share, "strategic": bool(strategic[in_category == number].any())}
        for number, (name, share) in enumerate(products.items())
    }
    shared = (
        "examine_satisfaction",
        "intercept",
        "score",
        "category",
        "purchase_slope",
        "purchase_bias",
        "purchase_price",
    )
    return {
        "n_users": n_users,
        "k": schema.k,
        "a_max": schema.a_max,
        "context": schema.context,
        "categories": categories,
        "segments": segments,
        "query_types": query_types,
        "behaviour": {"cosine": 0.0, **{name: _rounded(getattr(estimates, name)) for name in shared}},
        "reward": schema.reward.model_dump(),
    }


def _shares(names: list[str], shares: Mapping[str, float]) -> dict[str, float]:
    """Return rounded shares of all names that add up to 1."""
    rounded = {name: _rounded(shares.get(name, 0.0)) for name in names}
    largest = max(rounded, key=lambda name: rounded[name])
    rounded[largest] = round(1.0 - sum(share for name, share in rounded.items() if name != largest), DIGITS)
    return rounded


def _rounded(value: Any) -> float:
    return round(float(value), DIGITS)


def _write_world(folder: Path, tables: Mapping[str, pl.DataFrame], env: Mapping[str, Any], source: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = {}  # by paths from the folder on, so that it can be moved
    for name, frame in tables.items():
        files[f"{name}_file"] = f"{name}.parquet"
        write_parquet(frame, folder / f"{name}.parquet", {})
    head = f"# Estimated from {one_line(source)}. Run it: zoosim run continuous-vs-discrete --config FILE\n"
    text = yaml.safe_dump({"env": {**files, **env}}, sort_keys=False, allow_unicode=True, width=120)
    write_text(folder / "world.yaml", head + text)
    return folder / "world.yaml"


def _check(
    estimates: BehaviourParameters, later: SearchDesign, worth: FloatArray, worth_of_click: float
) -> tuple[tuple[PositionCheck, ...], EarningsCheck]:
    """Compare later searches, clicks and purchases by position and what they earn, with those that the fit simulates.

    `worth (n, L)` is that of a purchase.
    """
    rng = stream(0, "fit-search-world", "check")
    runs = [simulate(estimates, later, rng=rng) for _ in range(REPEATS)]
    clicks, purchases = (np.mean([run[part].mean(axis=0) for run in runs], axis=0) for part in range(2))
    n = len(later.segment)
    errors = [np.sqrt(seen.var(axis=0) / n) for seen in (later.clicks, later.purchases)]
    columns = (later.clicks.mean(axis=0), clicks, errors[0], later.purchases.mean(axis=0), purchases, errors[1])
    shown = later.shown.sum(axis=0).astype(int)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    positions = tuple(PositionCheck(place + 1, int(shown[place]), *row) for place, row in enumerate(rows))
    earned = [
        (worth_of_click * clicked + worth * bought).sum(axis=1)
        for clicked, bought in ((later.clicks, later.purchases), *runs)
    ]
    return positions, EarningsCheck(mean_interval(earned[0]), float(np.mean(earned[1:])))


def simulate(
    estimates: BehaviourParameters, design: SearchDesign, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw clicks and purchases `(n, L)` of the rankings in a design, as a search world would."""
    usual = Behaviour()
    n, length = design.shown.shape
    mean = estimates.intercept + estimates.score * design.score + estimates.category * design.taste
    price = estimates.price[design.segment] + estimates.price_sd * rng.normal(size=n)
    mean = mean + price[:, None] * design.log_price
    utility = (
        mean + estimates.label[design.segment, None] * design.label + usual.utility_sd * rng.normal(size=(n, length))
    )
    odds = estimates.purchase_slope * utility + estimates.purchase_bias + estimates.purchase_price * design.log_price
    draws = rng.random((3, n, length))
    clicks, purchases = np.zeros((2, n, length))
    satisfaction = np.zeros(n)
    present = np.ones(n, bool)
    for place in range(length):
        bias = estimates.bias[design.query_type, min(place, estimates.bias.shape[1] - 1)]
        chance = _sigmoid(bias + estimates.examine_satisfaction * satisfaction)
        present &= (design.shown[:, place] > 0) & (draws[0, :, place] < chance)
        clicked = present & (draws[1, :, place] < _sigmoid(utility[:, place]))
        bought = clicked & (draws[2, :, place] < _sigmoid(odds[:, place]))
        clicks[:, place] = clicked
        purchases[:, place] = bought
        gain = np.where(clicked, usual.click_satisfaction * utility[:, place], usual.skip_satisfaction)
        satisfaction += np.where(present, gain + usual.purchase_satisfaction * bought, 0.0)
        present &= (purchases.sum(axis=1) < usual.max_purchases) & (satisfaction >= usual.leave_below - 1e-9)
    return clicks, purchases


def _sigmoid(x: FloatArray) -> FloatArray:
    chance: FloatArray = 1.0 / (1.0 + np.exp(-x))
    return chance
