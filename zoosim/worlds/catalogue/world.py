"""The world of many products: each has appeal and tastes of its own, so that it matters which of them are looked at."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from zoosim.core.digests import short_digest
from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream, stream_key, uniform
from zoosim.core.types import BoolArray, Context, Float32Array, FloatArray, IntArray, PolicySpec, frozen
from zoosim.worlds.base import Outcome, ProductList, Truth, World
from zoosim.worlds.catalogue.config import CatalogueConfig
from zoosim.worlds.catalogue.products import (
    Products,
    draw_available,
    draw_products,
    draw_tastes,
    find_best,
    inner_product,
)
from zoosim.worlds.facts import CLICKS, Change, changes_of


class CatalogueVisit(NamedTuple):
    """A visit: its number, the user who comes, and that user's tastes `(n_tastes,)`."""

    step: int
    user: int
    tastes: FloatArray


class Offer(NamedTuple):
    """What is there from some visit on: views of the first products, which of them are in stock, and what moved tastes.

    `ids (K,)`, `features (K, d)`, `effects (K, d)`, `categories (K,)`, `available (K,)`, `moved (n_tastes,)`.
    """

    ids: IntArray
    features: Float32Array
    effects: Float32Array
    categories: np.ndarray
    available: BoolArray
    moved: FloatArray


