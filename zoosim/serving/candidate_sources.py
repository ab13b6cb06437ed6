"""Where the candidates of a decision come from: a request, all products of a catalogue, or a policy that retrieves."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import places_in
from zoosim.core.errors import ConfigError
from zoosim.core.types import Context, FloatArray, IntArray, Retrieval, frozen
from zoosim.policies.base import Policy
from zoosim.policies.model import Catalogue, Model, product_ids
from zoosim.policies.retrieving import RetrievingPolicy, checked_retrieval
from zoosim.retrieval import IVF, Exact, Index
from zoosim.serving.catalogue import RequestCandidates, ServedCatalogue
from zoosim.serving.shop_rules.candidates import VisitorPast, barred_products
from zoosim.serving.shop_rules.settings import ShopRules

MOST_EXACT = 200_000
"""Products up to which an exact search takes some milliseconds at most; more are searched by an inverted file."""


class Pool(NamedTuple):
    """All products that the top of a page may show, of which exploration draws one, each with the same chance.

    Attributes:
        ids: Ids of all products that may be shown, ascending.
        barred: Places among them of those that a rule keeps from the visitor, ascending.
        share: The share of decisions that is drawn from it, from 0 to 1.
    """

    ids: IntArray
    barred: IntArray
    share: float = 0.0

    @classmethod
    def of(cls, ids: IntArray, barred: Collection[str]) -> "Pool":
        """Return the pool of products with these ids, but for those whose names are barred; nothing is copied."""
        places = places_in(ids, product_ids(sorted(barred)))
        return cls(ids, np.unique(places[places >= 0]))

    @property
    def size(self) -> int:
        """Number of products that may be drawn."""
        return len(self.ids) - len(self.barred)

    def product(self, unit: float) -> int:
        """Return the id of the product that a number in [0, 1) settles."""
        place = int(unit * self.size)
        for gone in self.barred.tolist():
            if place < gone:
                break
            place += 1
        return int(self.ids[place])

    def chance_of(self, product_id: int) -> float:
        """Return the probability with which a decision shows a product from the pool."""
        place = int(np.searchsorted(self.ids, product_id))
        is_there = place < len(self.ids) and self.ids[place] == product_id
        if not is_there or self.share == 0.0 or place in self.barred:
            return 0.0
        return self.share / self.size


class Sought(NamedTuple):
    """What a request seeks candidates for.

    Attributes:
        visitor: The visitor's features `(d_u,)`.
        user_id: The number by which policies know the visitor.
        n_places: How many products its page has.
        rules: The rules of the shop, with those of the request.
        past: What caps keep from the visitor.
    """

    visitor: FloatArray
    user_id: int
    n_places: int
    rules: ShopRules
    past: VisitorPast

    @property
    def pinned(self) -> dict[int, str]:
        """The products that are pinned to places of the page, by place, 1 being the top."""
        return {place: product for place, product in self.rules.pinned.items() if place <= self.n_places}


class Retrieved(NamedTuple):
    """Candidates that a policy retrieved, and what it could have shown instead.

    Attributes:
        retrieval: What the policy answered.
        pool: All products that the top of the page may show; its share is yet to be settled.
    """

    retrieval: Retrieval
    pool: Pool


class Offer(NamedTuple):
    """Candidates that an arm may show.

    Attributes:
        candidates: The candidates.
        ignored: Names of those of the request that cannot be shown.
        retrieved: How they were retrieved; None where they come from the request, or are all products.
    """

    candidates: RequestCandidates
    ignored: list[str]
    retrieved: Retrieved | None = None

    @property
    def n_products(self) -> int:
        """Number of products that could be candidates."""
        return len(self.candidates.names) if self.retrieved is None else len(self.retrieved.pool.ids)


class CandidateSource(ABC):
    """Finds the candidates of a request."""

    @abstractmethod
    def offer(self, sought: Sought) -> Offer:
        """Return the candidates for a request, none where no product may be shown; raises what a policy raises."""


class Listed(CandidateSource):
    """The candidates that a request names."""

    def __init__(self, candidates: RequestCandidates, ignored: list[str]) -> None:
        """Offer candidates, of which some could not be shown."""
        self._offer = Offer(candidates, ignored)

    def offer(self, sought: Sought) -> Offer:
        """Return the candidates of the request."""
        return self._offer


class WholeCatalogue(CandidateSource):
    """All products that may be shown."""

    def __init__(self, catalogue: ServedCatalogue) -> None:
        """Offer the products of a catalogue."""
        self._catalogue = catalogue

    def offer(self, sought: Sought) -> Offer:
        """Return all products, whoever comes."""
        return Offer(self._catalogue.everything(), [])


class RetrievedCandidates(CandidateSource):
    """What a policy retrieves, in an index that follows the catalogue.

    What changed in the catalogue since the request before is changed in the index first, all at once: new products are
    found from the next request on, and those that may not be shown any more never again.
    """

    def __init__(self, policy: RetrievingPolicy, catalogue: ServedCatalogue) -> None:
        """Retrieve from the products of a catalogue."""
        self._policy = policy
        self._catalogue = catalogue
        self._index: Index | None = None
        self._epoch = 0
        self._n_seen = 0

    def offer(self, sought: Sought) -> Offer:
        """Return what the policy retrieves of the products that rules leave, and behind it what is pinned."""
        ids = self._followed().ids
        pool, barred = self._left(ids, sought)
        if len(barred) == len(ids):
            return Offer(self._catalogue.passing([]), [])
        # Read-only, as the policy's answer is checked against it.
        request = Context(user_id=sought.user_id, user=sought.visitor, barred=frozen(barred), count=sought.n_places)
        retrieval = checked_retrieval(self._policy.retrieve(request), ids, barred)
        versions = self._catalogue.versions_by_id(retrieval.candidates)
        candidates = self._catalogue.passing(self._with_pinned(versions, sought.pinned.values()))
        return Offer(candidates, [], Retrieved(retrieval, pool))

    def _left(self, ids: IntArray, sought: Sought) -> tuple[Pool, IntArray]:
        """Return what the top of the page may show of all products, and the ids that are not to be retrieved `(m,)`."""
        pinned = set(sought.pinned.values())
        top = sought.pinned.get(1, "")
        is_top_pinned = self._catalogue.may_be_shown(top) and top not in sought.rules.forbidden_products
        for barred in barred_products(sought.rules, sought.past):
            pool = Pool.of(ids, barred | pinned)
            if pool.size:
                return pool, ids[pool.barred]
            if is_top_pinned:
                break
        # Nothing is left but what is pinned: that is retrieved, so that there are candidates.
        forbidden = sought.rules.forbidden_products
        return pool, ids[Pool.of(ids, (barred - pinned) | (forbidden & pinned)).barred]

    def _with_pinned(self, versions: list[int], pinned: Collection[str]) -> list[int]:
        known = set(versions)
        for name in pinned:
            version = self._catalogue.version_of(name)
            if version is not None and version not in known and self._catalogue.may_be_shown(name):
                versions = [*versions, version]
                known.add(version)
        return versions

    def _followed(self) -> Index:
        """Return the index, as the catalogue is now."""
        catalogue = self._catalogue
        index = self._index
        if index is None or self._epoch != catalogue.epoch:
            index = self._begin()
        elif len(catalogue) > self._n_seen:
            _change(index, catalogue, catalogue.changed_since(self._n_seen))
            self._policy.use_index(index)
        self._n_seen = len(catalogue)
        return index

    def _begin(self) -> Index:
        """Return the index of the model's products, changed where these have changed since it was made."""
        catalogue = self._catalogue
        index = self._index or self._policy.index or new_index(catalogue.model.ids, catalogue.model.features)
        changed = [*catalogue.changed_since(len(catalogue) - catalogue.n_later), *catalogue.hidden()]
        _change(index, catalogue, list(dict.fromkeys(changed)))
        self._policy.use_index(index)
        self._index = index
        self._epoch = catalogue.epoch
        return index


