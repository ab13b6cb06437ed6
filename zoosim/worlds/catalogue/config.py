"""The parameters of a shop of many products."""

from typing import Annotated

from pydantic import Field, model_validator

from zoosim.core.config import Probability, Strict

MOST_PRODUCTS = 5_000_000
"""The most products that a shop may open with."""

Size = Annotated[float, Field(ge=0, le=20)]


class TasteShock(Strict):
    """From a visit on, the tastes of all visitors are moved by one vector, in place of an earlier shock's."""

    step: int = Field(ge=1, description="the visit from which on it applies, before the end of the run")
    name: str = Field(min_length=1, description="what pages call it; each shock has its own")
    size: Size = Field(1.0, description="standard deviation of the vector's numbers; those of visitors' tastes have 1")


class Arrival(Strict):
    """From a visit on, there are new products."""

    step: int = Field(ge=1, description="the visit from which on they are there")
    share: float = Field(0.1, gt=0, le=1, description="how many, as a share of the products of the opening")
    new_category: bool = Field(False, description="whether all of them are of a category that did not exist before")
    appeal: float = Field(0.0, ge=-20, le=20, description="added to their appeal, in standard deviations of appeal")


class RunOut(Strict):
    """From a visit on, some products cannot be shown."""

    step: int = Field(ge=0, description="the visit from which on they are out of stock")
    until: int | None = Field(None, description="the visit from which on they are back; none: they are gone for good")
    share: Probability = Field(0.1, description="share of the products that there are at `step`, drawn at random")

    @model_validator(mode="after")
    def _ends_later(self) -> "RunOut":
        if self.until is not None and self.until <= self.step:
            raise ValueError(f"until is {self.until}, expected a step after {self.step}")
        return self


class CatalogueConfig(Strict):
    """A shop of many products.

    The logit of a click is `base` + `appeal` a + `taste` <t + m, z> / sqrt(`n_tastes`), with a the product's appeal,
    z its tastes, t those of the visitor and m what a shock moved; all of them are drawn with standard deviation 1.
    """

    n_products: int = Field(20_000, ge=1, le=MOST_PRODUCTS, description="products of the opening")
    n_users: int = Field(10_000, ge=1, le=2**31, description="users; each visit is a uniform draw of one")
    n_categories: int = Field(50, ge=1, le=10_000, description="categories; category n has a size in proportion to 1/n")
    n_tastes: int = Field(8, ge=1, le=256, description="numbers of a taste; visitors' are their features")
    in_category: Probability = Field(0.4, description="share of the variance of tastes that a category has in common")
    hidden: Probability = Field(0.1, description="share of the variance of tastes and appeal that no feature shows")
    base: float = Field(-4.5, ge=-20, le=20, description="logit of a click on the mean product")
    appeal: Size = Field(0.8, description="effect of a product's appeal")
    taste: Size = Field(1.2, description="effect of a taste in common")
    shocks: list[TasteShock] = Field([], description="changes of what all visitors like")
    arrivals: list[Arrival] = Field([], description="new products")
    run_outs: list[RunOut] = Field([], description="products that run out of stock")

    @model_validator(mode="after")
    def _fits_together(self) -> "CatalogueConfig":
        names = [shock.name for shock in self.shocks]
        steps = [shock.step for shock in self.shocks]
        if len(set(names)) < len(names):
            raise ValueError(f"shocks: got {max(names, key=names.count)!r} twice, expected each name once")
        if len(set(steps)) < len(steps):
            raise ValueError(f"shocks: got two at step {max(steps, key=steps.count)}, expected one at a step")
        return self

    @property
    def arriving(self) -> list[Arrival]:
        """The arrivals in the order in which they come."""
        return sorted(self.arrivals, key=lambda arrival: arrival.step)

    def n_arriving(self, arrival: Arrival) -> int:
        """Return how many products an arrival brings, at least one."""
        return max(1, round(arrival.share * self.n_products))
