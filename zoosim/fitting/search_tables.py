"""The tables and the configuration of a fitted search world, as a search world reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import one_line
from zoosim.core.files import write_text
from zoosim.core.parquet import write_parquet
from zoosim.core.search_config import Behaviour
from zoosim.core.yaml_text import write_yaml
from zoosim.fitting.search_design import CategoryTastes, effect_of_products, query_categories
from zoosim.fitting.search_parameters import EstimatedParameters
from zoosim.logs.searches import Searches
from zoosim.ranking.product_table import ProductTable

DIGITS = 4


def shop_tables(searches: Searches, estimates: EstimatedParameters) -> dict[str, pl.DataFrame]:
    """Return the catalogue, queries and base scores of a log's shop."""
    requests = searches.requests
    schema = requests.schema
    columns = {name: getattr(requests.table, name) for name in ProductTable._fields if name != "category"}
    names = np.array(schema.categories)[requests.table.category]
    appeal = np.asarray(estimates.product)[effect_of_products(searches)].round(DIGITS)
    catalogue = pl.DataFrame({"id": requests.names, "category": names, **columns, "appeal": appeal})
    typed = searches.frame.group_by("query", maintain_order=True).agg(
        # Sorted, as modes of equal count come in no order.
        pl.col("query_type").mode().sort().first().alias("type"),
        pl.len().cast(pl.Float64).alias("weight"),
    )
    categories = query_categories(searches)
    category_names = np.array(schema.categories)[categories["category"].to_numpy()]
    queries = typed.join(categories.with_columns(category=pl.Series(category_names)), on="query", maintain_order="left")
    pairs = searches.frame.select("query", "candidates", "base_scores").explode("candidates", "base_scores")
    by_pair = pairs.group_by("query", "candidates", maintain_order=True)
    scores = by_pair.agg(pl.col("base_scores").mean().alias("score"))
    product_names = pl.Series("product", requests.names)[scores["candidates"].to_numpy()]
    return {
        "catalogue": catalogue.rename({"label": "private_label"}),
        "queries": queries,
        "scores": scores.select("query", product_names, "score"),
    }


def shop_env(
    searches: Searches, tastes: CategoryTastes, estimates: EstimatedParameters, n_users: int
) -> dict[str, Any]:
    """Return the configuration of the world but for its files."""
    schema = searches.requests.schema
    strategic = searches.requests.table.strategic
    in_category = searches.requests.table.category
    counts_of = np.bincount(in_category, minlength=len(schema.categories)) / len(in_category)
    products = _shares(schema.categories, dict(zip(schema.categories, counts_of.tolist(), strict=True)))
    categories = {
        name: {"share": share, "strategic": bool(strategic[in_category == number].any())}
        for number, (name, share) in enumerate(products.items())
    }
    typed = _shares(list(schema.query_types), _searched(searches, "query_type"))
    query_types = {
        name: {
            "share": share,
            "specificity": schema.query_types[name],
            "intercept": _rounded(estimates.query_type[number]),
            "bias": [_rounded(value) for value in estimates.bias[number]],
        }
        for number, (name, share) in enumerate(typed.items())
    }
    shared = ("score", "category", "examine_satisfaction", "purchase_slope")
    means = ("intercept", "purchase_bias", "purchase_price")
    # A shop with base scores of its own has no embeddings, hence no cosine of query and product.
    behaviour = {"cosine": 0.0, **{name: _rounded(getattr(estimates, name)) for name in shared}}
    behaviour |= {name: _rounded(np.mean(getattr(estimates, name))) for name in means}
    return {
        "n_users": n_users,
        "k": schema.k,
        "a_max": schema.a_max,
        "context": schema.context,
        "categories": categories,
        "segments": _segments(searches, tastes, estimates, behaviour),
        "query_types": query_types,
        "behaviour": behaviour,
        "reward": schema.reward.model_dump(),
    }


def _segments(
    searches: Searches, tastes: CategoryTastes, estimates: EstimatedParameters, behaviour: Mapping[str, float]
) -> dict[str, Any]:
    """Return what segments have of their own, as differences to what `behaviour` has for all."""
    schema = searches.requests.schema
    usual = Behaviour()
    segments = {}
    for number, (name, share) in enumerate(_shares(schema.segments, _searched(searches, "segment")).items()):
        beyond = {
            key: _rounded(getattr(estimates, key)[number] - behaviour[key])
            for key in ("intercept", "purchase_bias", "purchase_price")
        }
        segments[name] = {
            "share": share,
            # A world multiplies tastes by weights, which stay at their
            # defaults: what was estimated is the product of both.
            "price_taste_mean": _rounded(estimates.price[number] / usual.price),
            "price_taste_sd": _rounded(estimates.price_sd / usual.price),
            "label_taste_mean": _rounded(estimates.label[number] / usual.private_label),
            "category_tastes": _by_category(schema.categories, tastes.concentrations[number]),
            "category_utility": _by_category(schema.categories, estimates.segment_category[number]),
            "examination": _rounded(estimates.examination[number]),
            **beyond,
        }
    return segments


def _by_category(categories: list[str], values: Any) -> dict[str, float]:
    return {name: _rounded(value) for name, value in zip(categories, values, strict=True)}


def _searched(searches: Searches, column: str) -> dict[str, float]:
    """Return the shares of the searches by the names in a column."""
    counts = searches.frame[column].value_counts()
    return dict(zip(counts[column], counts["count"] / counts["count"].sum(), strict=True))


def _shares(names: list[str], shares: Mapping[str, float]) -> dict[str, float]:
    """Return rounded shares of all names that add up to 1."""
    rounded = {name: _rounded(shares.get(name, 0.0)) for name in names}
    largest = max(rounded, key=lambda name: rounded[name])
    # Rounding leaves a few units of the last digit over, which the largest share notices least.
    rounded[largest] = round(1.0 - sum(share for name, share in rounded.items() if name != largest), DIGITS)
    return rounded


def _rounded(value: Any) -> float:
    return round(float(value), DIGITS)


def write_world(folder: Path, tables: Mapping[str, pl.DataFrame], env: Mapping[str, Any], source: str) -> Path:
    """Write the tables and `world.yaml` of a fitted search world; return the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}  # by paths from the folder on, so that it can be moved
    for name, frame in tables.items():
        files[f"{name}_file"] = f"{name}.parquet"
        write_parquet(frame, folder / f"{name}.parquet", {})
    head = f"# Estimated from {one_line(source)}. Run it: zoosim run continuous-vs-discrete --config FILE\n"
    text = write_yaml({"env": {**files, **env}}, width=120)
    write_text(folder / "world.yaml", head + text)
    return folder / "world.yaml"
