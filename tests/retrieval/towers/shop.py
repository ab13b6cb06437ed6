"""A small shop whose products have tastes that their features show in part, and what it showed to whom."""

from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.retrieval.towers.rows import ShownRows

TASTES = 3


class Shop(NamedTuple):
    """What was shown, and the truth: tastes of visits `(n, 3)` and products `(K, 3)`, and products' biases `(K,)`."""

    rows: ShownRows
    tastes: FloatArray
    effects: FloatArray
    biases: FloatArray

    def log_odds(self, visits: slice) -> FloatArray:
        """Return the true log odds of some visits `(v, K)`."""
        return np.asarray(self.tastes[visits] @ self.effects.T + self.biases)


def draw_shop(seed: int = 0, n: int = 20_000, products: int = 150, *, own: float = 0.7, never: int = 15) -> Shop:
    """Draw a shop that shows all products but the last, `never` shown ones; `own` is what no feature shows of them."""
    rng = np.random.default_rng(seed)
    tastes = rng.normal(size=(n, TASTES))
    seen = rng.normal(size=(products, TASTES))
    effects = seen + own * rng.normal(size=(products, TASTES))
    biases = -2.0 + 0.5 * rng.normal(size=products)
    shown = rng.integers(0, products - never, n)
    log_odds = (tastes * effects[shown]).sum(axis=1) + biases[shown]
    clicked = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(float)
    rows = ShownRows(tastes, seen, np.arange(n), shown, np.zeros(n, np.int64), clicked)
    return Shop(rows, tastes, effects, biases)


def some_rows(rows: ShownRows, chosen: slice) -> ShownRows:
    """Return some of the rows, of the same visits and products."""
    return rows._replace(
        visit=rows.visit[chosen],
        product=rows.product[chosen],
        position=rows.position[chosen],
        clicked=rows.clicked[chosen],
    )
