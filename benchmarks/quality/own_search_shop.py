"""A shop's own tables and a known truth: texts as ids, categories and query types of its own, and base scores."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

CATEGORIES = ("Wine", "Cheese", "Bread", "Olives", "Coffee & Tea", "Gifts")
TYPES = ("browse", "exact")
SEGMENTS = {
    "savers": {"share": 0.5, "price_taste_mean": -1.0},
    "regulars": {"share": 0.3, "price_taste_mean": -0.5, "label_taste_mean": 0.5},
    "gourmets": {"share": 0.2, "price_taste_mean": 0.4, "label_taste_mean": -0.5},
}
BEHAVIOUR = {"cosine": 0.0, "intercept": -0.3, "score": 0.8, "category": 0.5}


def write_shop(folder: Path, *, products: int = 180, queries: int = 40, seed: int = 0) -> dict[str, Any]:
    """Write catalogue, queries and scores as CSV; return the configuration of a search world with a known truth."""
    rng = np.random.default_rng(seed)
    category = rng.integers(len(CATEGORIES), size=products)
    catalogue = {
        "id": [f"SKU-{n:04}" for n in range(products)],
        "category": [CATEGORIES[c] for c in category],
        "price": np.exp(rng.normal(2.3, 0.6, products)).round(2),
        "private_label": (rng.random(products) < 0.3).astype(int),
        "bestseller": rng.gamma(2.0, 1.0, products).round(2),
    }
    meant = np.arange(queries) % len(CATEGORIES)
    texts = [f"{CATEGORIES[c].lower()} {n}" for n, c in enumerate(meant)]
    listed = {
        "query": texts,
        "type": [TYPES[n % 5 == 0] for n in range(queries)],
        "weight": rng.gamma(2.0, 1.0, queries),
    }
    pairs = []
    for text, c in zip(texts, meant, strict=True):
        others = rng.choice(np.flatnonzero(category != c), 12, replace=False)
        for product in [*np.flatnonzero(category == c), *others]:
            pairs.append((text, f"SKU-{product:04}", round(float(rng.normal(category[product] == c)), 3)))
    pl.DataFrame(catalogue).write_csv(folder / "catalogue.csv")
    pl.DataFrame(listed).write_csv(folder / "queries.csv")
    pl.DataFrame(pairs, schema=["query", "product", "score"], orient="row").write_csv(folder / "scores.csv")
    return {
        "catalogue_file": str(folder / "catalogue.csv"),
        "queries_file": str(folder / "queries.csv"),
        "scores_file": str(folder / "scores.csv"),
        "n_users": 2_000,
        "k": 12,
        "a_max": 1.0,
        "segments": SEGMENTS,
        "behaviour": BEHAVIOUR,
    }
