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


def between(low: float, high: float) -> Any:
    """Return the default of a range.

    Args:
        low, high: Its ends.
    """
    return Field(default_factory=lambda: [low, high])


Drift = Literal["none", "gradual", "sudden", "swapped", "seasonal"]
Pays = Literal["click", "purchase", "revenue", "margin", "mixture"]
DRIFTS: dict[Drift, float] = {"none": 0.3, "gradual": 0.25, "sudden": 0.2, "swapped": 0.1, "seasonal": 0.15}
PAYS: dict[Pays, float] = {"click": 0.4, "purchase": 0.15, "revenue": 0.2, "margin": 0.15, "mixture": 0.1}


class Effect(Strict):
    """An effect on logits: the `share` of shops that have it, and the range of its standard deviation or height."""

    share: Share = 1.0
    size: SizeRange


def _effect(low: float, high: float, share: float = 1.0) -> Effect:
    return Effect(share=share, size=[low, high])


class Effects(Strict):
    """Effects on the logit of a click; each size is a standard deviation over what it is an effect of.

    `products`, `brands` and `categories` are effects of their own, `numbers` those of the products' numbers. `tastes`
    are what visitors' features do to each category, `patterns` what two of their words do together, `curves` what their
    numbers do in bends; `matches` are products of visitors' features and products' numbers, `habits` the tastes of
    single visitors. `hours` is the height of a wave over the day, another for each category; `novelty` what a product
    has on its first day.
    """

    products: Effect = _effect(0.0, 1.0)
    brands: Effect = _effect(0.0, 0.5)
    categories: Effect = _effect(0.0, 0.5)
    numbers: Effect = _effect(0.0, 0.5)
    tastes: Effect = _effect(0.2, 1.0)
    patterns: Effect = _effect(0.2, 0.8, share=0.5)
    curves: Effect = _effect(0.2, 1.0, share=0.4)
    matches: Effect = _effect(0.0, 0.5, share=0.5)
    habits: Effect = _effect(0.2, 0.8, share=0.5)
    hours: Effect = _effect(0.1, 0.6, share=0.5)
    novelty: Effect = _effect(0.2, 1.0, share=0.3)


class Renewal(Strict):
    """The `share` of shops whose products come and go, and the range of the share that is new each day."""

    share: Share
    size: ShareRange


class Delay(Strict):
    """The `share` of shops whose rewards come late, and the range of `visits` by which they do."""

    share: Share
    visits: PositiveRange


class ShopsConfig(Strict):
    """Shops drawn at random, one per seed. Of two numbers, a shop's own lies between them.

    Args:
        click_rate: Mean click rate of products shown at random; drawn evenly on a log scale, as what follows, too.
        purchase_rate: The same of purchases, where these count; there are at least twice as many clicks.
        products: How many products there are from the first visit to the last.
        offered: How many of these are candidates at a time.
        visitors: How many different visitors there are; how often each comes follows a power law.
        visits_per_day: How many visits a day has.
        categories: How many categories there are, at most one for each two products.
        brands: How many brands there are, as `categories`; 0 for none.
        product_numbers: How many numbers tell products apart, such as the price.
        words: How many columns of words describe visitors, with 2 to `levels` words each.
        levels: See `words`.
        numbers: How many numbers describe visitors; half of them change from visit to visit.
        effects: What moves clicks.
        popular: Share of shops in which the products' own effects are heavy-tailed, so that popularity is a power law.
        drift: Share of shops by how tastes move: not at all, gradually, at once for half of the categories, by
            visitors' words changing places, or to and fro.
        turnover: Share of shops whose products come and go, and the share that is new each day.
        delay: Share of shops whose rewards come late, and by how many visits.
        pays: Share of shops by what a visit earns: clicks; purchases; revenue, which is log-normal; margin, which
            returned purchases make negative; or a mixture of clicks and margin.
    """

    click_rate: RateRange = between(0.005, 0.1)
    purchase_rate: RateRange = between(0.005, 0.05)
    products: PositiveRange = between(20.0, 20_000.0)
    offered: PositiveRange = between(20.0, 300.0)
    visitors: PositiveRange = between(500.0, 20_000.0)
    visits_per_day: PositiveRange = between(500.0, 5_000.0)
    categories: PositiveRange = between(3.0, 40.0)
    brands: CountRange = between(0, 40)
    product_numbers: CountRange = between(1, 4)
    words: CountRange = between(1, 3)
    levels: Annotated[int, Field(ge=2, le=50)] = 6
    numbers: CountRange = between(0, 8)
    effects: Effects = Effects()
    popular: Share = 0.5
    drift: Annotated[dict[Drift, Share], AfterValidator(_adding_up)] = Field(default_factory=DRIFTS.copy)
    turnover: Renewal = Renewal(share=0.4, size=[0.01, 0.1])
    delay: Delay = Delay(share=0.5, visits=[10.0, 2_000.0])
    pays: Annotated[dict[Pays, Share], AfterValidator(_adding_up)] = Field(default_factory=PAYS.copy)
