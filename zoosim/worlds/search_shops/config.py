"""Distributions that search shops are drawn from: ranges and shares, each of which a user may set."""

from typing import Annotated

from pydantic import AfterValidator, Field

from zoosim.core.config import Strict
from zoosim.worlds.shops.config import PositiveRange, Range, Share, ShareRange, between, in_order

Number = Annotated[float, Field(ge=-1e3, le=1e3)]
NumberRange = Range[Number]
Count = Annotated[int, Field(ge=1, le=1_000)]
CountRange = Range[Count]
OpenShare = Annotated[float, Field(gt=0, lt=1)]
RateRange = Annotated[list[OpenShare], Field(min_length=2, max_length=2), AfterValidator(in_order)]


class Products(Strict):
    """Products of a category."""

    log_price: NumberRange = between(1.5, 3.5, "mean of a category's log prices")
    price_spread: PositiveRange = between(0.3, 0.6, "their deviation (log)")
    margin: NumberRange = between(-0.15, 0.4, "a category's CM2 per EUR of the price")
    private_label: ShareRange = between(0.05, 0.6, "a category's share of private labels")
    bestseller: NumberRange = between(0.0, 2.5, "mean bestseller score of a category")
    strategic: Share = Field(0.2, description="share of categories whose products are strategic")


class Visitors(Strict):
    """Visitors of a segment; a shop that does not estimate their tastes knows segment and type of query alone."""

    price: NumberRange = between(-3.0, 3.0, "mean taste of a segment for price")
    label: NumberRange = between(-3.0, 3.0, "mean taste of a segment for private labels")
    spread: PositiveRange = between(0.2, 0.8, "deviation of tastes within a segment (log)")
    told: Share = Field(0.7, description="share of shops that estimate each visitor's tastes")


class Effects(Strict):
    """Effects on the log odds of a click: weights of tastes, of cosine and category, of discounts and bestsellers."""

    price: NumberRange = between(-0.5, 0.5, "log odds of a click by the taste for price; below 0 it means the opposite")
    label: NumberRange = between(-1.2, 1.2, "the same by the taste for private labels")
    category: NumberRange = between(0.0, 4.0, "log odds of a click by the taste for the category")
    cosine: NumberRange = between(0.0, 3.0, "log odds of a click by the cosine of query and product")
    discount: NumberRange = between(-4.0, 6.0, "log odds of a click by the discount")
    bestseller: NumberRange = between(-0.6, 0.8, "log odds of a click by the bestseller score")
    noise: PositiveRange = between(0.4, 1.2, "deviation of what nobody sees (log)")


class Reward(Strict):
    """Parts of a visit's reward beside its GMV."""

    margin: NumberRange = between(0.0, 10.0, "reward of a EUR of CM2; a EUR of GMV counts 1")
    strategic: NumberRange = between(0.0, 10.0, "reward of a strategic purchase, EUR")
    click: RateRange = between(0.01, 0.1, "reward of a click, EUR (log)")
    stable: Share = Field(0.25, description="share of shops where a product that leaves the first ten costs something")
    rank_change: PositiveRange = between(0.02, 0.2, "what it costs there, EUR (log)")


class Changes(Strict):
    """Changes of the catalogue, once or twice in the run."""

    share: Share = Field(0.5, description="share of shops whose catalogue changes once or twice in the run")
    prices: PositiveRange = between(0.6, 1.6, "factor of some categories' prices each time (log)")
    promoted: ShareRange = between(0.1, 0.6, "share of some categories' products on promotion")
    renewal: ShareRange = between(0.1, 0.5, "share of all products that others replace")


class SearchShopsConfig(Strict):
    """Search shops drawn at random, one per seed.

    Of two numbers, a shop's own lies between them, drawn evenly, on a log scale where the meaning ends in (log).
    """

    products: PositiveRange = between(200.0, 1_000.0, "products (log)")
    users: int = Field(2_000, ge=1, le=1_000_000, description="different users")
    shown: CountRange = between(10, 30, "products of a ranking")
    a_max: float = Field(0.5, gt=0, le=100, description="the largest boost")
    categories: CountRange = between(3, 8, "categories of products")
    segments: CountRange = between(2, 4, "segments of users")
    query_types: CountRange = between(2, 4, "types of queries")
    click_rate: RateRange = between(
        0.02, 0.5, "mean click rate of what is looked at, were products shown at random (log)"
    )
    purchase_rate: RateRange = between(0.05, 0.6, "mean share of these clicks that end in a purchase (log)")
    of_products: Products = Products()
    visitors: Visitors = Visitors()
    effects: Effects = Effects()
    reward: Reward = Reward()
    changes: Changes = Changes()
