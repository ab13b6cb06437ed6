"""The products of a service, and every version of each that it ever had."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray, frozen
from zoosim.policies.model import Catalogue, name_of, product_ids
from zoosim.schema.values import product_key
from zoosim.serving.described import Contents, Descriptions
from zoosim.serving.events import Product, pack_floats, unpack_floats

CANDIDATE_SETS = 1_024
"""Sets of candidates whose arrays are kept, so that policies derive nothing anew from those that come again."""

ALL_AVAILABLE = frozen(np.ones(4_096, bool))
"""Of this mask requests of up to as many candidates share the beginning. More have one of their own: kept for each
number of candidates, those of a large catalogue that grows would fill the memory."""

MOST_VERSIONS = 1_000_000
"""Versions of products that are kept beside those that a model came with."""


def model_version(place: int) -> int:
    """Return the version of the product at a place in the catalogue that a model came with."""
    return -1 - place


class RequestCandidates:
    """The candidates of a request: their versions `(K,)`, names, ids `(K,)` and features `(K, d_p)`.

    `available (K,)` are those that may be shown: all of them, but where the rules of the shop keep some back.
    """

    __slots__ = ("_features", "_groups", "available", "ids", "names", "versions")

    def __init__(
        self,
        versions: IntArray,
        names: tuple[str, ...],
        ids: IntArray,
        features: FloatArray | Callable[[], FloatArray],
    ) -> None:
        """Hold candidates; their features may be made when they are first asked for."""
        self.versions = versions
        self.names = names
        self.ids = ids
        self._features = features
        self.available = _all_available(len(names))
        self._groups: dict[tuple[int, int], IntArray] = {}

    @property
    def features(self) -> FloatArray:
        """Their features `(K, d_p)`, read-only."""
        if callable(self._features):
            self._features = frozen(self._features())
        return self._features

    def among(self, available: BoolArray) -> Self:
        """Return the same candidates, of which those alone may be shown that are `available (K,)`."""
        restricted = copy(self)
        restricted.available = frozen(available)
        return restricted

    def groups(self, place: slice, missing: bytes) -> IntArray:
        """Return which candidates have the same features at a place, as numbers `(K,)` from 0.

        Args:
            place: Where the features stand.
            missing: The bytes of those that say nothing: who has them gets -1.
        """
        key = (place.start, place.stop)
        if key not in self._groups:
            numbers = {missing: -1}
            rows = (row.tobytes() for row in self.features[:, place])
            self._groups[key] = np.array([numbers.setdefault(row, len(numbers) - 1) for row in rows], np.int64)
        return self._groups[key]


class ServedCatalogue:
    """Versions of products, and which of them are current and may be shown.

    The products that the model was trained on have the versions -1, -2 and so on. Each row of the log about a product
    makes another, whose number is the position of the row; the later one is current, in whichever order rows are read.
    A version never changes.

    Attributes:
        model: The products of the model.
        epoch: A number that changes where all of it was taken anew.
    """

    def __init__(self, catalogue: Catalogue, hidden: Iterable[str] = ()) -> None:
        """Start with the products of a model, which may be shown but for those that are `hidden`."""
        self.model = catalogue
        self._by_id: _PlacesById | None = None
        self.epoch = 0
        self._take([], [], np.zeros((0, catalogue.features.shape[1])), hidden)

    def _take(self, names: list[str], versions: list[int], features: FloatArray, hidden: Iterable[str]) -> None:
        """Hold the products of the model, and versions of products beside them, of which some are hidden."""
        # What a model came with may be a million products: their features are the model's own, and not copied.
        self._n_first = len(self.model.names)
        self._names = [*self.model.names, *names]
        self._versions = [*map(model_version, range(self._n_first)), *versions]
        self._later_ids = np.asarray(product_ids(names), np.int64).copy()
        self._later_features = features
        self._place_of = {version: place for place, version in enumerate(self._versions)}
        self._current = {name: model_version(place) for place, name in enumerate(self.model.names)}
        # Versions that are not shown: those before the current ones, and those of hidden products.
        self._unshown: set[int] = set()
        # By version, so that the newest counts: those that came with a model are below 0.
        for version, name in sorted(zip(versions, names, strict=True)):
            if name in self._current:
                self._unshown.add(self._current[name])
            self._current[name] = version
        hidden_versions = {self._current[name] for name in hidden if name in self._current}
        self._unshown |= hidden_versions
        self._n_shown = len(self._current) - len(hidden_versions)
        self._sets: OrderedDict[bytes, RequestCandidates] = OrderedDict()
        self._all: RequestCandidates | None = None
        self._described: Descriptions[int] = Descriptions()
        self._later_by_id: dict[int, int] = {}
        self._n_indexed = 0
        self.epoch += 1

    def __len__(self) -> int:
        """Count the versions, those of the model included."""
        return len(self._names)

    @property
    def n_shown(self) -> int:
        """Number of products that may be shown."""
        return self._n_shown

    @property
    def n_later(self) -> int:
        """Number of versions beside those that the model came with."""
        return len(self._names) - self._n_first

    def __contains__(self, version: int) -> bool:
        return version in self._place_of

    def has_all(self, versions: Iterable[int]) -> bool:
        """Return whether all of these versions are known."""
        return self._place_of.keys() >= set(versions)

    def change(self, version: int, product: Product) -> None:
        """Take over what the row at a position says of a product; nothing where that is known."""
        # The same row comes by several ways: from the request that stored it, from the learner's message, and from the
        # log.
        if version in self._place_of:
            return
        later_place = self.n_later
        if later_place == len(self._later_ids):
            # Doubled, so that adding many products one by one copies each of them a few times only.
            self._grow(2 * later_place + 8)
        self._place_of[version] = len(self._names)
        self._names.append(product.name)
        self._versions.append(version)
        self._later_ids[later_place] = product_ids([product.name])[0]
        self._later_features[later_place] = unpack_floats(product.features)
        earlier = self._current.get(product.name)
        if earlier is not None and earlier > version:
            self._unshown.add(version)
            return
        self._n_shown += product.available - self.may_be_shown(product.name)
        if earlier is not None:
            self._unshown.add(earlier)
        if not product.available:
            self._unshown.add(version)
        self._current[product.name] = version
        # Sets of versions stay as they are, since a version never changes; only what "all" means has changed.
        self._all = None

    def version_of(self, name: str) -> int | None:
        """Return the current version of a product, None for one that is not known."""
        return self._current.get(name)

    def name_of(self, version: int) -> str:
        """Return the name of the product that a version is of."""
        return self._names[self._place_of[version]]

    def changed_since(self, count: int) -> list[str]:
        """Return the names of the products that changed, or came, since there were `count` versions, each once."""
        return list(dict.fromkeys(self._names[count:]))

    def versions_by_id(self, ids: IntArray) -> list[int]:
        """Return the current versions of known products by their ids `(m,)`, at no cost per product of the catalogue.

        What is derived for that from the model's products is made once.
        """
        if self._by_id is None:
            self._by_id = _PlacesById(self.model.ids)
        versions: list[int] = (-1 - self._by_id.places(ids)).tolist()
        if self.n_later:
            later = self._later_versions_by_id()
            versions = [later.get(id_, version) for id_, version in zip(ids.tolist(), versions, strict=True)]
        return versions

    def name_by_id(self, product_id: int) -> str:
        """Return the name of a known product by its id."""
        (version,) = self.versions_by_id(np.array([product_id]))
        return self.name_of(version)

    def _later_versions_by_id(self) -> dict[int, int]:
        """Return the current versions, by id, of the products that changed or came since the model was made."""
        names = self.changed_since(self._n_first + self._n_indexed)
        self._n_indexed = self.n_later
        self._later_by_id.update((product_key(name), self._current[name]) for name in names)
        return self._later_by_id

    def may_be_shown(self, name: str) -> bool:
        """Return whether a product is known and available."""
        version = self._current.get(name)
        return version is not None and version not in self._unshown

    def versions_to_show(self, contents: Contents) -> list[int] | None:
        """Return the current versions of the candidates of a request, in their order.

        None unless each is named once, and is known, as it is described where it is, and may be shown.
        """
        try:
            if contents.described:
                versions = [self._described.get(key) or self._current[key] for key in contents.keys]
            else:
                versions = [self._current[name] for name in contents.keys]
        except KeyError:
            return None
        distinct = set(versions)
        is_each_once = len(distinct) == len(versions) > 0
        return versions if is_each_once and self._unshown.isdisjoint(distinct) else None

    def note_described(self, contents: Contents, versions_by_name: Mapping[str, int]) -> None:
        """Keep which versions the descriptions of a request stand for, of those candidates that have one."""
        for place in contents.described:
            name = name_of(contents.candidates[place])
            if name in versions_by_name:
                self._described.note(contents.keys[place], versions_by_name[name])

    def is_hidden(self, name: str) -> bool:
        """Return whether a product is known and not available."""
        return self._current.get(name) in self._unshown

    def features_of(self, version: int) -> FloatArray:
        """Return the features `(d_p,)` of a version."""
        place = self._place_of[version]
        if place < self._n_first:
            return np.asarray(self.model.features[place])
        return np.asarray(self._later_features[place - self._n_first])

    def is_current(self, product: Product) -> bool:
        """Return whether the product's current version has these features, and this availability."""
        version = self._current.get(product.name)
        if version is None or self.is_hidden(product.name) is product.available:
            return False
        return pack_floats(self.features_of(version)) == product.features

    def hidden(self) -> list[str]:
        """Return the names of the products that may not be shown."""
        return [name for name, version in self._current.items() if version in self._unshown]

    def names(self) -> list[str]:
        """Return the names of the products that may be shown."""
        return [name for name, version in self._current.items() if version not in self._unshown]

    def everything(self) -> RequestCandidates:
        """Return all products that may be shown as candidates."""
        if self._all is None:
            self._all = self.passing([self._current[name] for name in self.names()])
        return self._all

    def candidates(self, versions: Sequence[int]) -> RequestCandidates:
        """Return versions as candidates; the arrays are the same ones when the same versions come again.

        They are kept for that. Candidates that another request will hardly have are `passing` ones.
        """
        numbers = np.array(versions, np.int64)
        key = numbers.tobytes()
        earlier = self._sets.get(key)
        if earlier is not None:
            self._sets.move_to_end(key)
            return earlier
        new = self._made(numbers)
        _ = new.features  # the same array each time
        self._sets[key] = new
        if len(self._sets) > CANDIDATE_SETS:
            self._sets.popitem(last=False)
        return new

    def passing(self, versions: Sequence[int]) -> RequestCandidates:
        """Return versions as candidates, whose arrays are not kept, and whose features are made if they are needed."""
        return self._made(np.array(versions, np.int64))

    def with_product(self, candidates: RequestCandidates, name: str, alone: bool = False) -> RequestCandidates:
        """Return candidates with a product that may be shown among them, or it alone; where it cannot, without it."""
        version = self._current.get(name)
        others = [] if alone else candidates.versions.tolist()
        if version is None or self.is_hidden(name) or version in others:
            return self.passing(others)
        return self.passing([*others, version])

    def names_of(self, versions: Iterable[int]) -> list[str]:
        """Return the names of the products that versions are of."""
        return [self.name_of(version) for version in versions]

    def every_version(self) -> tuple[list[str], list[int], list[FloatArray]]:
        """Return the names, versions and features of all versions, those of the model first."""
        return [*self._names], [*self._versions], [*self.model.features, *self._later_features[: self.n_later]]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return, as plain values and arrays, all versions beside the model's, which its file holds."""
        names = self._names[self._n_first :]
        values = {"names": names, "versions": self._versions[self._n_first :], "hidden": self.hidden()}
        return values, {"product_features": self._later_features[: self.n_later].copy()}

    def load_state(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `state` returned; raises `ValueError` or `LookupError` for what it did not."""
        names = [str(name) for name in values["names"]]
        features = np.array(arrays["product_features"], float)
        versions = [int(version) for version in values["versions"]]
        is_fitting = features.shape == (len(names), self.model.features.shape[1]) and len(versions) == len(names)
        if not is_fitting or not np.isfinite(features).all():
            raise ValueError("products of a snapshot do not fit the model")
        # Snapshots of earlier releases hold those of the model, too.
        places = [place for place, version in enumerate(versions) if version > 0]
        later_names = [names[place] for place in places]
        self._take(later_names, [versions[place] for place in places], features[places], values["hidden"])

    def _made(self, versions: IntArray) -> RequestCandidates:
        # The model's products stand where their versions say; the others are few, and looked up.
        places = -1 - versions
        later = (versions > 0).nonzero()[0]
        if len(later):
            places[later] = [self._place_of[version] for version in versions[later].tolist()]
        names = tuple(map(self._names.__getitem__, places.tolist()))
        ids = self._rows(places, later, self.model.ids, self._later_ids)
        features = partial(self._rows, places, later, self.model.features, self._later_features)
        return RequestCandidates(frozen(versions), names, frozen(ids), features)

    def _rows(self, places: IntArray, later: IntArray, of_model: np.ndarray, of_later: np.ndarray) -> np.ndarray:
        """Return the rows of versions at places, from those of the model's products and, of some, of later versions."""
        if not len(later):
            return of_model.take(places, axis=0)
        rows = np.empty((len(places), *of_later.shape[1:]), of_later.dtype)
        is_first = places < self._n_first
        rows[is_first] = of_model[places[is_first]]
        rows[later] = of_later[places[later] - self._n_first]
        return rows

    def _grow(self, room: int) -> None:
        ids = np.zeros(room, np.int64)
        ids[: len(self._later_ids)] = self._later_ids
        features = np.zeros((room, self._later_features.shape[1]))
        features[: len(self._later_features)] = self._later_features
        self._later_ids = ids
        self._later_features = features


def _all_available(count: int) -> BoolArray:
    """Return a mask of so many candidates, all of which may be shown, read-only."""
    return ALL_AVAILABLE[:count] if count <= len(ALL_AVAILABLE) else frozen(np.ones(count, bool))


class _PlacesById:
    """Finds where products stand by their ids, in a catalogue that does not change."""

    def __init__(self, ids: IntArray) -> None:
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]

    def places(self, ids: IntArray) -> IntArray:
        """Return the places of ids `(m,)`; where one is not there, any place, 0 at least."""
        if not len(self._order):
            return np.zeros(len(ids), np.int64)
        # In their order, as a search that goes on from the one before finds what it needs in the cache.
        order = np.argsort(ids)
        found = np.empty(len(ids), np.int64)
        found[order] = self._order[np.searchsorted(self._sorted, ids[order]).clip(max=len(self._sorted) - 1)]
        return found