def source_of(policy: Policy, catalogue: ServedCatalogue) -> CandidateSource:
    """Return where the candidates of a request that names none come from, for a policy and its products."""
    if isinstance(policy, RetrievingPolicy):
        return RetrievedCandidates(policy, catalogue)
    return WholeCatalogue(catalogue)


def index_products(model: Model) -> None:
    """Give a model whose policy retrieves an index of its products, before visitors wait for that; else do nothing."""
    policy = model.policy
    catalogue = getattr(model, "catalogue", None)
    if isinstance(policy, RetrievingPolicy) and isinstance(catalogue, Catalogue) and policy.index is None:
        policy.use_index(new_index(catalogue.ids, catalogue.features))


def new_index(ids: IntArray, features: FloatArray) -> Index:
    """Return an index of products: exact, or of many products an inverted file where faiss is installed."""
    if len(ids) > MOST_EXACT:
        try:
            return IVF(ids, features)
        except ConfigError:  # without the extra faiss
            return Exact(ids, features)
    return Exact(ids, features)


def _change(index: Index, catalogue: ServedCatalogue, names: Sequence[str]) -> None:
    """Let an index hold products as a catalogue has them now."""
    ids = product_ids(names)
    shown = [name for name in names if catalogue.may_be_shown(name)]
    is_gone = np.array([not catalogue.may_be_shown(name) for name in names], bool) & (places_in(index.ids, ids) >= 0)
    if is_gone.any():
        index.remove(ids[is_gone])
    if shown:
        versions = [catalogue.version_of(name) for name in shown]
        features = [catalogue.features_of(version) for version in versions if version is not None]
        index.add(product_ids(shown), np.array(features))
