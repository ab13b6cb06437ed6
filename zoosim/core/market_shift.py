"""Market shifts of a search world: changes of mix, tastes, prices and promotions from a visitor on."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field, model_validator

from zoosim.core.config import Probability, Strict

Factor = Annotated[float, Field(gt=0, le=1_000)]
Change = Annotated[float, Field(ge=-1e6, le=1e6)]


class Tastes(Strict):
    """The change of a segment's tastes since the beginning."""

    price: Change = Field(0.0, description="added to the price tastes of a segment")
    label: Change = Field(0.0, description="added to its tastes for private labels")
    categories: dict[str, Factor] = Field(
        default_factory=dict, description="factors of its tastes by category; all of a user's then add up to 1 again"
    )

    def after(self, before: "Tastes | None") -> "Tastes":
        """Return these changes with what still holds of those `before`."""
        if before is None:
            return self
        named = {field: getattr(self, field) for field in self.model_fields_set}
        return before.model_copy(update={**named, "categories": {**before.categories, **self.categories}})


class Promotion(Strict):
    """A promotion of a category: a share of its products is discounted."""

    share: Probability = Field(description="share of a category's products on promotion")
    discount: Probability = Field(description="their least discount")


class MarketShift(Strict):
    """A change from visitor `step` on; every named part is relative to the world's beginning.

    What a shift does not name stays as the shifts before left it; a factor of 1, a change of 0 or a share of 0 ends
    what an earlier one began. A `segment_mix` takes the place of any before; CM2 follows prices by the category's
    slope.
    """

    step: int = Field(ge=1, description="the visit from which on the market differs")
    name: str = Field(min_length=1, description="what pages call the shift")
    segment_mix: dict[str, Probability] = Field(
        default_factory=dict, description="shares of segments; those left out share the rest as at first"
    )
    tastes: dict[str, Tastes] = Field(default_factory=dict, description="changes of segments' tastes")
    prices: dict[str, Factor] = Field(default_factory=dict, description="factors of prices by category")
    promotions: dict[str, Promotion] = Field(default_factory=dict, description="promotions by category")
    renewal: Probability | None = Field(
        None, description="share of the first products that others have replaced; not with `catalogue_file`"
    )

    @model_validator(mode="after")
    def _something(self) -> "MarketShift":
        changes = (self.segment_mix, self.tastes, self.prices, self.promotions, self.renewal is not None)
        if not any(changes):
            raise ValueError("changes nothing; give segment_mix, tastes, prices, promotions or renewal")
        return self

    @property
    def segments(self) -> list[str]:
        """List the segments that it names."""
        return [*self.segment_mix, *self.tastes]

    @property
    def categories(self) -> list[str]:
        """List the categories that it names."""
        return [
            *self.prices,
            *self.promotions,
            *(name for tastes in self.tastes.values() for name in tastes.categories),
        ]

    def shares(self, first: Mapping[str, float]) -> dict[str, float]:
        """Return the share of each segment, given its `first`; raises `ValueError` where they cannot add up to 1."""
        if not self.segment_mix:
            return dict(first)
        remaining = 1.0 - sum(self.segment_mix.values())
        others = {n: s for n, s in first.items() if n not in self.segment_mix}
        others_total = sum(others.values())
        if remaining < -1e-6 or (others_total == 0.0 and remaining > 1e-6):
            expected = "at most 1" if others_total > 0.0 else "1"
            raise ValueError(f"segment_mix: shares add up to {1.0 - remaining:g}, expected {expected}")
        scaled = {
            name: max(remaining, 0.0) * share / others_total if others_total > 0.0 else 0.0
            for name, share in others.items()
        }
        return {name: self.segment_mix.get(name, scaled.get(name, 0.0)) for name in first}

    def after(self, before: "MarketShift | None") -> "MarketShift":
        """Return this shift with what still holds of `before`."""
        if before is None:
            return self
        tastes = {name: change.after(before.tastes.get(name)) for name, change in self.tastes.items()}
        update = {
            "segment_mix": self.segment_mix or before.segment_mix,
            "tastes": {**before.tastes, **tastes},
            "prices": {**before.prices, **self.prices},
            "promotions": {**before.promotions, **self.promotions},
            "renewal": before.renewal if self.renewal is None else self.renewal,
        }
        return self.model_copy(update=update)


def in_force(shifts: Sequence[MarketShift]) -> tuple[MarketShift, ...]:
    """Return the shifts in the order of their steps, each with what still holds of those before."""
    combined: list[MarketShift] = []
    for shift in sorted(shifts, key=lambda shift: shift.step):
        combined.append(shift.after(combined[-1] if combined else None))
    return tuple(combined)
