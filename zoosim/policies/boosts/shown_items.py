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

NEEDED = ("products", "boost_features", "base_scores", "clicks", "purchases")
PROPERTIES = (*COLUMNS, "category")
"""The columns of feedback, and those of its products."""


class ShownItems(NamedTuple):
    """The first m positions of a ranking: `columns (m, 6)` of products, `category (m,)`, `base (m,)` scores.

    Boost `features (m, d)`; `clicks (m,)` and `purchases (m,)`.
    """

    columns: FloatArray
    category: IntArray
    base: FloatArray
    features: FloatArray
    clicks: BoolArray
    purchases: BoolArray


def read_shown(name: str, spec: BoostSpec, feedback: Mapping[str, Any] | None, depth: int) -> ShownItems:
    """Return the first positions of what a visit showed.

    Args:
        name: Name of the policy, for messages.
        spec: Its task.
        feedback: What the visit showed, by position, as in `info["feedback"]`.
        depth: Most positions that are returned.

    Raises:
        DataError: a column is missing, of another shape, NaN or infinite, or a purchase has no click.
    """
    columns = _checked_columns(name, feedback)
    clicks = _counts(f"{name}: clicks", columns["clicks"], None)
    n_positions = len(clicks)
    purchases = _counts(f"{name}: purchases", columns["purchases"], n_positions)
    if np.any(purchases & ~clicks):
        position = int(np.argmax(purchases & ~clicks))
        raise DataError(f"{name}: purchases: got one at position {position} without a click, expected clicks first")
    products = columns["products"]
    numbers = {key: check_array(f"{name}: products {key}", products[key], (n_positions,)) for key in PROPERTIES}
    features = check_array(f"{name}: boost_features", columns["boost_features"], (n_positions, spec.product_dim))
    everything: tuple[Any, ...] = ShownItems(
        columns=columns_of(numbers),
        category=checked_categories(f"{name}: products category", numbers["category"], spec),
        base=check_array(f"{name}: base_scores", columns["base_scores"], (n_positions,)),
        features=features,
        clicks=clicks,
        purchases=purchases,
    )
    # Cut only now, so that a fault further down is refused, too.
    return ShownItems(*(column[:depth] for column in everything))


def _checked_columns(name: str, feedback: Any) -> Mapping[str, Any]:
    """Return feedback that has all columns by name; raises `DataError`."""
    if feedback is None:
        raise DataError(f"{name}: got no feedback, expected what the visit showed, as in info['feedback']")
    products = feedback.get("products", {}) if isinstance(feedback, Mapping) else {}
    for columns in (feedback, products):
        if not isinstance(columns, Mapping):
            raise DataError(f"{name}: got feedback with {shown(columns)}, expected columns by name")
    missing = [key for key in NEEDED if key not in feedback]
    missing += [key for key in PROPERTIES if key not in products]
    if missing:
        raise DataError(f"{name}: got feedback without {missing[0]}, expected {', '.join(NEEDED)}")
    checked: Mapping[str, Any] = feedback
    return checked


def _counts(label: str, value: Any, n: int | None) -> BoolArray:
    """Return which of `value (n,)`, booleans or counts, are above 0."""
    numbers = check_array(label, value, (n,))
    wrong = (numbers < 0.0) | (numbers != np.floor(numbers))
    if wrong.any():
        position = int(np.argmax(wrong))
        raise DataError(f"{label}: got {numbers[position]:g} at position {position}, expected whole numbers from 0")
    return numbers > 0.0
