"""The products of a service, and every version of each that it ever had."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.policies.model import Catalogue, product_ids
from zoosim.serving.events import Product, pack_floats, unpack_floats

CANDIDATE_SETS = 1_024
"""Sets of candidates whose arrays are kept, so that policies derive nothing anew from those that come again."""

MOST_CHANGES = 300_000
"""Changes that can be taken back: more than ever wait for the log."""

MOST_VERSIONS = 1_000_000
"""Versions of products that are kept, of one model."""


class Candidates:
    """The candidates of a request: their versions `(K,)`, names, ids `(K,)` and features `(K, d_p)`."""

    __slots__ = ("available", "features", "ids", "names", "versions")

    def __init__(self, versions: IntArray, names: tuple[str, ...], ids: IntArray, features: FloatArray) -> None:
        self.versions = versions
        self.names = names
        self.ids = ids
        self.features = features
        self.available = frozen(np.ones(len(names), bool))


class ServedCatalogue:
    """Versions of products, numbered as they come, and which of them are current and may be shown.

    The first versions are the products that the model was trained on. A version never changes: what is said of a
    product later is another one.
    """

    def __init__(self, catalogue: Catalogue, hidden: Iterable[str] = ()) -> None:
        """Start with the products of a model, which may be shown but for those that are `hidden`."""
        self._names = list(catalogue.names)
        self._ids = np.asarray(catalogue.ids, np.int64)
        self._features = np.array(catalogue.features, float)
        self._current = {name: version for version, name in enumerate(self._names)}
        self._shown = dict.fromkeys(self._names, True)
        self._shown.update({name: False for name in hidden if name in self._shown})
        self._changes: deque[tuple[str, int | None, bool | None]] = deque(maxlen=MOST_CHANGES)
        self._sets: OrderedDict[bytes, Candidates] = OrderedDict()
        self._all: Candidates | None = None

    def __len__(self) -> int:
        return len(self._names)

    def change(self, product: Product) -> int:
        """Take over what is said of a product; return the number of its version."""
        version = len(self._names)
        before = self._current.get(product.name), self._shown.get(product.name)
        self._changes.append((product.name, *before))
        self._names.append(product.name)
        if version == len(self._ids):
            self._grow(2 * version + 8)
        self._ids[version] = product_ids([product.name])[0]
        self._features[version] = unpack_floats(product.features)
        self._current[product.name] = version
        self._shown[product.name] = product.available
        self._all = None
        return version

    def undo(self, changes: int) -> None:
        """Take the last changes back, since the log could not store them."""
        for _ in range(changes):
            name, version, is_shown = self._changes.pop()
            self._names.pop()
            if version is None or is_shown is None:
                del self._current[name], self._shown[name]
            else:
                self._current[name] = version
                self._shown[name] = is_shown
        self._sets.clear()
        self._all = None

    def version_of(self, name: str) -> int | None:
        """Return the current version of a product, None for one that is not known."""
        return self._current.get(name)

    def may_be_shown(self, name: str) -> bool:
        """Tell whether a product is known and available."""
        return self._shown.get(name, False)

    def features_of(self, version: int) -> FloatArray:
        """Return the features `(d_p,)` of a version."""
        return np.asarray(self._features[version])

    def is_current(self, product: Product) -> bool:
        """Tell whether this is what is known of the product already."""
        version = self._current.get(product.name)
        if version is None or self._shown[product.name] is not product.available:
            return False
        return pack_floats(self._features[version]) == product.features

    def hidden(self) -> list[str]:
        """Return the names of the products that may not be shown."""
        return [name for name, is_shown in self._shown.items() if not is_shown]

    def names(self) -> list[str]:
        """Return the names of the products that may be shown."""
        return [name for name, is_shown in self._shown.items() if is_shown]

    def everything(self) -> Candidates:
        """Return all products that may be shown as candidates."""
        if self._all is None:
            self._all = self._made([self._current[name] for name in self.names()])
        return self._all

    def candidates(self, versions: Iterable[int]) -> Candidates:
        """Return versions as candidates; the arrays are the same ones when the same versions come again."""
        wanted = list(versions)
        key = np.array(wanted, np.uint32).tobytes()
        known = self._sets.get(key)
        if known is not None:
            self._sets.move_to_end(key)
            return known
        made = self._made(wanted)
        self._sets[key] = made
        if len(self._sets) > CANDIDATE_SETS:
            self._sets.popitem(last=False)
        return made

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all versions as plain values and arrays."""
        versions = len(self._names)
        values = {"names": self._names, "hidden": self.hidden()}
        return values, {"product_features": self._features[:versions].copy()}

    def load_state(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` returned; raises `ValueError` or `LookupError` for what it did not."""
        names = [str(name) for name in values["names"]]
        features = np.array(arrays["product_features"], float)
        if features.shape != (len(names), self._features.shape[1]) or not np.isfinite(features).all():
            raise ValueError("products of a snapshot do not fit the model")
        self._names, self._features, self._ids = names, features, np.asarray(product_ids(names), np.int64).copy()
        self._current = {name: version for version, name in enumerate(names)}
        hidden = set(values["hidden"])
        self._shown = {name: name not in hidden for name in names}
        self._sets.clear()
        self._all = None

    def _made(self, versions: Sequence[int]) -> Candidates:
        indices = frozen(np.array(versions, np.int64))
        names = tuple(self._names[version] for version in versions)
        features = self._features[indices] if len(versions) else np.zeros((0, self._features.shape[1]))
        return Candidates(indices, names, frozen(self._ids[indices]), frozen(features))

    def _grow(self, room: int) -> None:
        ids = np.zeros(room, np.int64)
        ids[: len(self._ids)] = self._ids
        features = np.zeros((room, self._features.shape[1]))
        features[: len(self._features)] = self._features
        self._ids, self._features = ids, features
