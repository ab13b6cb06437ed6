"""Read the feedback of a search visit, and check it before anything is learned from it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_array
from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.boosts.base import BoostSpec, checked_categories
from zoosim.policies.boosts.item_features import COLUMNS, columns_of


class Shown(NamedTuple):
    """The first m positions of a ranking: `columns (m, 6)` of products, `category (m,)`, `base (m,)` scores.

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
    for columns in (feedback, feedback.get("products", {}) if isinstance(feedback, Mapping) else {}):
        if not isinstance(columns, Mapping):
            raise DataError(f"{name}: got feedback with {shown(columns)}, expected columns by name")
    missing = [key for key in needed if key not in feedback]
    missing += [key for key in (*COLUMNS, "category") if key not in feedback.get("products", (*COLUMNS, "category"))]
    if missing:
        raise DataError(f"{name}: got feedback without {missing[0]}, expected {', '.join(needed)}")
    clicks = _counts(f"{name}: clicks", feedback["clicks"], None)
    n_positions = len(clicks)
    n_read = min(depth, len(clicks))
    purchases = _counts(f"{name}: purchases", feedback["purchases"], n_positions)
    if np.any(purchases & ~clicks):
        position = int(np.argmax(purchases & ~clicks))
        raise DataError(f"{name}: purchases: got one at position {position} without a click, expected clicks first")
    products = feedback["products"]
    label = f"{name}: products category"
    numbers = {key: check_array(f"{name}: products {key}", products[key], (n_positions,))[:n_read] for key in COLUMNS}
    return Shown(
        columns=columns_of(numbers),
        category=checked_categories(label, check_array(label, products["category"], (n_positions,)), spec)[:n_read],
        base=check_array(f"{name}: base_scores", feedback["base_scores"], (n_positions,))[:n_read],
        features=check_array(f"{name}: boost_features", feedback["boost_features"], (n_positions, spec.product_dim))[
            :n_read
        ],
        clicks=clicks[:n_read],
        purchases=purchases[:n_read],
    )


def _counts(label: str, value: Any, n: int | None) -> BoolArray:
    """Return which of `value (n,)`, booleans or counts, are above 0."""
    numbers = check_array(label, value, (n,))
    wrong = (numbers < 0.0) | (numbers != np.floor(numbers))
    if wrong.any():
        position = int(np.argmax(wrong))
        raise DataError(f"{label}: got {numbers[position]:g} at position {position}, expected whole numbers from 0")
    return numbers > 0.0
