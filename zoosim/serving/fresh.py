"""Begin without a model: log the first requests as they come, infer a schema from them, and grow a policy.

Until then a model that knows nothing stands in: what a request lists first is shown, and some of the rest at random.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.errors import ZoosimError
from zoosim.core.rng import stream
from zoosim.core.types import REWARD, PolicySpec
from zoosim.policies.model import ID, Catalogue, Model
from zoosim.policies.products.adaptive import Adaptive
from zoosim.policies.products.random import Random
from zoosim.schema.columns import CategoryColumn
from zoosim.schema.encoder import Encoder, fit_encoder
from zoosim.schema.infer import infer_type
from zoosim.schema.schema import FittedSchema
from zoosim.schema.values import number_of, text_of
from zoosim.serving.events import Decision, Kind, RawRequest, unpack, unpack_raw
from zoosim.serving.replica import GROWN_FROM, WARM_UP
from zoosim.serving.store.base import Store

FIRST_REQUESTS = 200
"""Requests from which the schema is inferred."""

EXPLORATION = 0.2
"""The least share of the first requests that are answered evenly at random: they are what the policy grows from."""

MOST_COLUMNS = 50
"""Columns of a visitor, or of a product, that become features: those that come most often."""

LEVELS = {"most_levels": 20, "buckets": 16}
"""Levels of a column that become features of their own, and features that the others share: few, as are the rows."""

ROWS_AT_ONCE = 1_000


def warm_up_model() -> Model:
    """Return a model that knows nothing, until there is a schema."""
    products = Encoder(columns=(CategoryColumn(name=ID),))
    fitted = FittedSchema(products=products, weights={REWARD: 1.0})
    policy = Random(PolicySpec(user_dim=0, product_dim=products.width), stream(0, "policy", "random"))
    facts = {"rows": 0, "policy": "random", WARM_UP: FIRST_REQUESTS}
    return Model(policy, fitted, Catalogue((), np.zeros((0, products.width))), facts)


def compile_policy() -> None:
    """Compile what the policy that grows will need, so that no request waits for it."""
    Adaptive(PolicySpec(user_dim=2, product_dim=2), stream(0, "policy", "adaptive")).prepare()


def first_requests(store: Store, model: str, most: int) -> list[RawRequest]:
    """Return the first requests that a model with this digest answered, at most `most`."""
    requests: list[RawRequest] = []
    position = 0
    while rows := store.read(position, ROWS_AT_ONCE):
        for row in rows:
            if row.kind is Kind.DECISION and len(requests) < most:
                decision = unpack(row)
                assert isinstance(decision, Decision)
                if decision.model == model and decision.raw:
                    requests.append(unpack_raw(decision.raw))
        position = rows[-1].seq
    return requests


def grown_model(requests: Sequence[RawRequest], warm_up: str) -> Model:
    """Return the recommended policy, untrained, with a schema inferred from requests.

    Args:
        requests: What came so far.
        warm_up: The digest of the model that answered them.
    """
    visitors = [columns for request in requests for columns in request.visitors]
    candidates = [candidate for request in requests for candidate in request.candidates]
    newest = {name: {**columns, ID: name} for name, columns in candidates}
    products = _inferred_encoder([columns for _, columns in candidates])
    if _needs_ids(products, newest.values()):
        levels = tuple(sorted(newest)) if len(newest) <= MOST_COLUMNS else ()
        products = Encoder(columns=(*products.columns, CategoryColumn(name=ID, levels=levels)))
    fitted = FittedSchema(visitors=_inferred_encoder(visitors), products=products, weights={REWARD: 1.0})
    spec = PolicySpec(user_dim=fitted.visitors.width, product_dim=fitted.products.width)
    policy = Adaptive(spec, stream(0, "policy", "adaptive"))
    features = np.array([products.encode_one(columns) for columns in newest.values()], float)
    catalogue = Catalogue(tuple(newest), features.reshape(len(newest), products.width))
    facts = {"rows": 0, "policy": "adaptive", "schema_rows": len(requests), GROWN_FROM: warm_up}
    return Model(policy, fitted, catalogue, facts)


def _inferred_encoder(rows: Sequence[Mapping[str, Any]]) -> Encoder:
    """Return an encoder of the columns that rows have most often; what holds no information is left out."""
    counts = Counter(name for row in rows for name in row)
    most_often = sorted(counts, key=lambda name: (-counts[name], name))[:MOST_COLUMNS]
    columns: list[Any] = []
    for name in sorted(most_often):
        series = _series(name, [row.get(name) for row in rows])
        kind = infer_type(series).type
        if not kind:
            continue
        is_list = isinstance(series.dtype, pl.List)
        wanted = kind if is_list or kind != "words" else "category"
        try:
            columns += fit_encoder(series.to_frame(), {name: wanted}, "the first requests", **LEVELS).columns
        except ZoosimError:  # a column that cannot be read is no feature
            continue
    return Encoder(columns=tuple(columns))


def _series(name: str, values: Sequence[Any]) -> pl.Series:
    """Return values as a column: of numbers, of yes and no, of lists of numbers or of words, else of texts."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, list) for value in known):
        is_numeric = all(isinstance(part, int | float) for value in known for part in value)
        dtype = pl.List(pl.Float64) if is_numeric else pl.List(pl.String)
        convert = number_of if is_numeric else text_of
        return pl.Series(name, [None if value is None else list(map(convert, value)) for value in values], dtype)
    if known and all(isinstance(value, bool) for value in known):
        return pl.Series(name, values, pl.Boolean)
    if known and all(isinstance(value, int | float) for value in known):
        return pl.Series(name, [number_of(value) for value in values], pl.Float64)
    return pl.Series(name, [text_of(value) if not isinstance(value, list) else None for value in values], pl.String)


def _needs_ids(products: Encoder, newest: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether products that are few differ in their ids alone, or nothing is known of them."""
    rows = list(newest)
    patterns = {products.encode_one(columns).tobytes() for columns in rows}
    return not products.width or (len(patterns) < len(rows) <= MOST_COLUMNS)
