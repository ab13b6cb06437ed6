"""The configuration of a search world: catalogue, users, queries, behaviour and reward, checked when it is made."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from zoosim.core.config import Probability, Strict, check_known, check_shares
from zoosim.core.market_shift import MarketShift, in_force
from zoosim.core.parameters import shown
from zoosim.core.search_names import MOST_TEMPLATES
from zoosim.core.templates import LIBRARIES, Library, check_library

Scale = Annotated[float, Field(ge=0, le=1e6)]
Positive = Annotated[float, Field(gt=0, le=1e6)]
Weight = Annotated[float, Field(ge=-1e6, le=1e6)]
Logarithm = Annotated[float, Field(ge=-15, le=15)]
Text = Annotated[str, Field(min_length=1)]

CLICK_SHARE = (0.01, 0.10)
"""Range of the worth of a click, in units of that of a EUR of GMV: outside, click bait wins."""


class Category(Strict):
    """A category of products.

    Log prices and embeddings (around the category's centre) are normal, bestseller scores normal and cut at 0; CM2 is
    `cm2_slope` times the price, and noise. A product's tokens are the category's `words`. Of a shop's own products
    only `cm2_slope`, `words` and `strategic` count, where their table does not tell.
    """

    share: Probability = Field(
        1.0, description="share of the products; all add up to 1; not read with `catalogue_file`"
    )
    log_price_mean: Logarithm = Field(2.5, description="mean of the logarithm of the price in EUR")
    log_price_sd: float = Field(0.4, ge=0, le=2, description="its standard deviation")
    cm2_slope: float = Field(
        0.1, ge=-10, le=10, description="CM2 by EUR of price; also where your table has no `cm2`, and for price shifts"
    )
    private_label: Probability = Field(0.0, description="share of private labels")
    bestseller_mean: Weight = Field(0.0, description="mean of the bestseller score, cut at 0")
    bestseller_sd: Scale = Field(0.0, description="its standard deviation")
    embedding_sd: Scale = Field(0.7, description="spread of embeddings around the category's")
    words: list[Text] = Field(default_factory=list, description="words that a query shares with its products")
    strategic: bool = Field(False, description="whether its products are strategic goods; not where your table says")


class Discounts(Strict):
    """Discounts of products: with probability `none` not at all, else by a share from `low` to `high`."""

    none: Probability = Field(0.7, description="probability of no discount")
    low: Probability = Field(0.05, description="least discount otherwise, a share")
    high: Probability = Field(0.3, description="largest discount, a share")

    @model_validator(mode="after")
    def _in_order(self) -> "Discounts":
        if self.low > self.high:
            raise ValueError(f"low is {self.low:g} and high {self.high:g}, expected the lower first")
        return self


class Segment(Strict):
    """A segment of users: normal tastes for price and private label, Dirichlet tastes for categories."""

    share: Probability = Field(1.0, description="share of the visits; all add up to 1")
    price_taste_mean: Weight = Field(0.0, description="mean taste for price; below 0 dear products are liked less")
    price_taste_sd: Scale = Field(0.0, description="how much users differ in it")
    label_taste_mean: Weight = Field(0.0, description="mean taste for private labels")
    label_taste_sd: Scale = Field(0.0, description="how much users differ in it")
    category_tastes: dict[str, Positive] = Field(
        default_factory=dict,
        description="Dirichlet concentrations of tastes by category, all or none; empty: 1 / number of categories each",
    )
    intercept: Weight = Field(0.0, description="added to the utility of every product")
    category_utility: dict[str, Weight] = Field(
        default_factory=dict, description="added to the utility of the products of a category"
    )
    discount: Weight = Field(0.0, description="added to the utility of every product, by its discount")
    examination: Weight = Field(0.0, description="added to the log odds that a position is examined")
    purchase_bias: Weight = Field(0.0, description="added to the log odds of buying what was clicked")
    purchase_price: Weight = Field(0.0, description="the same by log(1 + price)")

    def concentrations(self, categories: Iterable[str]) -> list[float]:
        """Return the concentration of each category."""
        names = list(categories)
        return [self.category_tastes.get(name, 1.0 / len(names)) for name in names]


class QueryType(Strict):
    """A type of query: how specific it is, and how far down visitors look."""

    share: Probability = Field(
        1.0, description="share of the visits; all add up to 1; with `queries_file` its weights count"
    )
    specificity: Scale = Field(
        0.7, description="how specific queries are: its sign is in the boost feature specificity x bestseller"
    )
    intercept: Weight = Field(0.0, description="added to the utility of every product")
    bias: list[Weight] = Field(
        default_factory=lambda: [1.2, 0.9, 0.7, 0.5, 0.3, 0.2],
        min_length=1,
        max_length=1_000,
        description="log odds that each position is examined, the last for all beyond",
    )


class Relevance(Strict):
    """Base relevance: cosine of query and product, log(1 + shared tokens), noise."""

    cosine: Weight = Field(
        0.7, description="weight of the cosine of query and product in base scores; not with `scores_file`"
    )
    tokens: Weight = Field(0.3, description="weight of log(1 + shared words); not with `scores_file`")
    noise_sd: Scale = Field(0.05, description="noise of base scores; not with `scores_file`")


class Behaviour(Strict):
    """Behaviour in a ranking: utility of a product, examination, click, purchase, satisfaction, and leaving."""

    intercept: Weight = Field(0.0, description="utility of any product")
    cosine: Weight = Field(1.0, description="utility by cosine of query and product")
    score: Weight = Field(0.0, description="utility by base score")
    price: Weight = Field(0.8, description="utility by price taste x log(1 + price)")
    private_label: Weight = Field(1.2, description="utility by label taste, of a private label")
    category: Weight = Field(0.6, description="utility by taste for the product's category")
    discount: Weight = Field(0.0, description="utility by the product's discount")
    bestseller: Weight = Field(0.0, description="utility by its bestseller score")
    utility_sd: Scale = Field(0.8, description="noise of utilities")
    examine_satisfaction: Weight = Field(0.2, description="log odds of examining by satisfaction")
    purchase_slope: Weight = Field(1.2, description="log odds of buying what was clicked by its utility")
    purchase_bias: Weight = Field(0.3, description="the same of any product")
    purchase_price: Weight = Field(-0.01, description="the same by log(1 + price)")
    click_satisfaction: Weight = Field(0.5, description="satisfaction by the utility of what was clicked")
    skip_satisfaction: Weight = Field(-0.2, description="satisfaction by a product that was looked at and not clicked")
    purchase_satisfaction: Weight = Field(-1.2, description="satisfaction by a purchase")
    leave_below: Weight = Field(-2.0, description="satisfaction below which a visitor leaves")
    max_purchases: int = Field(3, ge=1, le=1_000, description="purchases after which a visitor leaves")


class RewardWeights(Strict):
    """Weights of a visit's reward: EUR of GMV and CM2, strategic purchases, clicks, less products that left the top."""

    gmv: Positive = Field(1.0, description="reward of a EUR of GMV")
    cm2: Weight = Field(0.4, description="reward of a EUR of CM2")
    strategic: Weight = Field(2.0, description="reward of a strategic purchase, EUR")
    clicks: Weight = Field(0.1, description="reward of a click, EUR; .01 to .10 of `reward.gmv`")
    rank_change: Scale = Field(0.0, description="cost of a product that leaves the base ranker's top, EUR")
    rank_change_at: int = Field(10, ge=1, le=1_000, description="length of that top")

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

    cm2: float = Field(0.0, description="EUR of CM2 of a visit below which it is counted")
    strategic: Probability = Field(0.1, description="share of strategic goods shown below which a visit is counted")


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
    for studies only). `zoosim.worlds.search.tables` reads a shop's own tables.
    """

    catalogue_file: str | None = Field(None, description="your products, a table")
    users_file: str | None = Field(None, description="your users, a table")
    queries_file: str | None = Field(None, description="your queries, a table")
    scores_file: str | None = Field(
        None,
        description="your base ranker's score of each candidate of a query; needs `catalogue_file`, `queries_file`",
    )
    n_products: int = Field(
        10_000, ge=1, le=10_000_000, description="products that are drawn; with `catalogue_file` as many as it has"
    )
    n_users: int = Field(
        10_000, ge=1, le=10_000_000, description="users that are drawn; with `users_file` as many as it has"
    )
    k: int = Field(20, ge=1, le=1_000, description="products shown at a visit")
    a_max: Positive = Field(5.0, description="the largest boost, in units of the base score")
    clip: bool = Field(False, description="bring boosts outside the box into it instead of refusing them")
    context: Literal["simple", "rich", "rich-oracle"] = Field("rich", description="what a policy observes")
    embedding_dim: int = Field(16, ge=1, le=4_096, description="length of embeddings")
    cm2_sd: Scale = Field(0.3, description="noise of CM2 of drawn products, EUR")
    discount: Discounts = Discounts()
    query_sd: Scale = Field(0.05, description="noise of a query's embedding around its user's")
    vocabulary: int = Field(512, ge=1, le=1_000_000, description="words that random tokens are drawn from")
    random_tokens: int = Field(2, ge=0, le=16, description="random tokens of a query")
    categories: dict[str, Category] = Field(CATEGORIES, min_length=1, description="categories of products")
    segments: dict[str, Segment] = Field(SEGMENTS, min_length=1, description="segments of users")
    query_types: dict[str, QueryType] = Field(QUERY_TYPES, min_length=1, description="types of queries")
    templates: Library = Field(
        LIBRARIES["rules"],
        min_length=2,
        max_length=MOST_TEMPLATES,
        description=f"templates by name, or one of the libraries {', '.join(LIBRARIES)}",
    )
    relevance: Relevance = Relevance()
    behaviour: Behaviour = Behaviour()
    reward: RewardWeights = RewardWeights()
    floors: Floors = Floors()
    shifts: list[MarketShift] = Field(default_factory=list, description="changes of the market")

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

    @field_validator("templates", mode="before")
    @classmethod
    def _named_library(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return value
        if not isinstance(value, str) or value not in LIBRARIES:
            raise ValueError(f"got {shown(value)}, expected {', '.join(LIBRARIES)}, or a mapping of names to templates")
        return LIBRARIES[value]

    @model_validator(mode="after")
    def _consistent(self) -> "SearchConfig":
        for field in ("categories", "segments", "query_types"):
            check_shares(field, (part.share for part in getattr(self, field).values()))
        if self.scores_file is not None and None in (self.catalogue_file, self.queries_file):
            raise ValueError("scores_file: needs the products and queries that it scores: catalogue_file, queries_file")
        if self.catalogue_file is not None and self.renews:
            raise ValueError("shifts: renewal replaces drawn products; leave it out, or catalogue_file")
        check_library(self.templates, self.a_max)
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