class Catalogue(World):
    """A shop of up to millions of products, whose visitors see one product each, and click by their own tastes.

    Visitors' features are their tastes; products' features are their tastes and appeal, but for a hidden part. What
    all contexts of a time hold of the products are views of the same arrays, in 32 bits: a product takes 8 bytes for
    each of its features, and some 20 more. Beside the fields of every context there is `categories (K,)`, by number.
    """

    name = "catalogue"
    parameter_record = CatalogueConfig
    reward_scale = CLICKS

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Note the parameters; products are drawn when the first visitor comes.

        Args:
            seed: The world's seed.
            steps: Visits of a run.
            **params: The fields of `CatalogueConfig`.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(seed, steps, **params)
        self._visit_key = stream_key(seed, "catalogue", "visits")
        self._taste_key = stream_key(seed, "catalogue", "tastes")
        self._click_key = stream_key(seed, "catalogue", "clicks")
        self._offers: dict[int, Offer] = {}
        self._best: tuple[int, dict[int, tuple[int, float]]] = (-1, {})

    @classmethod
    def read_parameters(
        cls, values: Mapping[str, Any], changes: Sequence[Any], steps: int, *, finished: bool
    ) -> tuple[CatalogueConfig, tuple[str, ...]]:
        """Check the parameters of a run, and take the experiment's shocks where none are given."""
        notes: tuple[str, ...] = ()
        if "shocks" not in values:
            values, notes = cls.with_changes(values, "shocks", changes, steps)
        config: CatalogueConfig = cls.checked_parameters(values)
        late = [shock for shock in config.shocks if shock.step >= steps]
        if late:
            raise ConfigError(
                f"env.shocks: {late[0].name!r} is at step {late[0].step}, beyond the run of {steps} steps"
            )
        return config, notes

    @property
    def config(self) -> CatalogueConfig:
        """The parameters."""
        config: CatalogueConfig = self._checked
        return config

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The shocks, and the arrivals at other times, after which a run tells how fast policies recover."""
        shocks = changes_of(self.config.shocks)
        taken = {shock.step for shock in shocks}
        steps = sorted({arrival.step for arrival in self.config.arrivals} - taken)
        arrivals = [Change(step, f"new products {number}") for number, step in enumerate(steps, start=1)]
        return tuple(sorted([*shocks, *(arrival for arrival in arrivals if arrival.step < self.steps)]))

    def spec(self, steps: int) -> PolicySpec:
        """Return the dimensions: a visitor's tastes; a product's tastes and appeal."""
        n_tastes = self.config.n_tastes
        return PolicySpec(user_dim=n_tastes, product_dim=n_tastes + 1, n_users=self.config.n_users, steps=steps)

    @cached_property
    def products(self) -> Products:
        """All products that there ever are."""
        return draw_products(self.config, self.seed)

    @cached_property
    def _ids(self) -> IntArray:
        return frozen(np.arange(len(self.products.categories)))

    @cached_property
    def _starts(self) -> list[int]:
        """The visits at which something changes, the first of all included."""
        config = self.config
        changes = [shock.step for shock in config.shocks]
        changes += [arrival.step for arrival in config.arrivals]
        changes += [run_out.step for run_out in config.run_outs]
        ends = [run_out.until for run_out in config.run_outs if run_out.until is not None]
        return sorted({0, *changes, *ends})

    def offer(self, step: int) -> Offer:
        """Return what is there at a visit; visits between two changes share it."""
        start = self._starts[bisect_right(self._starts, step) - 1]
        if start not in self._offers:
            self._offers[start] = self._offer_from(start)
        return self._offers[start]

    def _offer_from(self, start: int) -> Offer:
        count = self._n_products(start)
        products = self.products
        lasting = [
            (number, run_out)
            for number, run_out in enumerate(self.config.run_outs)
            if run_out.step <= start and (run_out.until is None or start < run_out.until)
        ]
        keys = np.array([stream_key(self.seed, "run-out", str(number)) for number, _ in lasting], np.uint64)
        shares = np.array([run_out.share for _, run_out in lasting], np.float64)
        counts = np.array([self._n_products(run_out.step) for _, run_out in lasting], np.int64)
        available = draw_available(keys, shares, counts, count)
        if not available.any():
            raise ConfigError(f"env.run_outs: nothing is in stock from visit {start} on; lower a share")
        return Offer(
            self._ids[:count],
            products.features[:count],
            products.effects[:count],
            products.categories[:count],
            frozen(available.copy()),  # of numpy's own memory, so that policies know that it cannot change
            self._moved_tastes(start),
        )

    def _n_products(self, step: int) -> int:
        """Return how many products have arrived by a visit."""
        config = self.config
        return config.n_products + sum(config.n_arriving(each) for each in config.arrivals if each.step <= step)

    def _moved_tastes(self, step: int) -> FloatArray:
        """Return the vector by which the latest shock moved all tastes `(n_tastes,)`."""
        past = [shock for shock in self.config.shocks if shock.step <= step]
        if not past:
            return np.zeros(self.config.n_tastes)
        latest = max(past, key=lambda shock: shock.step)
        return stream(self.seed, "taste shock", latest.name).normal(0.0, latest.size, self.config.n_tastes)

    def arrive(self, step: int) -> CatalogueVisit:
        """Return visit number `step`."""
        user = int(uniform(self._visit_key, step, 0) * self.config.n_users)
        return CatalogueVisit(step, user, frozen(draw_tastes(self._taste_key, user, self.config.n_tastes)))

    def context(self, visit: CatalogueVisit) -> Context:
        """Return the visitor's tastes and all products that have arrived."""
        offer = self.offer(visit.step)
        return Context(
            user_id=visit.user,
            user=visit.tastes,
            product_ids=offer.ids,
            products=offer.features,
            available=offer.available,
            categories=offer.categories,
        )

    def serve(self, visit: CatalogueVisit, action: int) -> Outcome:
        """Return the click on a product, by common random numbers of the seed, the visit and the product."""
        chance = self._chance(visit, action)
        product = self.offer(visit.step).ids[action]
        clicks = uniform(self._click_key, visit.step, int(product)) < chance
        return Outcome(float(clicks), {"shown": self._ids[[product]], "clicks": np.array([clicks])})

    def truth(self, visit: CatalogueVisit) -> Truth:
        """Return the click probability of each product, and the best of all, for which all are looked at."""
        best, largest = self._best_product(visit)
        return Truth(lambda action: self._chance(visit, action), self._chance_of(largest), best)

    def query(self, visit: CatalogueVisit) -> FloatArray:
        """Return the vector whose inner products with products' effects are logits, but for the base `(n_tastes + 1,)`.

        It is the truth, which no policy sees.
        """
        config = self.config
        tastes = visit.tastes + self.offer(visit.step).moved
        return np.append(config.taste / np.sqrt(config.n_tastes) * tastes, config.appeal)

    def _best_product(self, visit: CatalogueVisit) -> tuple[int, float]:
        """Return the best product in stock, and its inner product with the query; kept per user until a change."""
        start = self._starts[bisect_right(self._starts, visit.step) - 1]
        if self._best[0] != start:
            self._best = (start, {})
        known = self._best[1]
        if visit.user not in known:
            offer = self.offer(visit.step)
            known[visit.user] = find_best(offer.effects, self.query(visit), offer.available)
        return known[visit.user]

    def _chance(self, visit: CatalogueVisit, action: int) -> float:
        return self._chance_of(inner_product(self.offer(visit.step).effects, action, self.query(visit)))

    def _chance_of(self, score: float) -> float:
        return float(special.expit(self.config.base + score))

    def all_products(self) -> ProductList:
        """Return all products that there ever are, with the names of their categories."""
        names = [f"category {number}" for number in range(1, int(self.products.categories.max()) + 2)]
        groups = tuple(names[category] for category in self.products.categories)
        features: Any = self.products.features  # in 32 bits
        return ProductList(self._ids, features, groups, version=self._version)

    @cached_property
    def _version(self) -> str:
        return short_digest(str(self.seed), repr(self.run_identity))
