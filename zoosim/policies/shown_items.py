"""What a visit showed, read from the feedback of a search shop and checked before anything is learned from it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_array, check_whole
from zoosim.core.errors import DataError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.boosts import BoostSpec
from zoosim.policies.item_features import COLUMNS, columns_of


class Shown(NamedTuple):
    """Positions from the top, m of them: `columns (m, 6)` of products, `category (m,)`, `base (m,)` scores.

    Boost `features (m, d)`; `clicks (m,)` and `purchases (m,)`.
    """

    columns: FloatArray
    category: IntArray
    base: FloatArray
    features: FloatArray
    clicks: BoolArray
    purchases: BoolArray


def read_shown(name: str, spec: BoostSpec, feedback: Mapping[str, Any] | None, depth: int) -> Shown:
    """Return the first `depth` positions of what a visit showed; raises `DataError` for what cannot be learned from."""
    if feedback is None:
        raise DataError(f"{name}: got no feedback, expected what the visit showed, as in info['feedback']")
    needed = ("products", "boost_features", "base_scores", "clicks", "purchases")
    missing = [key for key in needed if key not in feedback]
    missing += [key for key in (*COLUMNS, "category") if key not in feedback.get("products", (*COLUMNS, "category"))]
    if missing:
        raise DataError(f"{name}: got feedback without {missing[0]}, expected {', '.join(needed)}")
    m = min(depth, len(feedback["clicks"]))
    products = {key: column[:m] for key, column in feedback["products"].items()}
    numbers = {key: check_array(f"{name}: products {key}", products[key], (m,)) for key in COLUMNS}
    category = np.asarray(products["category"], np.int64)
    highest = int(spec.products.category.max())
    for number in (category.min(), category.max()):
        check_whole(f"{name}: products category", number, 0, highest)
    return Shown(
        columns=columns_of(numbers),
        category=category,
        base=check_array(f"{name}: base_scores", feedback["base_scores"][:m], (m,)),
        features=check_array(f"{name}: boost_features", feedback["boost_features"][:m], (m, spec.product_dim)),
        clicks=check_array(f"{name}: clicks", feedback["clicks"][:m], (m,)) > 0.0,
        purchases=check_array(f"{name}: purchases", feedback["purchases"][:m], (m,)) > 0.0,
    )
