"""A trained retriever: a vector per product, a query per visitor, and the file that holds both."""

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from zoosim.core.digests import value_digest
from zoosim.core.errors import DataError
from zoosim.core.files import checked_file
from zoosim.core.packed import Packing, read_packed, write_packed
from zoosim.core.parameters import shown
from zoosim.core.tabular import TabularResult
from zoosim.core.types import Float32Array, IntArray, frozen
from zoosim.nets.network import count_weights
from zoosim.retrieval.checks import check_ids, check_products, check_vectors, places_of
from zoosim.retrieval.content import content_sums
from zoosim.retrieval.exact import Exact
from zoosim.retrieval.towers.tower import Tower, tower_layers
from zoosim.schema.schema import FittedSchema

if TYPE_CHECKING:
    from zoosim.core.tables import Table

SUFFIX = ".retriever"
PACKING = Packing(
    b"zoosim retriever 1\n", "retriever", "train it anew (zoosim train-retriever)", "zoosim train-retriever writes them"
)
TOWERS = ("visitors", "products")


class Retriever(TabularResult):
    """Vectors of products and queries of visitors, whose inner products are log odds of a click.

    A vector has one number more than the towers' width: its last one is the product's bias, and that of a query is 1.

    Args:
        ids: Ids of the products `(K,)`, as policies and indexes know them.
        vectors: Their vectors `(K, d)`.
        visitors: The tower of visitors, from features to d - 1 numbers.
        products: The tower of products, from features to d numbers.
        names: What the shop calls the products; empty where the log has no names.
        fitted: How visitors and products become features; None where the log does not say.
        facts: What it was trained on and what it found of later rows, as plain values.
    """

    def __init__(
        self,
        ids: IntArray,
        vectors: Float32Array,
        visitors: Tower,
        products: Tower,
        names: tuple[str, ...] = (),
        fitted: FittedSchema | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.ids = frozen(ids)
        self.vectors = frozen(vectors)
        self.names = names
        self.fitted = fitted
        self.facts = dict(facts or {})
        self._visitors = visitors
        self._products = products

    @property
    def version(self) -> str:
        """Names products, vectors and the tower of visitors, in hexadecimal digits: equal ones retrieve the same."""
        sums = content_sums(self.ids, self.vectors)
        tower = self._visitors
        schema = "" if self.fitted is None else self.fitted.fingerprint
        parts = [f"{sums[0]:016x}{sums[1]:016x}", schema]
        parts += [np.ascontiguousarray(array).tobytes().hex() for array in tower]
        return value_digest(parts)[:32]

    def index(self) -> Exact:
        """Return an exact index of the products."""
        return Exact(self.ids, self.vectors)

    def names_of(self, ids: Any) -> list[str]:
        """Return what the shop calls products, by their ids `(m,)`.

        Raises:
            DataError: the log had no names, or one of the products is not known.
        """
        if not self.names:
            raise DataError("names_of: the log had no names of products")
        order, ascending = self._order
        places = places_of(check_ids("ids", ids), ascending, "ids")
        return [self.names[place] for place in order[places]]

    @cached_property
    def _order(self) -> tuple[IntArray, IntArray]:
        """The places of the products by their ids, and the ids, ascending."""
        order = np.argsort(self.ids)
        return order, self.ids[order]

    def queries(self, features: Any) -> Float32Array:
        """Return the queries of visitors `(n, d)` by their features `(n, d_u)`.

        Raises:
            DataError: the features have another shape, or are no finite numbers.
        """
        checked = check_vectors("features", features, len(self._visitors.center) or None)
        vectors = self._visitors.vectors(checked.astype(float))
        return np.column_stack([vectors, np.ones(len(vectors), np.float32)])

    def query(self, visitor: Mapping[str, Any]) -> Float32Array:
        """Return the query `(d,)` of a visitor.

        Args:
            visitor: What is known of the visitor and of the request, by the columns of the table that the log was
                imported from; what is left out counts as missing.

        Raises:
            DataError: the log did not say how its features were made.
        """
        if self.fitted is None:
            raise DataError("query: the log did not say how its features were made; give features to queries")
        if not isinstance(visitor, Mapping):
            raise DataError(f"query: got {shown(visitor)}, expected values by column")
        query: Float32Array = self.queries(self.fitted.visitors.encode_one(visitor)[None])[0]
        return query

    def cold_vectors(self, features: Any) -> Float32Array:
        """Return vectors `(m, d)` of products that the log did not know, by their features `(m, d_p)` alone.

        Raises:
            DataError: the features have another shape, or are no finite numbers.
        """
        checked = check_vectors("features", features, len(self._products.center) or None)
        return self._products.vectors(checked.astype(float))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the retriever to a file that ends in `.retriever`, with a checksum, whole or not at all.

        Raises:
            ConfigError: another ending, or a folder that is not there.
        """
        header = {
            "names": list(self.names),
            "fitted": None if self.fitted is None else self.fitted.model_dump(),
            "facts": self.facts,
        }
        arrays: dict[str, np.ndarray] = {"ids": self.ids, "vectors": self.vectors}
        for name, tower in zip(TOWERS, (self._visitors, self._products), strict=True):
            arrays |= {f"{name}.{part}": getattr(tower, part) for part in ("weights", "center", "scale")}
            arrays[f"{name}.hidden"] = np.array([tower.layers[0, 1]])
        write_packed(checked_file("retriever", path, SUFFIX), PACKING, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a retriever that `save` wrote; nothing in the file is executed.

        Raises:
            DataError: the file is no retriever, or not as it was written.
        """
        where = Path(path)
        header, arrays = read_packed(where, PACKING)
        try:
            ids, vectors = check_products(arrays["ids"], arrays["vectors"])
            names = tuple(map(str, header["names"]))
            fitted = header["fitted"]
            if fitted is not None:
                fitted = FittedSchema.from_json(json.dumps(fitted), str(where))
            width = vectors.shape[1]
            visitors, products = (
                _tower(arrays, name, size) for name, size in zip(TOWERS, (width - 1, width), strict=True)
            )
            if names and len(names) != len(ids):
                raise ValueError("names do not fit ids")
            return cls(ids, vectors, visitors, products, names, fitted, dict(header["facts"]))
        except Exception as error:  # whatever a file that somebody made on purpose may raise
            raise PACKING.broken(where, " ".join(str(error).split())) from None

    def _headline(self) -> str:
        facts = self.facts
        return (
            f"Retriever of {len(self.ids):,} products, trained on {facts.get('rows', 0):,} rows with "
            f"{facts.get('clicks', 0):,} clicks"
        )

    def _tables(self) -> "list[Table]":
        from zoosim.core.tables import table_of_rows

        judged = self.facts.get("judged", {})
        weighed = ", each weighed by 1 / its propensity" if judged.get("weighed") else ""
        title = (
            f"Later rows: share of {judged.get('clicks', 0):,} clicks{weighed} whose product is among the "
            f"{judged.get('k', 0):,} retrieved"
        )
        rows = [
            (way["name"], f"{way['recall']:.3f}", f"{way['low']:.3f} to {way['high']:.3f}", f"{way['log_loss']:.4f}")
            for way in judged.get("ways", [])
        ]
        return [table_of_rows(title, ("retrieval", "recall", "95% interval", "log loss"), rows)]


def _tower(arrays: Mapping[str, np.ndarray], name: str, size: int) -> Tower:
    """Return the tower of a file; raises `ValueError` where its parts do not fit."""
    weights = arrays[f"{name}.weights"]
    center = arrays[f"{name}.center"]
    scale = arrays[f"{name}.scale"]
    layers = tower_layers(len(center), int(arrays[f"{name}.hidden"][0]), size)
    fits = weights.dtype == np.float32 and weights.shape == (count_weights(layers),) and np.isfinite(weights).all()
    columns = np.stack([center, scale])
    if not fits or columns.dtype != np.float64 or columns.ndim != 2 or not np.isfinite(columns).all():
        raise ValueError(f"the tower of {name} does not fit")
    return Tower(weights, layers, center, scale)
