"""The products that requests name: what is new of them is stored before any decision rests on it."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, NamedTuple

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray
from zoosim.policies.model import ID
from zoosim.serving.arm_replica import GROWN_FROM
from zoosim.serving.bodies import ProductBody
from zoosim.serving.catalogue import MOST_VERSIONS
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current, ServedArm
from zoosim.serving.described import Contents
from zoosim.serving.events import Kind, NewRow, Product, pack, pack_floats
from zoosim.serving.ids import product_id
from zoosim.serving.refusals import NotFound
from zoosim.serving.settings import Settings
from zoosim.serving.throttle import Throttle
from zoosim.serving.writer import Writer

Candidate = str | int | dict[str, Any]

logger = logging.getLogger("zoosim.serving")


class Usable(NamedTuple):
    """Candidates of a request that can be shown, as `versions`, and the names of those that cannot, `ignored`."""

    versions: list[int]
    ignored: list[str]


class Complaints:
    """Says in the service's log why candidates were left out, at most once a minute."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._throttle = Throttle(now=now)

    def add(self, reason: str) -> None:
        """Say why a candidate was left out, unless something was said just now."""
        if self._throttle.allows():
            logger.warning("left out of a decision: %s", reason)


def check_size(candidates: Sized, settings: Settings) -> None:
    """Refuse more candidates than the settings allow: `PolicyError`."""
    if len(candidates) > settings.most_candidates:
        raise PolicyError(f"candidates: got {len(candidates):,}, expected at most {settings.most_candidates:,}")


