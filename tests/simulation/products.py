"""Which products each arm knows and may show, by a second account of a day's log: slow and plain."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.serving.shop import PRODUCTS
from tests.simulation.closings import goes_on_as
from zoosim.serving.events import CHAMPION, Kind, Product, ProductDecision, Row, Start, unpack_whole

Shown = dict[str, bool]
"""Whether each product that an arm knows may be shown, by its name."""


class Catalogues:
    """What arms know of products, at each row of a log at which that changed.

    Attributes:
        arms: What each arm knows after the last row.
    """

    def __init__(self) -> None:
        """Begin before the first row."""
        self.arms: dict[str, Shown] = {}
        self._start: Start | None = None
        self._moments: list[tuple[int, dict[str, Shown]]] = []

    def apply(self, row: Row, record: Any) -> None:
        """Read the next row."""
        if row.kind is Kind.START:
            self._begin(record)
        elif row.kind is Kind.PRODUCT:
            self._change(record)
        else:
            return
        self._moments.append((row.seq, {name: dict(products) for name, products in self.arms.items()}))

    def can_not_decide(self, name: str, candidates: Iterable[str], after: int, until: int) -> bool:
        """Return whether an arm could show none of some products, as the log was at some row between two."""
        products = list(candidates)
        moments = [arms for seq, arms in self._moments if seq <= after][-1:]
        moments += [arms for seq, arms in self._moments if after < seq < until]
        return any(_shows_none(arms, name, products) for arms in moments if name in arms)

    def _begin(self, start: Start) -> None:
        before = {} if self._start is None else {name: own.origin for name, own in self._start.by_arm().items()}
        going_on = goes_on_as(before, start)
        arms: dict[str, Shown] = {}
        for name in start.by_arm():
            if name in going_on:
                arms[name] = self.arms[going_on[name]]
                continue
            # Another model, which knows its own products alone, and of them what was hidden.
            is_replaced = name in self.arms and name not in going_on.values()
            known = self.arms[name] if is_replaced else arms.get(CHAMPION, {})
            arms[name] = {product: known.get(product, True) for product in PRODUCTS}
        self.arms = arms
        self._start = start

    def _change(self, product: Product) -> None:
        assert self._start is not None
        for name, own in self._start.by_arm().items():
            if own.model == product.model:
                self.arms[name][product.name] = product.available


def _shows_none(arms: Mapping[str, Shown], name: str, candidates: list[str]) -> bool:
    hidden = {product for shown in arms.values() for product, is_shown in shown.items() if not is_shown}
    return not any(arms[name].get(product, False) and product not in hidden for product in candidates)


def candidates_of(decision: ProductDecision, records: Mapping[int, Any]) -> Iterator[str]:
    """Yield the names of the candidates of a request, also of those that the arm that decided did not know."""
    yield from decision.ignored
    for version in unpack_whole(decision.versions).tolist():
        yield PRODUCTS[-1 - version] if version < 0 else records[version].name


def flaws_of_products(catalogues: Catalogues, arms: Mapping[str, Any]) -> Iterator[str]:
    """Yield where arms of a replay know other products than this account says."""
    for name, products in catalogues.arms.items():
        catalogue = arms[name].catalogue
        own = {product: product not in catalogue.hidden() for product in [*catalogue.names(), *catalogue.hidden()]}
        if own != products:
            yield f"arm {name} knows products {own}, expected {products}"
