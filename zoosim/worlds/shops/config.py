"""Distributions that shops are drawn from: ranges and shares, each of which a user may set."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from zoosim.core.config import Strict, check_shares


def in_order(ends: list[float]) -> list[float]:
    if ends[0] > ends[1]:
        raise ValueError(f"the lower end comes first, got {ends}")
    return ends


def _adding_up(shares: dict[str, float]) -> dict[str, float]:
    check_shares("kinds of shops", shares.values())
    return shares


Positive = Annotated[float, Field(gt=0)]
Size = Annotated[float, Field(ge=0, le=5)]
Share = Annotated[float, Field(ge=0, le=1)]
Number = TypeVar("Number")
Range = Annotated[list[Number], Field(min_length=2, max_length=2), AfterValidator(in_order)]
ShareRange = Range[Share]
RateRange = Range[Annotated[float, Field(gt=0, le=0.5)]]
SizeRange = Range[Size]
PositiveRange = Range[Positive]
CountRange = Range[Annotated[int, Field(ge=0, le=100)]]


def between(low: float, high: float, meaning: str) -> Any:
    """Declare a field that holds a range.

    Args:
        low, high: The ends by default.
        meaning: What lies between them.
    """
    return Field(default_factory=lambda: [low, high], description=meaning)


Drift = Literal["none", "gradual", "sudden", "swapped", "seasonal"]
Pays = Literal["click", "purchase", "revenue", "margin", "mixture"]
DRIFTS: dict[Drift, float] = {"none": 0.3, "gradual": 0.25, "sudden": 0.2, "swapped": 0.1, "seasonal": 0.15}
PAYS: dict[Pays, float] = {"click": 0.4, "purchase": 0.15, "revenue": 0.2, "margin": 0.15, "mixture": 0.1}


class Effect(Strict):
    """An effect on the logit of a click."""

    share: Share = Field(1.0, description="share of shops that have this effect")
    size: SizeRange = Field(description="size of this effect")


def _effect(low: float, high: float, meaning: str, share: float = 1.0) -> Any:
    """Declare a field that holds an effect: the default of its size and its share, and what it is an effect of."""
    return Field(Effect(share=share, size=[low, high]), description=meaning)


class Effects(Strict):
    """Effects on the logit of a click."""

    products: Effect = _effect(0.0, 1.0, "products, for everybody")
    brands: Effect = _effect(0.0, 0.5, "brands, for everybody")
    categories: Effect = _effect(0.0, 0.5, "categories, for everybody")
    numbers: Effect = _effect(0.0, 0.5, "products' numbers, for everybody")
    tastes: Effect = _effect(0.2, 1.0, "visitors' words and numbers on each category")
    patterns: Effect = _effect(
        0.2, 0.8, "two words at once on each category, where visitors have two columns of words", share=0.5
    )
    curves: Effect = _effect(0.2, 1.0, "bends of numbers on each category, where visitors have numbers", share=0.4)
    matches: Effect = _effect(0.0, 0.5, "visitors' features times products' numbers", share=0.5)
    habits: Effect = _effect(0.2, 0.8, "each visitor on each category", share=0.5)
    hours: Effect = _effect(0.1, 0.6, "the time of day on each category, a wave over the day", share=0.5)
    novelty: Effect = _effect(0.2, 1.0, "a product's first day, where products come and go", share=0.3)


class Renewal(Strict):
    """Products that come and go."""

    share: Share = Field(description="share of shops whose products come and go")
    size: ShareRange = Field(description="the share of them that is new each day")


class Delay(Strict):
    """Rewards that come late."""

    share: Share = Field(description="share of shops whose rewards come late")
    visits: PositiveRange = Field(description="by how many visits (log)")


class ShopsConfig(Strict):
    """Shops drawn at random, one per seed.

    Of two numbers, a shop's own lies between them, drawn evenly, on a log scale where the meaning ends in (log). The
    size of an effect is a standard deviation of the logit of a click; that of `hours` is the height of the wave, that
    of `novelty` the height on a product's first visit.
    """

    click_rate: RateRange = between(0.005, 0.1, "mean click rate of products shown at random (log)")
    purchase_rate: RateRange = between(
        0.005, 0.05, "the same of purchases, where these count; there are at least twice as many clicks (log)"
    )
    products: PositiveRange = between(20.0, 20_000.0, "products for sale at a time (log)")
    offered: PositiveRange = between(20.0, 300.0, "how many of these are candidates at a visit (log)")
    visitors: PositiveRange = between(500.0, 20_000.0, "different visitors, who come by a power law (log)")
    visits_per_day: PositiveRange = between(500.0, 5_000.0, "visits of a day (log)")
    categories: PositiveRange = between(3.0, 40.0, "categories, at most one for two products (log)")
    brands: CountRange = between(0, 40, "brands, at most one for two products; 0 for none")
    product_numbers: CountRange = between(1, 4, "numbers that tell products apart; the first is the price")
    words: CountRange = between(1, 3, "columns of words that describe visitors, with 2 to `levels` words each")
    levels: int = Field(6, ge=2, le=50, description="most words of such a column")
    numbers: CountRange = between(0, 8, "numbers that describe visitors; half of them change from visit to visit")
    effects: Effects = Effects()
    popular: Share = Field(0.5, description="share of shops in which popularity follows a power law")
    drift: Annotated[dict[Drift, Share], AfterValidator(_adding_up)] = Field(
        default_factory=DRIFTS.copy,
        description="share of shops by how tastes move: not at all; gradually; at once for half of the categories; by "
        "visitors' words changing places; to and fro",
    )
    turnover: Renewal = Renewal(share=0.4, size=[0.01, 0.1])
    delay: Delay = Delay(share=0.5, visits=[10.0, 2_000.0])
    pays: Annotated[dict[Pays, Share], AfterValidator(_adding_up)] = Field(
        default_factory=PAYS.copy,
        description="share of shops by what a visit earns: clicks; purchases; revenue, which is log-normal; margin, "
        "which returned purchases make negative; clicks and margin",
    )