class ProductFinder:
    """Finds the products of requests in the catalogue, and stores those that are not there as they are named."""

    def __init__(self, current: Current, writer: Writer, clock: Clock, check_model: Callable[[], None]) -> None:
        """Use the catalogues of the models that decide.

        Args:
            current: What the service decides by.
            writer: What appends rows to the log.
            clock: The time of rows.
            check_model: Raises `PolicyError` where the model that decides now does not decide on products.
        """
        self._current = current
        self._writer = writer
        self._clock = clock
        self._storing = asyncio.Lock()
        self._check_model = check_model
        self._complaints = Complaints(clock.passed)

    async def usable(
        self,
        arm: ServedArm,
        contents: Contents,
        check: Callable[[Sequence[str]], None] = lambda names: None,
    ) -> Usable:
        """Return those of a request's candidates that an arm can show, once the log holds all of them.

        A shop's catalogue changes daily, so a product that is neither known nor described, or that is hidden, does not
        refuse the request: it is left out, and a line of the service's log says why.

        Args:
            arm: The arm.
            contents: The candidates.
            check: Called with the names that can be shown before what is new of them is stored: what it raises leaves
                no trace.

        Raises:
            PolicyError: no candidate can be shown, or one comes twice or has no id, or there are too many.
            StoreError: what is new could not be stored.
        """
        candidates = contents.candidates
        check_size(candidates, self._current.settings)
        while True:
            self._check_model()
            # Nearly all requests name products that are known, or describe them as before, and an arm more would cost a
            # look at each of them.
            known_versions = arm.catalogue.versions_to_show(contents)
            if known_versions is not None:
                return Usable(known_versions, [])
            origin = arm.start.origin
            products, reasons = self._sort_out(arm, candidates)
            if reasons:
                reason = next(iter(reasons.values()))
                if not products:
                    raise PolicyError(reason)
                self._complaints.add(reason)
            new = [product for product in products.values() if product is not None]
            if new:
                check(list(products))
            stored = await self._store(arm, new) if new else {}
            if arm.start.origin == origin:  # else another model reads other features
                versions = {name: stored.get(name) or _version_of(arm, name) for name in products}
                arm.catalogue.note_described(contents, versions)
                return Usable(list(versions.values()), list(reasons))

    def _sort_out(
        self, arm: ServedArm, candidates: Sequence[Candidate]
    ) -> tuple[dict[str, Product | None], dict[str, str]]:
        """Return candidates by name, those that can be shown as `_product_of` has them, and why others cannot."""
        products: dict[str, Product | None] = {}
        reasons: dict[str, str] = {}
        for candidate in candidates:
            reason = ""
            try:
                name, product = self._product_of(arm, candidate)
            except PolicyError as error:
                name, product = product_id(candidate), None  # which refuses what has no id
                reason = str(error)
            if name in products or name in reasons:
                raise PolicyError(f"candidates: got {shown(name)} twice, expected each once")
            if reason:
                reasons[name] = reason
            else:
                products[name] = product
        return products, reasons

    async def change(self, name: str, body: ProductBody) -> None:
        """Add a product, change its features, or say whether it may be shown; see `Service.change_product`."""
        name = product_id(name)
        while True:
            self._check_model()
            origins = self._current.origins
            new_products = [
                (arm, product) for arm in self._current.takers.values() if (product := self._changed(arm, name, body))
            ]
            if not new_products:
                raise NotFound(f"product {shown(name)}: is not in the catalogue; give its features to add it")
            for arm, product in new_products:
                if not arm.catalogue.is_current(product):
                    await self._store(arm, [product], durable=True)
            if self._current.origins == origins:
                return

    def _changed(self, arm: ServedArm, name: str, body: ProductBody) -> Product | None:
        """Return a product as an arm is to have it, None where it does not know it; raises `PolicyError`."""
        model = arm.model
        catalogue = arm.catalogue
        version = catalogue.version_of(name)
        if body.features is not None:
            features = model.product_features({ID: name, **body.features})
        elif version is not None:
            features = catalogue.features_of(version)
        else:
            return None
        available = catalogue.may_be_shown(name) or version is None if body.available is None else body.available
        return Product(name, pack_floats(features), available, arm.start.model)

    def _product_of(self, arm: ServedArm, candidate: Candidate) -> tuple[str, Product | None]:
        """Return a candidate's name, and the product where its features are given and new; raises `PolicyError`."""
        model = arm.model
        catalogue = arm.catalogue
        if isinstance(candidate, str) and catalogue.may_be_shown(candidate):
            return candidate, None
        name = product_id(candidate)
        columns = candidate if isinstance(candidate, dict) else {}
        names = set(model.fitted.products.names)
        is_described = not names.isdisjoint(columns.keys() - {ID})
        is_shown = catalogue.may_be_shown(name)
        version = catalogue.version_of(name)
        if any(each.catalogue.is_hidden(name) for each in self._current.takers.values()):
            hidden = "which may not be shown (available: false); PUT /v1/products/ID with available: true shows it"
            raise PolicyError(f"candidates: got {shown(name)}, {hidden}")
        if is_shown and not is_described:
            return name, None
        try:
            if GROWN_FROM in model.facts and (is_described or ID in names):
                features = _partly_described(arm, name, version, columns)
            else:
                features = model.product_features(candidate)
        except PolicyError as error:
            raise PolicyError(f"{error}; or add it once by PUT /v1/products/ID") from None
        product = Product(name, pack_floats(features), True, arm.start.model)
        return name, None if catalogue.is_current(product) else product

    async def _store(self, arm: ServedArm, products: Sequence[Product], durable: bool = False) -> dict[str, int]:
        """Store products of an arm, and know them once they are stored; return the version of each.

        One request at a time, so that what several bring at once is stored once. Nothing where the arm goes on with
        another model by then: its origin says so.
        """
        async with self._storing:
            # Another model may have the arm since the products were encoded, to which these features say nothing.
            if any(product.model != arm.start.model for product in products):
                return {}
            catalogue = arm.catalogue
            # Looked at again: while this request waited for the lock, another one may have stored the same.
            new = [product for product in products if not catalogue.is_current(product)]
            versions = {product.name: _version_of(arm, product.name) for product in products if product not in new}
            if catalogue.n_later + len(new) > MOST_VERSIONS:
                raise PolicyError(
                    f"products: got more than {MOST_VERSIONS:,} versions; give features that change less, or begin "
                    "with another model"
                )
            # Without a key, as a product may become again what it was before. The position that a row gets is the
            # version, so nothing knows the product before that is stored, and each row that names it stands behind it.
            rows = [NewRow(self._clock.now(), Kind.PRODUCT, None, pack(product)) for product in new]
            origin = arm.start.origin
            positions = await self._writer.append(rows, durable)
            for product, position in zip(new, positions, strict=True):
                assert position is not None
                versions[product.name] = position
            # Known as the log says, in whose order learners and other services read them: starts that this service has
            # yet to read may stand before these rows, and by those arms begin or take another model.
            if new:
                await self._current.catch_up(max(versions[product.name] for product in new))
            if arm.start.origin == origin:
                # News to an arm alone that has ended meanwhile. Nobody decides by it, as who asked is about to see.
                for product in new:
                    catalogue.change(versions[product.name], product)
            return versions


def _partly_described(arm: ServedArm, name: str, version: int | None, columns: Mapping[str, Any]) -> FloatArray:
    """Return the features of a product; where a request lacks columns it is as its version, if any, was."""
    encoder = arm.model.fitted.products
    before = encoder.encode_one({ID: name}) if version is None else arm.catalogue.features_of(version)
    return encoder.encode_changed(before, {**columns, ID: name})


def _version_of(arm: ServedArm, name: str) -> int:
    version = arm.catalogue.version_of(name)
    assert version is not None
    return version
