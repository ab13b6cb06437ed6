"""Estimate a recommendation world from a log: who visits, what they click, and when that changed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import yaml
from scipy import special

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.click_table import Estimates, design_effect, estimate_clicks
from zoosim.fitting.drift import Change, find_changes
from zoosim.logs.log import Log
from zoosim.off_policy.groups import Groups, group_rows
from zoosim.off_policy.intervals.clusters import Clusters, make_clusters

MOST_SEGMENTS = 12
MOST_PATTERNS = 100
MOST_CATEGORIES = 1_000
CLICKS_A_CLUSTER = 20
MOST_CLUSTERS = 8
MOST_VISITS = 100_000
LEAST_USERS = 1_000
MOST_USERS = 10_000_000
DIGITS = 6


class Cell(NamedTuple):
    """A cell (segment x category) from row `start` on: counts, and the estimated click probability."""

    segment: str
    category: str
    start: int
    rows: int
    clicks: int
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class FittedWorld:
    """A world estimated from a log of `n` rows, and what it rests on.

    `cells` holds the click table, a cell again from where it changed; `mix` the segments' shares of the visits, `sizes`
    how many products each category has. `selected` names the cells in which weighting by propensity moves the click
    rate by more than chance: there the logging policy chose by something that segments and categories do not tell.
    `skipped` counts the invalid rows of the log that were left out, by reason.
    """

    n: int
    n_clusters: int
    source: str
    segments: Groups
    categories: Groups
    segment_names: tuple[str, ...]
    category_names: tuple[str, ...]
    cells: tuple[Cell, ...]
    changes: tuple[Change, ...]
    mix: tuple[float, ...]
    sizes: tuple[int, ...]
    n_users: int
    effect: float
    strength: float
    selected: tuple[tuple[str, str], ...]
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of visits of a run as long as the log, `MOST_VISITS` at most."""
        return min(self.n, MOST_VISITS)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration for `zoosim run --config`; changes are shocks at the same share of the run."""
        env: dict[str, Any] = {
            "n_products": sum(self.sizes),
            "n_users": self.n_users,
            "category_sizes": dict(zip(self.category_names, self.sizes, strict=True)),
            "personas": self._table(0),
            "persona_mix": _shares(self.segment_names, self.mix),
            "shocks": [self._shock(number) for number in range(1, len(self.changes) + 1)],
        }
        return {"env": env, "run": {"steps": self.steps}}

    def to_yaml(self) -> str:
        """Write the configuration as YAML, with a line on where it comes from."""
        source = " ".join(self.source.split())
        head = f"# Estimated from {self.n:,} rows of {source}. Run it: zoosim run gauntlet --config FILE\n"
        return head + yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True, width=120)

    def _table(self, start: int) -> dict[str, dict[str, float]]:
        table: dict[str, dict[str, float]] = {}
        for cell in self.cells:
            if cell.start == start:
                table.setdefault(cell.segment, {})[cell.category] = round(cell.estimate, DIGITS)
        return table

    def _shock(self, number: int) -> dict[str, Any]:
        row = self.changes[number - 1].row
        step = max(number, math.floor(row * self.steps / self.n))
        return {"step": step, "name": f"change {number}", "set": self._table(row)}

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return {
            "schema_version": 1,
            "log": self.source,
            "rows": self.n,
            "clusters": self.n_clusters,
            "skipped": dict(self.skipped),
            "segments": self.segments.how,
            "categories": self.categories.how,
            "design_effect": self.effect,
            "prior_rows": self.strength,
            "changes": [change.row for change in self.changes],
            "selected": [list(names) for names in self.selected],
            "cells": [cell._asdict() for cell in self.cells],
        }


def fit_world(log: Log, *, segments: int | None = None, categories: int | None = None) -> FittedWorld:
    """Estimate a recommendation world from a log: segments, categories, click probabilities, and when they changed.

    Within a cell (segment x category) rows are not weighted by propensity: visitors and products of a cell are taken to
    be alike, and which category was shown depends on the segment.

    Args:
        log: Rows with rewards of 0 or 1; taken in order of time where the log has times.
        segments: The most segments, which are patterns or clusters of the visitors' features.
        categories: The most categories: those of the catalogue, else clusters of product features, else the products.

    Raises:
        ConfigError: `segments` or `categories` is below 1.
        DataError: A reward is not a click, or nothing tells the categories of many products.
    """
    _check(log, segments, categories)
    log = log.in_order()
    visitors, products, category_names = _groups(log, segments, categories)
    segment_names = tuple(f"segment {number}" for number in range(1, visitors.n_groups + 1))
    cells = visitors.labels * products.n_groups + products.labels[log.actions]
    n_cells = visitors.n_groups * products.n_groups
    clusters = make_clusters(len(log), log.user_ids, max_groups=len(log))
    effect = design_effect(clusters, cells, log.rewards, n_cells)
    changes = find_changes(cells, log.rewards, n_cells, effect)
    units = _units(changes, n_cells)
    rows, clicks = _counts(units, cells, log.rewards, len(log))
    estimates = estimate_clicks(rows / effect, clicks / effect)
    return FittedWorld(
        n=len(log),
        n_clusters=clusters.n_clusters,
        source=log.source,
        segments=visitors,
        categories=products,
        segment_names=segment_names,
        category_names=category_names,
        cells=_cells(units, rows, clicks, estimates, segment_names, category_names),
        changes=tuple(changes),
        mix=tuple((np.bincount(visitors.labels, minlength=visitors.n_groups) / len(log)).tolist()),
        sizes=tuple(np.bincount(products.labels, minlength=products.n_groups).tolist()),
        n_users=_n_users(log, clusters),
        effect=effect,
        strength=estimates.strength,
        selected=_selected(log, cells, n_cells, effect, segment_names, category_names),
        skipped=dict(log.skipped),
    )


def _check(log: Log, segments: int | None, categories: int | None) -> None:
    for name, value in (("segments", segments), ("categories", categories)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{name}: got {value!r}, expected a whole number of at least 1")
    wrong = (log.rewards != 0.0) & (log.rewards != 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        got = f"row {row}, column reward: got {log.rewards[row]:g}"
        raise DataError(f"{log.source}: {got}, expected clicks, 0 or 1: a recommendation world knows no other rewards")


def _groups(log: Log, segments: int | None, categories: int | None) -> tuple[Groups, Groups, tuple[str, ...]]:
    """Return segments of rows, categories of products, and the categories' names."""
    enough = int(np.clip(log.rewards.sum() // CLICKS_A_CLUSTER, 2, MOST_CLUSTERS))
    groups = group_rows(log.features, segments or MOST_SEGMENTS, min(segments or enough, enough))
    products, names = _product_groups(log, categories, enough)
    return groups, products, names


def _product_groups(log: Log, categories: int | None, enough: int) -> tuple[Groups, tuple[str, ...]]:
    names = sorted(set(log.categories))
    max_categories = categories or MOST_CATEGORIES
    if 0 < len(names) <= max_categories:
        return _named(np.searchsorted(names, log.categories), len(names), "the catalogue's"), tuple(names)
    if log.products.shape[1]:
        groups = group_rows(log.products, min(max_categories, MOST_PATTERNS), categories or enough)
    elif log.n_actions <= max_categories:
        groups = _named(np.arange(log.n_actions), log.n_actions, "each product its own")
    else:
        advice = "describe them in the catalogue beside the log, by category or by features"
        raise DataError(
            f"{log.source}: {log.n_actions:,} products, and nothing tells categories of {max_categories:,}; {advice}"
        )
    return groups, tuple(f"category {number}" for number in range(1, groups.n_groups + 1))


def _named(labels: IntArray, count: int, how: str) -> Groups:
    return Groups(labels, np.zeros((count, 0)), np.zeros(0), how)


class _Unit(NamedTuple):
    """A cell between two of its changes: from row `start` to row `stop`, or to the end of the log."""

    cell: int
    start: int
    stop: int | None


def _units(changes: Sequence[Change], n_cells: int) -> list[_Unit]:
    units = []
    for cell in range(n_cells):
        times = [0, *(change.row for change in changes if cell in change.cells)]
        units += [_Unit(cell, *span) for span in zip(times, [*times[1:], None], strict=True)]
    return units


def _counts(units: Sequence[_Unit], cells: IntArray, rewards: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Count rows and clicks of each unit."""
    epochs = sorted({unit.start for unit in units})
    n_cells = max(unit.cell for unit in units) + 1
    epoch = np.searchsorted(epochs, np.arange(n), side="right") - 1
    cell_epoch = cells * len(epochs) + epoch
    tables = (np.bincount(cell_epoch, values, n_cells * len(epochs)) for values in (None, rewards))
    rows, clicks = (table.reshape(n_cells, len(epochs)).astype(float) for table in tables)
    spans = [(u.cell, epochs.index(u.start), len(epochs) if u.stop is None else epochs.index(u.stop)) for u in units]
    first, second = ([float(table[c, a:b].sum()) for c, a, b in spans] for table in (rows, clicks))
    return np.array(first), np.array(second)


def _cells(
    units: Sequence[_Unit],
    rows: FloatArray,
    clicks: FloatArray,
    estimates: Estimates,
    segments: Sequence[str],
    categories: Sequence[str],
) -> tuple[Cell, ...]:
    cells = []
    for i, unit in enumerate(units):
        segment, category = divmod(unit.cell, len(categories))
        figures = (float(estimates.clicks[i]), float(estimates.low[i]), float(estimates.high[i]))
        counts = (unit.start, int(rows[i]), int(clicks[i]))
        cells.append(Cell(segments[segment], categories[category], *counts, *figures))
    return tuple(cells)


def _n_users(log: Log, clusters: Clusters) -> int:
    return LEAST_USERS if log.user_ids is None else int(np.clip(clusters.n_clusters, LEAST_USERS, MOST_USERS))


def _selected(
    log: Log, cells: IntArray, n_cells: int, effect: float, segments: Sequence[str], categories: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Name the cells whose rate moves by more than chance when rows weigh 1 / propensity (in the way of Hausman 1978).

    If a cell's visitors and products are alike, both rates estimate the same. A log without propensities names none.
    """
    if not log.has_propensities:
        return ()
    weights = 1.0 / log.propensities
    rows = np.bincount(cells, minlength=n_cells).clip(1)
    total = np.bincount(cells, weights, n_cells)
    rates = np.bincount(cells, log.rewards, n_cells) / rows
    share = weights / total[cells] - 1.0 / rows[cells]
    moved = np.bincount(cells, share * log.rewards, n_cells)
    error = np.sqrt(effect * rates * (1 - rates) * np.bincount(cells, share**2, n_cells))
    limit = -float(special.ndtri(0.005 / n_cells))
    flagged = np.flatnonzero(np.abs(moved) > limit * error + 1e-9)
    return tuple((segments[int(cell) // len(categories)], categories[int(cell) % len(categories)]) for cell in flagged)


def _shares(names: Sequence[str], mix: Sequence[float]) -> Mapping[str, float]:
    """Round shares so that they still add up to 1."""
    rounded = [round(share, DIGITS) for share in mix]
    largest = int(np.argmax(rounded))
    rounded[largest] = round(rounded[largest] + 1.0 - sum(rounded), DIGITS)
    return dict(zip(names, rounded, strict=True))
