"""Traits of a drawn shop, in words that its engineers would use, and what such a shop asks of a policy."""

from collections.abc import Sequence
from typing import NamedTuple

from zoosim.worlds.facts import Trait
from zoosim.worlds.shops.draw import ShopParameters

LARGE = 0.5
"""Standard deviation, as a logit, from which products' own effects count as large."""


class Words(NamedTuple):
    """The values that a trait may have, each with what it asks of a policy."""

    name: str
    asks: dict[str, str]

    def trait(self, place: int) -> Trait:
        """Return the trait with its value number `place`."""
        value = list(self.asks)[place]
        return Trait(self.name, value, place, self.asks[value])


CLICKS = Words(
    "clicks on products shown at random",
    {
        "below 1%": "hundreds of visits per click: what is learned of one product must serve others",
        "1 to 3%": "some dozens of visits per click: similar products must share what is learned",
        "3% and more": "enough clicks to learn of products one by one, if there are few",
    },
)
SIZE = Words(
    "products",
    {
        "below 200": "each can be tried",
        "200 to 2,000": "most are shown a few times: their features must say what to try",
        "2,000 and more": "most are never shown: a model of single products has nothing to say of them",
    },
)
OWN = Words(
    "effects of products that no feature tells",
    {
        "small": "features say nearly everything",
        "large": "two products with the same features differ: what is a product's own must be learned",
    },
)
TASTES = Words(
    "tastes",
    {
        "additive": "a linear model of visitors and products can hold them",
        "of pairs of words": "a linear model cannot hold them: visitors must be told apart by several words at once",
        "bent": "a linear model of visitors' numbers cannot hold them",
        "both": "neither words nor numbers of visitors act one by one",
    },
)
DRIFT = Words(
    "drift",
    {
        "none": "forgetting only costs",
        "gradual": "what is old misleads a little more each day",
        "sudden": "what was learned of half of the categories is wrong at once",
        "swapped": "visitors' words change places, and nothing tells of it",
        "seasonal": "what is forgotten comes back",
    },
)
DELAY = Words(
    "rewards come",
    {
        "at once": "nothing is open when the next visitor comes",
        "up to 200 visits late": "what is open must not be shown to everybody meanwhile",
        "later": "hundreds of decisions are open: widths must count them, or draws differ",
    },
)
PAYS = Words(
    "a visit pays",
    {
        "click": "rewards are 0 or 1",
        "purchase": "rewards are 0 or 1, and rare",
        "revenue": "most visits pay nothing, and few much: one large basket must not decide",
        "margin": "as revenue, and what is sent back costs",
        "mixture": "clicks tell early what margin tells late",
    },
)


def traits_of(kind: ShopParameters) -> Sequence[Trait]:
    """Say what kind of shop one is."""
    sizes = kind.sizes
    tastes = (1 if sizes["patterns"] else 0) + (2 if sizes["curves"] else 0)
    return (
        CLICKS.trait(_place(kind.click_rate, 0.01, 0.03)),
        SIZE.trait(_place(kind.n_products, 200, 2_000)),
        OWN.trait(_place(sizes["products"], LARGE)),
        TASTES.trait(tastes),
        DRIFT.trait(list(DRIFT.asks).index(kind.drift)),
        DELAY.trait(_place(kind.delay, 1, 201)),
        PAYS.trait(list(PAYS.asks).index(kind.pays)),
    )


def _place(value: float, *starts: float) -> int:
    """Return how many of the `starts` a value has reached."""
    return sum(value >= start for start in starts)
