"""The configuration of a search world: catalogue, users, queries, behaviour and reward, checked when it is made."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from zoosim.core.config import Probability, Strict, check_known, check_shares
from zoosim.core.market_shift import MarketShift, in_force

Scale = Annotated[float, Field(ge=0, le=1e6)]
Positive = Annotated[float, Field(gt=0, le=1e6)]
Weight = Annotated[float, Field(ge=-1e6, le=1e6)]
Logarithm = Annotated[float, Field(ge=-15, le=15)]
Text = Annotated[str, Field(min_length=1)]

FEATURES = (
    "cm2",
    "discount",
    "private label",
    "user match",
    "bestseller",
    "price",
    "strategic cm2",
    "discount x price taste",
    "private label x label taste",
    "specificity x bestseller",
)
"""The ten boost features, in the order of an action."""

TEMPLATES = ("neutral", "cm2", "private-label", "popularity", "premium", "budget", "discount", "strategic")
"""The eight templates, rules that boost products, by their number."""

CLICK_SHARE = (0.01, 0.10)
"""Range of the worth of a click, in units of that of a EUR of GMV: outside, click bait wins."""


class Category(Strict):
    """A category of products.

    Log prices and embeddings (around the category's centre) are normal, bestseller scores normal and cut at 0; CM2 is
    `cm2_slope` times the price, and noise. A product's tokens are the category's `words`. Of a shop's own products
    only `cm2_slope`, `words` and `strategic` count, where their table does not tell.
    """

    share: Probability = 1.0
    log_price_mean: Logarithm = 2.5
    log_price_sd: Annotated[float, Field(ge=0, le=2)] = 0.4
    cm2_slope: Annotated[float, Field(ge=-10, le=10)] = 0.1
    private_label: Probability = 0.0
    bestseller_mean: Weight = 0.0
    bestseller_sd: Scale = 0.0
    embedding_sd: Scale = 0.7
    words: list[Text] = Field(default_factory=list)
    strategic: bool = False


class Discounts(Strict):
    """Discounts of products: with probability `none` not at all, else by a share from `low` to `high`."""

    none: Probability = 0.7
    low: Probability = 0.05
    high: Probability = 0.3

    @model_validator(mode="after")
    def _in_order(self) -> "Discounts":
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g} and high {self.high:g}, expected the lower first")
        return self


class Segment(Strict):
    """A segment of users: normal tastes for price and private label, Dirichlet `category_tastes` (concentrations).

    Without `category_tastes` all categories have the concentration 1 / their number. `intercept` is added to the
    utility of every product, `category_utility` to that of a category's products; `examination` to the log odds that a
    position is examined; `purchase_bias`, and `purchase_price` x log(1 + price), to those of buying what was clicked.
    """

    share: Probability = 1.0
    price_taste_mean: Weight = 0.0
    price_taste_sd: Scale = 0.0
    label_taste_mean: Weight = 0.0
    label_taste_sd: Scale = 0.0
    category_tastes: dict[str, Positive] = Field(default_factory=dict)
    intercept: Weight = 0.0
    category_utility: dict[str, Weight] = Field(default_factory=dict)
    examination: Weight = 0.0
    purchase_bias: Weight = 0.0
    purchase_price: Weight = 0.0

    def concentrations(self, categories: Iterable[str]) -> list[float]:
        """Return the concentration of each category."""
        names = list(categories)
        return [self.category_tastes.get(name, 1.0 / len(names)) for name in names]


class QueryType(Strict):
    """A type of query: `bias` of examination at each position, the last one for all positions beyond.

    `intercept` is added to the utility of every product.
    """

    share: Probability = 1.0
    specificity: Scale = 0.7
    intercept: Weight = 0.0
    bias: Annotated[list[Weight], Field(min_length=1, max_length=1_000)] = Field(
        default_factory=lambda: [1.2, 0.9, 0.7, 0.5, 0.3, 0.2]
    )


class Relevance(Strict):
    """Base relevance: cosine of query and product, log(1 + shared tokens), noise."""

    cosine: Weight = 0.7
    tokens: Weight = 0.3
    noise_sd: Scale = 0.05


class Behaviour(Strict):
    """Behaviour in a ranking: utility of an item, examination, click, purchase, satisfaction, and leaving.

    The utility weighs the cosine of query and product, the base `score`, tastes for price, private label and category,
    the discount, and the bestseller score.
    """

    intercept: Weight = 0.0
    cosine: Weight = 1.0
    score: Weight = 0.0
    price: Weight = 0.8
    private_label: Weight = 1.2
    category: Weight = 0.6
    discount: Weight = 0.0
    bestseller: Weight = 0.0
    utility_sd: Scale = 0.8
    examine_satisfaction: Weight = 0.2
    purchase_slope: Weight = 1.2
    purchase_bias: Weight = 0.3
    purchase_price: Weight = -0.01
    click_satisfaction: Weight = 0.5
    skip_satisfaction: Weight = -0.2
    purchase_satisfaction: Weight = -1.2
    leave_below: Weight = -2.0
    max_purchases: Annotated[int, Field(ge=1, le=1_000)] = 3


class RewardWeights(Strict):
    """Weights of a visit's reward: EUR of GMV and CM2, strategic purchases, clicks, less products that left the top."""

    gmv: Positive = 1.0
    cm2: Weight = 0.4
    strategic: Weight = 2.0
    clicks: Weight = 0.1
    rank_change: Scale = 0.0
    rank_change_at: Annotated[int, Field(ge=1, le=1_000)] = 10

    @model_validator(mode="after")
    def _no_click_bait(self) -> "RewardWeights":
        low, high = (share * self.gmv for share in CLICK_SHARE)
        if not low * (1 - 1e-12) <= self.clicks <= high * (1 + 1e-12):
            raise ValueError(
                f"clicks is {self.clicks:g}, expected {low:g} to {high:g} (.01 to .10 of gmv): outside, click bait wins"
            )
        return self


class Floors(Strict):
    """Limits of a visit: least EUR of CM2, and least share of strategic goods among the products shown.

    Nothing follows from them but a count of visits in the results.
    """

    cm2: float = 0.0
    strategic: Probability = 0.1


def _category(*figures: float, words: str, strategic: bool = False) -> Category:
    names = [name for name in Category.model_fields if name not in ("words", "strategic")]
    return Category(**dict(zip(names, figures, strict=True)), words=words.split(), strategic=strategic)


def _segment(*figures: float, tastes: tuple[float, float, float, float]) -> Segment:
    names = ("share", "price_taste_mean", "price_taste_sd", "label_taste_mean", "label_taste_sd")
    values: dict[str, Any] = dict(zip(names, figures, strict=True))
    return Segment(**values, category_tastes=dict(zip(CATEGORIES, tastes, strict=True)))


CATEGORIES = {
    "dog_food": _category(0.35, 2.6, 0.40, 0.12, 0.35, 2.0, 0.7, 0.7, words="dog food"),
    "cat_food": _category(0.35, 2.5, 0.40, 0.11, 0.40, 2.2, 0.7, 0.7, words="cat food"),
    "litter": _category(0.15, 2.2, 0.35, -0.03, 0.50, 1.2, 0.5, 0.5, words="litter", strategic=True),
    "toys": _category(0.15, 1.8, 0.60, 0.20, 0.15, 0.8, 0.6, 0.9, words="toys"),
}
SEGMENTS = {
    "price_hunter": _segment(0.35, -3.5, 0.30, -1.0, 0.2, tastes=(0.30, 0.30, 0.20, 0.20)),
    "pl_lover": _segment(0.25, -1.8, 0.20, 3.2, 0.3, tastes=(0.20, 0.45, 0.20, 0.15)),
    "premium": _segment(0.15, 1.2, 0.25, -2.0, 0.2, tastes=(0.50, 0.25, 0.05, 0.20)),
    "litter_heavy": _segment(0.25, -1.0, 0.20, 1.0, 0.2, tastes=(0.05, 0.05, 0.85, 0.05)),
}
QUERY_TYPES = {
    "category": QueryType(share=0.6, specificity=0.7, bias=[1.2, 0.9, 0.7, 0.5, 0.3, 0.2]),
    "brand": QueryType(share=0.2, specificity=1.0, bias=[1.5, 0.8, 0.5, 0.3, 0.2, 0.1]),
    "generic": QueryType(share=0.2, specificity=0.4, bias=[1.0, 0.8, 0.6, 0.4, 0.2, 0.1]),
}


class SearchConfig(Strict):
    """A search world. Prices and margins in EUR; `k` products are shown; actions lie in [-a_max, a_max]^10.

    `context` is what a policy observes, and changes nothing else: `simple` (segment and query type), `rich` (those,
    tastes as a shop would estimate them, and the base ranker's top k), `rich-oracle` (the same with the true tastes,
    for studies only). An action outside the box is refused, or with `clip` brought into it. `catalogue_file`,
    `users_file`, `queries_file` and `scores_file` take a shop's own tables (`zoosim.worlds.search.tables`), the first
    two of which then say how many there are. `shifts` change the market at their steps.
    """

    catalogue_file: str | None = None
    users_file: str | None = None
    queries_file: str | None = None
    scores_file: str | None = None
    n_products: Annotated[int, Field(ge=1, le=10_000_000)] = 10_000
    n_users: Annotated[int, Field(ge=1, le=10_000_000)] = 10_000
    k: Annotated[int, Field(ge=1, le=1_000)] = 20
    a_max: Positive = 5.0
    clip: bool = False
    context: Literal["simple", "rich", "rich-oracle"] = "rich"
    embedding_dim: Annotated[int, Field(ge=1, le=4_096)] = 16
    cm2_sd: Scale = 0.3
    discount: Discounts = Discounts()
    query_sd: Scale = 0.05
    vocabulary: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    random_tokens: Annotated[int, Field(ge=0, le=16)] = 2
    categories: Annotated[dict[str, Category], Field(min_length=1)] = CATEGORIES
    segments: Annotated[dict[str, Segment], Field(min_length=1)] = SEGMENTS
    query_types: Annotated[dict[str, QueryType], Field(min_length=1)] = QUERY_TYPES
    relevance: Relevance = Relevance()
    behaviour: Behaviour = Behaviour()
    reward: RewardWeights = RewardWeights()
    floors: Floors = Floors()
    shifts: list[MarketShift] = Field(default_factory=list)

    @property
    def files(self) -> dict[str, str]:
        """Return the files that a shop's own tables lie in, by field."""
        fields = ("catalogue_file", "users_file", "queries_file", "scores_file")
        return {field: getattr(self, field) for field in fields if getattr(self, field) is not None}

    @property
    def mixes(self) -> list[dict[str, float]]:
        """Return the shares of the segments at first, and after each shift in the order of their steps."""
        first = {name: segment.share for name, segment in self.segments.items()}
        return [first, *(shift.shares(first) for shift in in_force(self.shifts))]

    @property
    def renews(self) -> bool:
        """True where some shift replaces products by others."""
        return any(shift.renewal for shift in self.shifts)

    def shares_of(self, segment: str) -> list[float]:
        """Return the shares that a segment has over time."""
        return [mix[segment] for mix in self.mixes]

    @model_validator(mode="after")
    def _consistent(self) -> "SearchConfig":
        for field in ("categories", "segments", "query_types"):
            check_shares(field, (part.share for part in getattr(self, field).values()))
        if self.scores_file is not None and None in (self.catalogue_file, self.queries_file):
            raise ValueError("scores_file: needs the products and queries that it scores: catalogue_file, queries_file")
        if self.catalogue_file is not None and self.renews:
            raise ValueError("shifts: renewal replaces drawn products; leave it out, or catalogue_file")
        for name, segment in self.segments.items():
            _check_tastes(name, segment, self.categories)
        for number, shift in enumerate(self.shifts):
            _check_shift(f"shifts.{number}", shift, self)
        _check_distinct(self.shifts)
        return self


def _check_tastes(name: str, segment: Segment, categories: Mapping[str, Category]) -> None:
    check_known(f"segments.{name}.category_tastes: unknown category", segment.category_tastes, categories)
    check_known(f"segments.{name}.category_utility: unknown category", segment.category_utility, categories)
    for category in categories if segment.category_tastes else ():
        if category not in segment.category_tastes:
            raise ValueError(f"segments.{name}.category_tastes: no {category}; give each category a number above 0")


def _check_shift(label: str, shift: MarketShift, config: "SearchConfig") -> None:
    check_known(f"{label}: unknown segment", shift.segments, config.segments)
    check_known(f"{label}: unknown category", shift.categories, config.categories)
    try:
        shift.shares({name: segment.share for name, segment in config.segments.items()})
    except ValueError as error:
        raise ValueError(f"{label}.{error}") from None


def _check_distinct(shifts: list[MarketShift]) -> None:
    for field in ("step", "name"):
        values = [getattr(shift, field) for shift in shifts]
        if len(set(values)) < len(values):
            twice = max(values, key=values.count)
            raise ValueError(f"shifts: two of them have the {field} {twice!r}; give each its own")
