"""Answers of a service to its clients: decisions, and rankings of searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CHAMPION = "champion"
"""The arm that decides where an answer names none."""


@dataclass(frozen=True)
class Decision:
    """A decision of a service: the products to show.

    Attributes:
        id: The decision's id, which feedback names.
        products: Ids of what to show, from the top.
        shown_propensities: The propensity of each: its probability, given those above it.
        propensities: The propensity of each candidate for the top.
        ignored: Ids of candidates that could not be shown: unknown ones without a description, and hidden ones.
        warnings: Lines on what of the request the model was not made for, such as a column that it does not know.
        arm: The arm that decided.
        pinned: Places, 1 being the top, that show pinned products.
        barred: Ids of candidates that a rule of the shop kept back, by rule.
        lifted: Rules that did not hold, since they left nothing.
        model: The digest by which the service knows the model that decided.
    """

    id: str
    products: tuple[str, ...]
    shown_propensities: tuple[float, ...]
    propensities: Mapping[str, float]
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    arm: str = CHAMPION
    pinned: tuple[int, ...] = ()
    barred: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lifted: tuple[str, ...] = ()
    model: str = ""

    @property
    def product(self) -> str:
        """Id of the product to show at the top."""
        return self.products[0]

    @property
    def propensity(self) -> float:
        """The probability with which `product` was drawn."""
        return self.shown_propensities[0]

    @property
    def chances(self) -> tuple[float, ...]:
        """The former name of `shown_propensities`."""
        return self.shown_propensities


@dataclass(frozen=True)
class Ranking:
    """A service's ranking of the results of a search.

    Attributes:
        id: The decision's id, which feedback names.
        products: Ids of what to show, from the top.
        boosts: The boosts that made the ranking.
        density: That of the boosts; None where they were not drawn.
        ignored: Ids of candidates that the model does not know, so that they are not ranked.
        warnings: Lines on what of the request the model was not made for.
        arm: The arm that decided.
    """

    id: str
    products: tuple[str, ...]
    boosts: tuple[float, ...]
    density: float | None
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    arm: str = CHAMPION


def decision_of(content: Mapping[str, Any]) -> Decision:
    """Return the decision that an answer holds."""
    shown = content["shown"]
    return Decision(
        id=content["decision_id"],
        products=tuple(each["product"] for each in shown),
        shown_propensities=tuple(each["propensity"] for each in shown),
        propensities=content["propensities"],
        ignored=tuple(content.get("ignored", ())),
        warnings=tuple(content.get("warnings", ())),
        arm=content.get("arm", CHAMPION),
        pinned=tuple(content.get("pinned", ())),
        barred=content.get("barred", {}),
        lifted=tuple(content.get("lifted", ())),
        model=content.get("model", ""),
    )


def ranking_of(content: Mapping[str, Any]) -> Ranking:
    """Return the ranking that an answer holds."""
    return Ranking(
        id=content["decision_id"],
        products=tuple(content["ranking"]),
        boosts=tuple(content["boosts"]),
        density=content["density"],
        ignored=tuple(content.get("ignored", ())),
        warnings=tuple(content.get("warnings", ())),
        arm=content.get("arm", CHAMPION),
    )
