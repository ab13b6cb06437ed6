"""The parameters of a shop whose discounts lure."""

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from zoosim.core.config import Probability, Strict, check_shares

Weight = Annotated[float, Field(ge=-20, le=20)]

MOST_VISITS = 1_000
"""The most visits that the most satisfied visitors may make on average."""


class LuredProduct(Strict):
    """A product: its price, and what boosts go by."""

    price: float = Field(10.0, gt=0, le=1e6, description="EUR that the shop earns; suppliers pay for the discount")
    discount: Probability = Field(0.0, description="share of the price that visitors save; lures")
    quality: Weight = Field(0.0, description="quality, by which visitors are pleased in the end")
    label: bool = Field(False, description="whether it is a private label")
    score: Weight = Field(0.0, description="base score, by which products are ranked without boosts")


class LuredSegment(Strict):
    """A segment of visitors, by their tastes."""

    share: Probability = Field(1.0, description="share of the visitors; all add up to 1")
    quality: Weight = Field(0.5, description="utility of a product by its quality")
    label: Weight = Field(0.0, description="added to the utility of a private label")


def _product(price: float, quality: float, discount: float, score: float, *, label: bool = False) -> LuredProduct:
    return LuredProduct(price=price, quality=quality, discount=discount, score=score, label=label)


PRODUCTS = {
    "leather collar": _product(12, 1.0, 0, 0),
    "salmon dry food": _product(9, 0.7, 0, 0.2, label=True),
    "oak scratching post": _product(10, 0.5, 0, -0.1),
    "rope toy": _product(11, 0.3, 0.2, 0.3),
    "clumping litter": _product(8, 0, 0, 0.1, label=True),
    "squeaky duck": _product(10, -0.1, 0.5, 0),
    "value kibble": _product(9, -0.3, 0.6, 0.2, label=True),
    "plush mouse": _product(12, -0.5, 0.7, -0.2),
    "plastic bowl": _product(11, -0.7, 0.8, 0.1, label=True),
    "glitter leash": _product(10, -1.0, 0.9, 0),
}

SEGMENTS = {
    "moderate": LuredSegment(share=0.4, quality=0.3, label=0.18),
    "choosy": LuredSegment(share=0.3, quality=0.6, label=-0.18),
    "brand lovers": LuredSegment(share=0.3, quality=0.36, label=0),
}


class LureConfig(Strict):
    """A shop that shows a page of few products at each visit, and whose visitors come back by how pleased they were.

    The utility of a product is segment.quality x product.quality, + segment.label of a private label. Clicks and
    purchases follow the utility + `lure` x discount; whether a purchase pleases, the utility alone. Satisfaction has
    levels from -`levels` to `levels`, and lasts from visit to visit.
    """

    products: Annotated[dict[str, LuredProduct], Field(min_length=2, max_length=12)] = Field(
        PRODUCTS, description="name -> product, of which boosts make rankings"
    )
    segments: Annotated[dict[str, LuredSegment], Field(min_length=1, max_length=20)] = Field(
        SEGMENTS, description="name -> segment of visitors, all equally pleased at first"
    )
    shown: int = Field(4, ge=1, le=6, description="products on a page; all where there are fewer")
    a_max: float = Field(1.5, gt=0, le=100, description="largest boost")
    lure: Weight = Field(1.5, description="added to the logits of a click and of a purchase for a discount of 1")
    click: Weight = Field(0.0, description="logit of a click on a product of utility 0 that is looked at")
    purchase: Weight = Field(-1.6, description="the same of buying what was clicked")
    looks_on: Probability = Field(0.7, description="probability that a visitor looks at the next position, too")
    pleases: Weight = Field(2.0, description="logit that a purchase pleases, by utility above `expected`")
    expected: Weight = Field(0.1, description="utility of which half the purchases please")
    levels: int = Field(4, ge=1, le=50, description="levels of satisfaction above the first, and as many below")
    comes_back: float = Field(0.5, ge=1e-6, lt=0.99, description="probability that a visitor of level 0 returns")
    return_by_level: Weight = Field(1.2, description="added to the logit of a return for each level of satisfaction")

    @model_validator(mode="after")
    def _fits_together(self) -> "LureConfig":
        check_shares("segments", [segment.share for segment in self.segments.values()])
        highest = np.log(self.comes_back / (1.0 - self.comes_back)) + self.levels * abs(self.return_by_level)
        visits = 1.0 + np.exp(min(highest, 100.0))
        if visits > MOST_VISITS:
            raise ValueError(
                f"the most satisfied visitors come for {visits:,.0f} visits on average, expected at most "
                f"{MOST_VISITS:,}; lower comes_back, return_by_level or levels"
            )
        return self
