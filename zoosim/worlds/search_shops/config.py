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
    """Products of a category: mean and deviation of log prices, margin, how many are private labels, bestsellers.

    `margin` is CM2 for each EUR of the price; `strategic` the share of categories whose products are strategic.
    """

    log_price: NumberRange = between(1.5, 3.5)
    price_spread: PositiveRange = between(0.3, 0.6)
    margin: NumberRange = between(-0.15, 0.4)
    private_label: ShareRange = between(0.05, 0.6)
    bestseller: NumberRange = between(0.0, 2.5)
    strategic: Share = 0.2


class Visitors(Strict):
    """Visitors of a segment: the means of their tastes for price and private label, and how far a segment's differ.

    `told` is the share of shops that estimate each visitor's tastes; others know segment and type of query alone.
    """

    price: NumberRange = between(-3.0, 3.0)
    label: NumberRange = between(-3.0, 3.0)
    spread: PositiveRange = between(0.2, 0.8)
    told: Share = 0.7


class Effects(Strict):
    """Effects on the log odds of a click: weights of tastes, of cosine and category, of discounts and bestsellers."""

    price: NumberRange = between(-0.5, 0.5)
    label: NumberRange = between(-1.2, 1.2)
    category: NumberRange = between(0.0, 4.0)
    cosine: NumberRange = between(0.0, 3.0)
    discount: NumberRange = between(-4.0, 6.0)
    bestseller: NumberRange = between(-0.6, 0.8)
    noise: PositiveRange = between(0.4, 1.2)


class Reward(Strict):
    """Parts of a visit's reward beside its GMV: a EUR of CM2, a strategic purchase in EUR, a click.

    In a share `stable` of shops, too, what each product costs that leaves the first ten.
    """

    margin: NumberRange = between(0.0, 10.0)
    strategic: NumberRange = between(0.0, 10.0)
    click: RateRange = between(0.01, 0.1)
    stable: Share = 0.25
    rank_change: PositiveRange = between(0.02, 0.2)


class Changes(Strict):
    """The `share` of shops whose catalogue changes, once or twice in the run.

    Each time some categories' prices are multiplied, some have promotions, and a share of all products is replaced.
    """

    share: Share = 0.5
    prices: PositiveRange = between(0.6, 1.6)
    promoted: ShareRange = between(0.1, 0.6)
    renewal: ShareRange = between(0.1, 0.5)


class SearchShopsConfig(Strict):
    """Search shops drawn at random, one per seed. Of two numbers, a shop's own lies between them.

    Args:
        products: How many products there are; drawn evenly on a log scale.
        users: How many different visitors there are.
        shown: How many products a ranking shows.
        a_max: The largest boost.
        categories: How many categories of products there are.
        segments: How many segments of users.
        query_types: How many types of queries; how soon visitors of each give up is drawn.
        click_rate: Mean click rate of products that are looked at, were they shown at random (log).
        purchase_rate: Mean share of these clicks that end in a purchase (log).
    """

    products: PositiveRange = between(200.0, 1_000.0)
    users: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    shown: CountRange = between(10, 30)
    a_max: Annotated[float, Field(gt=0, le=100)] = 0.5
    categories: CountRange = between(3, 8)
    segments: CountRange = between(2, 4)
    query_types: CountRange = between(2, 4)
    click_rate: RateRange = between(0.02, 0.5)
    purchase_rate: RateRange = between(0.05, 0.6)
    of_products: Products = Products()
    visitors: Visitors = Visitors()
    effects: Effects = Effects()
    reward: Reward = Reward()
    changes: Changes = Changes()
